/**
 * The two ports of a worker: the public one for callers, and the private one for the other workers.
 *
 * The public port has the limits of a service's server. The private one answers callers that know the fleet's secret, for partitions of this process.
 * For other partitions it answers `elsewhere`, before it reads a body.
 */
import { timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock } from "../clock.ts";
import { Connections } from "../service/http/connections.ts";
import { plain } from "../service/http/errors.ts";
import { HEADER_BYTES_MAX, SERVER_LIMITS, type ServerLimits } from "../service/http/server.ts";
import type { FleetDirectory } from "./directory.ts";
import type { FleetAccess } from "./fleet_access.ts";
import { DRAINING, dropWorkerHeaders, ELSEWHERE_HEADER, PART_HEADER, SECRET_HEADER } from "./hop_headers.ts";
import type { OwnedPartitions } from "./owned_partitions.ts";
import { type Handler, refuse } from "./router.ts";

/** An open port. */
export interface FleetPort {
  /** Its URL, such as `http://127.0.0.1:8080`. */
  readonly address: string;
  /** Accepts no more connections, waits for answers to end (up to 15 s, 3 s at the private port), and closes the rest. */
  close(): Promise<void>;
}

export interface PortAddress {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
}

const DRAIN_MS = 3_000;
/** Requests wait up to 10 s for the next owner of a partition that this worker has released, and then for its answer. */
const PUBLIC_DRAIN_MS = 15_000;
/** Longer than workers keep idle connections, so that none sends a request on a connection that is closing. */
const PRIVATE_IDLE_MS = 120_000;
const PRIVATE_HEADERS_MS = 10_000;
/** Headers that workers add. */
const ADDED_BYTES_MAX = 2 * 1024;
const ELSEWHERE = plain(421, "elsewhere", "this worker does not have the partition");
const FORBIDDEN = plain(403, "forbidden", "this port is for the workers of the fleet");

/** Rejects with the system's error when it cannot listen. */
export async function openPublicPort(
  clock: Clock,
  handle: Handler,
  { limits: given, ...where }: PortAddress & { readonly limits: Partial<ServerLimits> | undefined },
): Promise<FleetPort> {
  const limits = { ...SERVER_LIMITS, ...given };
  const server = createServer({
    insecureHTTPParser: false,
    requireHostHeader: false, // the service answers in its own form
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: limits.headersMs,
    requestTimeout: 0, // by progress, as in a service
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
  });
  server.timeout = limits.idleMs;
  const connections = new Connections(server, clock, limits);
  server.on("clientError", (error, socket) => connections.refuse(error, socket as import("node:net").Socket)); // of a TCP server
  server.on("request", handle);
  server.maxHeadersCount = 0; // their size is bounded: Node would drop those beyond 1,000 in silence
  return opened(clock, server, { ...where, drainMs: PUBLIC_DRAIN_MS }, () => connections.drain());
}

export interface PrivatePortOptions extends PortAddress {
  readonly secret: string;
  readonly access: FleetAccess;
  /** While it is not fresh, nothing is answered: another worker may have the partitions. */
  readonly directory: Pick<FleetDirectory, "isFresh">;
  readonly local: Pick<OwnedPartitions, "handlerOf" | "isDraining">;
}

/** Rejects with the system's error when it cannot listen. */
export async function openPrivatePort(clock: Clock, options: PrivatePortOptions): Promise<FleetPort> {
  const server = createServer({
    requireHostHeader: false,
    maxHeaderSize: HEADER_BYTES_MAX + ADDED_BYTES_MAX,
    requestTimeout: 0,
    headersTimeout: PRIVATE_HEADERS_MS,
    keepAliveTimeout: PRIVATE_IDLE_MS,
  });
  const { directory, local } = options;
  const secret = Buffer.from(options.secret);
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (!isSame(secret, request.headers[SECRET_HEADER])) return refuse(response, FORBIDDEN);
    await options.access.projectOf(request.headers.authorization); // looks up a key that was just made
    const part = Number(request.headers[PART_HEADER]);
    const handler = directory.isFresh ? local.handlerOf(part, request) : undefined;
    if (handler === undefined) {
      response.setHeader(ELSEWHERE_HEADER, local.isDraining(part) ? DRAINING : "1");
      return refuse(response, ELSEWHERE);
    }
    dropWorkerHeaders(request);
    handler(request, response);
  };
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    handle(request, response).catch(() => response.destroy()); // the worker has left the database of the fleet
  };
  const connections = new Connections(server, clock, SERVER_LIMITS);
  server.on("request", answer);
  server.maxHeadersCount = 0;
  return opened(clock, server, { ...options, drainMs: DRAIN_MS }, () => connections.drain());
}

async function opened(
  clock: Clock,
  server: Server,
  { host, port, drainMs }: PortAddress & { readonly drainMs: number },
  drain: () => void = () => undefined,
): Promise<FleetPort> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const { address, family, port: found } = server.address() as AddressInfo; // it listens on TCP
  return {
    address: `http://${family === "IPv6" ? `[${address}]` : address}:${found}`,
    close: async () => {
      drain();
      const timer = clock.timer(drainMs, () => server.closeAllConnections(), { keepsAlive: false });
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
      timer.cancel();
    },
  };
}

function isSame(secret: Buffer, given: string | readonly string[] | undefined): boolean {
  const bytes = Buffer.from(String(given));
  return bytes.byteLength === secret.byteLength && timingSafeEqual(bytes, secret);
}
