/**
 * Serves metrics: `GET /metrics` on a separate port, or on the service's port only for this machine.
 *
 *   separate port     every caller that reaches the port is answered: the operator decides who does
 *   service's port    callers on the loopback address without a proxy; for all others the route does not exist
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { PerigeeError } from "../../errors.ts";
import type { FastifyInstance, FastifyRequest } from "../http/fastify.ts";
import { isSpoken } from "../http/server.ts";
import { unknownQuery } from "../http/validation.ts";
import type { Metrics } from "./metrics.ts";

/** A proxy on this machine calls from its loopback address for callers from anywhere. */
const PROXY_HEADERS = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
/** The caller disconnected; the status is nginx's. */
const ABORTED = 499;

/** Counts the requests of all routes that are registered from now on. */
export function countRequests(app: FastifyInstance, metrics: Metrics): void {
  const count = (request: FastifyRequest, status: number, seconds: number | undefined): void => {
    const route = request.is404 ? undefined : request.routeOptions.url;
    metrics.answered({ method: request.method, route, status, seconds });
  };
  app.addHook("onResponse", (request, reply, done) => {
    count(request, reply.statusCode, reply.elapsedTime / 1_000);
    done();
  });
  app.addHook("onRequestAbort", (request, done) => {
    count(request, ABORTED, undefined);
    done();
  });
}

/** On the service's own port. Throws `not_found` at callers from elsewhere. */
export function registerMetricsRoute(app: FastifyInstance, metrics: Metrics): void {
  const config = { takesAnyQuery: true }; // a caller that may not read metrics gets the same 404 with any query
  app.get("/metrics", { config, schema: { hide: true } }, async (request, reply) => {
    if (!isFromThisMachine(request.raw))
      throw new PerigeeError("not_found", "there is nothing at this address");
    const unknown = unknownQuery(request.query);
    if (unknown !== undefined) throw unknown;
    const { contentType, text } = await metrics.render();
    return reply.header("cache-control", "no-store").type(contentType).send(text);
  });
}

/** Metrics as text, and what type of text. */
export interface RenderedMetrics {
  readonly contentType: string;
  readonly text: string;
}

/** A port that was opened. */
export interface MetricsPort {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves only metrics, on port 0 for a free one. Rejects with the system's error when it cannot listen. */
export async function openMetricsPort(
  metrics: { render(): Promise<RenderedMetrics> },
  { host, port }: { readonly host: string; readonly port: number },
): Promise<MetricsPort> {
  const server = createServer((request, response) => {
    if (!isSpoken(request.httpVersion)) {
      response.writeHead(505, { connection: "close" }).end();
      return;
    }
    const [path, query] = (request.url ?? "").split("?");
    if (path !== "/metrics" || request.method !== "GET") {
      response.writeHead(path === "/metrics" ? 405 : 404).end();
      return;
    }
    if (query !== undefined && query !== "") {
      response.writeHead(422).end();
      return;
    }
    metrics.render().then(
      ({ contentType, text }) => {
        response.writeHead(200, { "content-type": contentType, "cache-control": "no-store" }).end(text);
      },
      () => response.writeHead(500).end(), // what it was may name what users sent
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port, // it listens on TCP
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Whether its caller is on this machine, and no proxy on it has passed the request on. */
export function isFromThisMachine(request: IncomingMessage): boolean {
  const address = request.socket.remoteAddress ?? "";
  const isLoopback = address === "::1" || /^(::ffff:)?127\./.test(address);
  return isLoopback && PROXY_HEADERS.every((name) => request.headers[name] === undefined);
}
