/**
 * Agents for clients that speak HTTP by themselves: their connections go to addresses that the egress guard checked.
 *
 *   asked for a connection -> url checked -> connected by the guard -> TLS under the host's name -> the client's
 */
import { Agent, type AgentOptions } from "node:http";
import { Agent as TlsAgent } from "node:https";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { connect } from "node:tls";
import type { Clock } from "../../../clock.ts";
import type { Egress } from "../../../egress/egress.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";

interface Target {
  readonly host?: string | null | undefined;
  readonly port?: number | string | null | undefined;
  readonly servername?: string | undefined;
}

type Callback = (error: Error | null, socket?: Duplex) => void;

const OPTIONS: AgentOptions = { keepAlive: true, maxSockets: 16 };

/** Requests over them fail with `SatelliteError` where no connection was made. Destroy both. */
export function guardedAgents(
  egress: Egress,
  clock: Clock,
  timeoutMs: number,
): { readonly httpAgent: Agent; readonly httpsAgent: TlsAgent } {
  const httpAgent = new Agent(OPTIONS);
  const httpsAgent = new TlsAgent(OPTIONS);
  const create =
    (scheme: "http" | "https") =>
    (target: Target, callback: Callback): void => {
      open({ egress, clock, timeoutMs }, scheme, target).then(
        (socket) => callback(null, socket),
        (error: Error) => callback(error),
      );
    };
  // Node takes sockets from the callback; its types want one returned.
  Object.assign(httpAgent, { createConnection: create("http") });
  Object.assign(httpsAgent, { createConnection: create("https") });
  return { httpAgent, httpsAgent };
}

async function open(
  {
    egress,
    clock,
    timeoutMs,
  }: { readonly egress: Egress; readonly clock: Clock; readonly timeoutMs: number },
  scheme: "http" | "https",
  target: Target,
): Promise<Duplex> {
  const host = (target.host ?? "").replace(/^\[|\]$/g, "");
  const port = Number(target.port ?? (scheme === "https" ? 443 : 80));
  const checked = egress.check(`${scheme}://${isIP(host) === 6 ? `[${host}]` : host}:${port}/`);
  if (!checked.ok) throw new SatelliteError("permanent", "blocked_destination", checked.message);
  const result = await egress.connect({ host, port, timeoutMs });
  if (!result.ok) {
    if (result.failure === "blocked_destination")
      throw new SatelliteError("permanent", "blocked_destination", result.message);
    throw new SatelliteError("not_sent", "connection_failed", result.message);
  }
  const { socket } = result;
  if (scheme === "http") return socket.resume();
  const secure = connect({
    socket,
    ALPNProtocols: ["http/1.1"],
    ...(isIP(host) === 0 ? { servername: host } : {}),
  });
  return new Promise((resolve, reject) => {
    const timer = clock.timer(timeoutMs, () => secure.destroy(new Error("no TLS in time")));
    secure.once("close", () => timer.cancel());
    secure.once("secureConnect", () => {
      timer.cancel();
      resolve(secure);
    });
    secure.once("error", (cause) =>
      reject(new SatelliteError("not_sent", "connection_failed", "no TLS connection was made", { cause })),
    );
  });
}
