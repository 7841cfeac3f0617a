/**
 * Node's agents that go through the proxies of the environment, for clients that are not undici.
 *
 *   https   a tunnel through the proxy of its origin, TLS inside it
 *   http    directly: stores without TLS are on the same machine or network
 *
 * Limits: 1,024 connections to a host, 5 s for the proxy's answer.
 */
import { Agent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Clock } from "../../clock.ts";
import { type ProxyOf, tunnelConnector } from "../../dispatch/proxy.ts";

const AGENT = { keepAlive: true, maxSockets: 1_024 };
const TUNNEL_MS = 5_000;

type CreateConnection = (
  options: ConnectionOptions,
  callback: (error: Error | null, socket?: Socket) => void,
) => Socket | undefined;

/** Destroy both when they are not used any more. */
export function proxyAgents(
  proxyOf: ProxyOf,
  clock: Pick<Clock, "timer">,
): { readonly httpAgent: Agent; readonly httpsAgent: TlsAgent } {
  const createConnection: CreateConnection = (options, callback) => {
    const hostname = options.host ?? "localhost";
    const port = String(options.port ?? 443);
    const name = hostname.includes(":") ? `[${hostname}]` : hostname;
    const proxy = proxyOf(`https://${name}:${port}`);
    if (proxy === undefined) return connectTls(options);
    const tunnel = tunnelConnector(
      proxy,
      ({ httpSocket }, done) => done(null, connectTls({ ...options, socket: httpSocket })),
      { clock, timeoutMs: TUNNEL_MS },
    );
    tunnel({ hostname, protocol: "https:", port }, (error, socket) => callback(error, socket ?? undefined));
    return undefined;
  };
  return {
    httpAgent: new Agent(AGENT),
    httpsAgent: Object.assign(new TlsAgent(AGENT), { createConnection }),
  };
}
