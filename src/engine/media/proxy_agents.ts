/**
 * Node's agents that go through the proxies of the environment, for clients that are not undici.
 *
 *   https   a tunnel through the proxy of its origin, TLS inside it
 *   http    the request with its whole address to the proxy of its origin
 *
 * Limits: 1,024 connections to a host, 5 s for the proxy's answer.
 */
import { Agent, type ClientRequest } from "node:http";
import { Agent as TlsAgent } from "node:https";
import { connect, type NetConnectOpts, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Clock } from "../../clock.ts";
import { type HttpProxy, type ProxyOf, tunnelConnector } from "../../dispatch/proxy.ts";

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
    httpAgent: plainAgent(proxyOf),
    httpsAgent: Object.assign(new TlsAgent(AGENT), { createConnection }),
  };
}

/** Where a request goes, as Node tells its agents. */
interface Destination {
  readonly host?: string | null;
  readonly port?: string | number | null;
}

/** What Node calls to send a request by an agent; its types do not have it. */
type AddRequest = (this: Agent, request: ClientRequest, options: Destination) => void;

function plainAgent(proxyOf: ProxyOf): Agent {
  const agent = new Agent(AGENT) as Agent & { readonly addRequest: AddRequest };
  const direct = agent.addRequest;
  const addRequest: AddRequest = (request, options) => {
    const origin = originOf(options);
    const proxy = proxyOf(origin);
    if (proxy === undefined) return direct.call(agent, request, options);
    request.path = `${origin}${request.path}`; // nothing is written yet
    if (proxy.authorization !== undefined) request.setHeader("proxy-authorization", proxy.authorization);
    return direct.call(agent, request, { ...options, ...addressOf(proxy) });
  };
  const createConnection = (options: ConnectionOptions & { readonly isTls?: boolean }): Socket =>
    options.isTls === true ? connectTls(options) : connect(options as NetConnectOpts); // Node passes host and port
  return Object.assign(agent, { addRequest, createConnection });
}

function originOf({ host, port }: Destination): string {
  const name = host ?? "localhost";
  return `http://${name.includes(":") ? `[${name}]` : name}:${port ?? 80}`;
}

function addressOf({ origin }: HttpProxy): {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
} {
  const { protocol, hostname, port } = new URL(origin);
  const isTls = protocol === "https:";
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || (isTls ? 443 : 80), isTls };
}
