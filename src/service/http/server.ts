/**
 * The HTTP server: Fastify with strict bounds, one shape of errors, and one hook for keys.
 *
 * Limits: headers 16 KiB within 10 s, a request 5 min or 1 MiB each further 5 min, idle 60 s, keep-alive 5 s, JSON
 * 10 MiB (a list of items: `infer.ts`). Both slash forms of a path are one route. No CORS, no decoding of bodies.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../clock.ts";
import { isLoopbackHost } from "../../egress/address.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import type { Audit } from "../../store/audit/audit_log.ts";
import { registerAudit } from "./audit.ts";
import { registerAuth } from "./auth.ts";
import { Connections } from "./connections.ts";
import { answerOf, type ErrorAnswer, envelope, plain } from "./errors.ts";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "./fastify.ts";
import { registerJsonBody, tooLarge } from "./json_body.ts";
import type { KeyVerifier, RequestLimits } from "./key_verifier.ts";
import type { LogSettings } from "./log.ts";
import { RequestBuckets } from "./request_limits.ts";
import { refuseUnread, validatorCompiler } from "./validation.ts";

/** Bounds of the server, all of them with a default. */
export interface ServerLimits {
  /** Of one key. Default 600,000. */
  readonly requestsPerMinute: number;
  /** Without a valid key, of one address. Default 60. */
  readonly keylessPerMinute: number;
  readonly headersMs: number;
  readonly uploadMs: number;
  readonly idleMs: number;
  readonly keepAliveMs: number;
}

/** Where none are set. */
export const SERVER_LIMITS: ServerLimits = {
  requestsPerMinute: 600_000,
  keylessPerMinute: 60,
  headersMs: 10_000,
  uploadMs: 300_000,
  idleMs: 60_000,
  keepAliveMs: 5_000,
};

export const HEADER_BYTES_MAX: number = 16 * 1024;
/** The largest file, and the form around it; each kind of body has a bound of its own below that. */
const BODY_BYTES_MAX = 2 * 1024 ** 3 + 1024 ** 2;
/** What a route may have said of a body that is not sent then. */
const BODY_HEADERS = ["etag", "content-range", "content-disposition", "accept-ranges", "x-incomplete"];
/** Waiting for a body that somebody else has read would never end. */
const READ_BEFORE = plain(
  500,
  "internal_error",
  "the body was read before it arrived here: mount the service before anything that reads bodies",
);
/** Node refuses what does not end with chunked; what is packed inside would be read as it is. */
const CODED_CHUNKS = /,\s*chunked\s*$/i;
/** Node's parser takes any version, HTTP/0.9 and 2.0 as well, and would be answered as HTTP/1.1 is. */
const NOT_SPOKEN = plain(505, "http_version_not_supported", "use HTTP/1.1 or HTTP/1.0");
/** A file name of 255 bytes, all of them percent-encoded. */
const PATH_PART_CHARS_MAX = 768;

/** Without them fastify loads Ajv for its own, in 50 ms. */
const COMPILERS = {
  buildValidator: () => validatorCompiler as never, // its declared type is that of Ajv's checks
  buildSerializer: () => () => (body: unknown) => JSON.stringify(body),
};

/** Who may call, how much, and what is called after requests and faults. */
export interface ServerOptions {
  readonly clock: Clock;
  readonly verifier: KeyVerifier;
  /** Instead of one limit for all keys. */
  readonly requestLimits?: RequestLimits;
  readonly limits?: Partial<ServerLimits>;
  /** Where what requests did is written; default nowhere. */
  readonly audit?: Audit;
  /** Believe the last hop's `X-Forwarded-For`. */
  readonly isBehindProxy?: boolean;
  /** Default: no log. */
  readonly log?: LogSettings | undefined;
  /** Adds hooks that see every request, refused ones as well. */
  readonly watch?: ((app: FastifyInstance) => void) | undefined;
  /** Faults of perigee, which answer 500 or 503. The error's text may hold what a user sent. */
  readonly onFault?: (error: unknown, requestId: string) => void;
}

/** A server without routes. */
export interface HttpServer {
  readonly app: FastifyInstance;
  /** Takes no more connections, and resolves when what has arrived is answered. */
  close(): Promise<void>;
  /** Closes connections that are still at work. */
  destroyConnections(): void;
}

/** Does not listen. Hooks check keys before bodies are read. */
export function createServer(options: ServerOptions): HttpServer {
  const limits = { ...SERVER_LIMITS, ...options.limits };
  let connections: Connections | undefined;
  const app = fastify({
    ...options.log,
    schemaController: { compilersFactory: COMPILERS },
    http: {
      insecureHTTPParser: false,
      requireHostHeader: false, // Node would refuse without a body
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: limits.headersMs,
      requestTimeout: 0,
      connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
    },
    requestTimeout: 0, // by progress, see connections.ts
    keepAliveTimeout: limits.keepAliveMs,
    connectionTimeout: limits.idleMs,
    bodyLimit: Number.MAX_SAFE_INTEGER, // each parser has its own bound
    genReqId: () => `req_${randomUUID()}`,
    requestIdHeader: false,
    trustProxy: options.isBehindProxy === true ? (_address: string, hop: number) => hop === 0 : false,
    return503OnClosing: false, // what has arrived is answered
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: PATH_PART_CHARS_MAX },
    clientErrorHandler: (error, socket) => connections?.refuse(error, socket),
    frameworkErrors: (error, request, reply) => {
      answer(request, reply as unknown as FastifyReply, answerOf(error)); // its type is that of no route
    },
  });
  app.server.maxHeadersCount = 0; // their size is bounded: Node would drop those beyond 1,000 in silence
  connections = new Connections(app.server, options.clock, limits);
  options.watch?.(app);
  registerHeaders(app);
  registerJsonBody(app);
  registerAudit(app, options.audit);
  registerAuth(app, options.verifier, {
    perKey: options.requestLimits ?? new RequestBuckets(options.clock, limits.requestsPerMinute),
    perAddress: new RequestBuckets(options.clock, limits.keylessPerMinute),
  });
  refuseUnread(app);
  registerErrors(app, options.onFault ?? (() => undefined));
  registerUnknown(app);
  return {
    app,
    close: async () => {
      connections?.drain();
      await app.close();
    },
    destroyConnections: () => connections?.destroy(),
  };
}

/** The server as a function that a `node:http` server or Express calls; `ready` must have resolved. */
export function handlerOf(
  app: FastifyInstance,
): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => app.routing(request, response);
}

function registerHeaders(app: FastifyInstance): void {
  app.addHook("onRequest", (request, reply, done) => {
    reply.header("x-request-id", request.id);
    reply.header("x-content-type-options", "nosniff");
    const { headers } = request;
    if (!isSpoken(request.raw.httpVersion)) answer(request, reply.header("connection", "close"), NOT_SPOKEN);
    else if (request.raw.readableDidRead) answer(request, reply, READ_BEFORE);
    else if (CODED_CHUNKS.test(headers["transfer-encoding"] ?? ""))
      done(Object.assign(new Error("transfer-encoding"), { statusCode: 400 }));
    else if (headers.host === undefined && request.raw.httpVersion === "1.1")
      done(Object.assign(new Error("no host"), { statusCode: 400 }));
    else if (isAmbiguous(request.raw.rawHeaders))
      done(Object.assign(new Error("two hosts or keys"), { statusCode: 400 }));
    else if (headers["content-encoding"] !== undefined)
      done(Object.assign(new Error("content-encoding"), { statusCode: 415 }));
    else if (Number(headers["content-length"] ?? 0) > BODY_BYTES_MAX) done(tooLarge(BODY_BYTES_MAX));
    else done();
  });
}

/** Whether it is a version of HTTP that is answered here. */
export function isSpoken(httpVersion: string): boolean {
  return httpVersion === "1.1" || httpVersion === "1.0";
}

/**
 * Whether there are two hosts or two keys; names and values in turn. Node 20 takes the first of several, a proxy before it
 * perhaps the last (RFC 9112, 3.2, and RFC 9110, 5.3). Hot path: 0.1 us for ten headers.
 */
function isAmbiguous(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  let keys = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
    else if (name.length === 13 && name.toLowerCase() === "authorization") keys += 1;
  }
  return hosts > 1 || keys > 1;
}

function registerErrors(app: FastifyInstance, onFault: (error: unknown, requestId: string) => void): void {
  app.setErrorHandler((error, request, reply) => {
    const found = answerOf(error);
    const hasBrokenOff = error === request.raw.errored; // the client: its body did not arrive, and nobody reads the answer
    const hasLeft = request.raw.socket.destroyed && hasCode(error, "interrupted"); // the same, while it waited
    if (found.isOurs && !hasBrokenOff && !hasLeft) onFault(error, request.id);
    answer(request, reply, found);
  });
}

function answer(request: FastifyRequest, reply: FastifyReply, { status, headers, error }: ErrorAnswer): void {
  for (const name of BODY_HEADERS) reply.removeHeader(name);
  reply
    .code(status)
    .headers(headers)
    .type("application/json; charset=utf-8")
    .send(envelope(error, request.id));
}

/** 404; for a path that exists with another method 405, and 204 for OPTIONS. */
function registerUnknown(app: FastifyInstance): void {
  const methods = new Map<string, Set<string>>();
  const patterns: (readonly [pattern: RegExp, methods: ReadonlySet<string>])[] = [];
  app.addHook("onRoute", ({ url, method }) => {
    const known = methods.get(url) ?? new Set(["OPTIONS"]);
    if (!methods.has(url)) patterns.push([patternOf(url), known]);
    methods.set(url, known);
    for (const each of [method].flat()) known.add(each);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    const found = patterns.filter(([pattern]) => pattern.test(path)).flatMap(([, known]) => [...known]);
    if (found.length === 0) throw Object.assign(new Error("no route"), { statusCode: 404 });
    reply.header("allow", [...new Set(found)].sort().join(", "));
    if (request.method === "OPTIONS") return reply.code(204).send();
    return answer(request, reply, plain(405, "method_not_allowed", "this address does not take this method"));
  });
}

function patternOf(url: string): RegExp {
  const parts = url.replace(/\/$/, "").split("/");
  const pattern = parts.map((part) => {
    if (part.startsWith(":")) return "[^/]+";
    return part === "*" ? ".*" : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  });
  return new RegExp(`^${pattern.join("/")}/?$`);
}

/** Throws `usage` for an address that others reach, where keys would cross the network in the clear. */
export function checkAddress(host: string, isBehindProxy: boolean): void {
  if (isBehindProxy || isLoopbackHost(host)) return;
  throw new PerigeeError(
    "usage",
    `refusing to listen on ${host} without TLS: keys would be readable on the network; put a TLS proxy in front and set isBehindProxy (perigee serve: --behind-proxy), or listen on 127.0.0.1`,
  );
}
