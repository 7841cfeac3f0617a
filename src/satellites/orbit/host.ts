/**
 * The host of satellites: an HTTP server that engines call with signed requests (`protocol.ts`).
 *
 *   listening -> closing (takes nothing more, what runs has 30 s) -> closed
 *   request: read -> signature, time and id checked -> answered | run: lines until it has ended
 *
 * An execution runs once at a time: a second attempt while the first still runs aborts that and is asked to come
 * again. A connection that closes aborts its attempt.
 *
 * Limits: 4 MiB and 128 levels a request, 64 attempts at once (others are asked to repeat), headers within 10 s.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { readDocument } from "../../jsonl/document.ts";
import { describeSatellite, descriptionHash, type SatelliteDescription, toWire } from "../sdk/description.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import type { AnySatellite } from "../sdk/satellite.ts";
import { HostedRun } from "./hosted_run.ts";
import { type OrbitRequest, orbitRequest, REQUEST_BYTES_MAX, type RunRequest } from "./protocol.ts";
import { isOrbitSecret, OrbitVerifier } from "./signature.ts";

const DRAIN_MS = 30_000;
const RUNS_MAX = 64;
/** Objects and lists in each other, in a request. */
const DEPTH_MAX = 128;

/** A secret of a registration. */
export interface HostSecret {
  readonly secret: string;
  /** The one satellite that it may call; absent: all of them. */
  readonly satellite?: string | undefined;
}

/** What a host serves, and whom it believes. */
export interface OrbitHostOptions {
  readonly clock: Clock;
  /** What satellites send requests with. */
  readonly http: GuardedHttp;
  readonly satellites: readonly AnySatellite[];
  readonly secrets: readonly HostSecret[];
  /** Lines for the operator of the host. Default: none. */
  readonly log?: (line: string) => void;
  /** Attempts at once. Default 64. */
  readonly runsMax?: number;
}

/** A server of hosted satellites: it answers only signed requests (`protocol.ts`). */
export interface OrbitHost {
  /** Resolves with the address when it answers. */
  listen(where: { readonly host: string; readonly port: number }): Promise<string>;
  /** Waits 30 s for what runs to end, then aborts it. May be called twice. */
  close(): Promise<void>;
}

/** Throws `usage` for two satellites of one name, schemas without JSON Schema, and texts that are not valid secrets. */
export function createOrbitHost(options: OrbitHostOptions): OrbitHost {
  return new HttpOrbitHost(options);
}

interface Hosted {
  readonly satellite: AnySatellite;
  readonly described: SatelliteDescription;
  readonly hash: string;
}

class HttpOrbitHost implements OrbitHost {
  readonly #options: OrbitHostOptions;
  readonly #satellites: ReadonlyMap<string, Hosted>;
  readonly #verifier = new OrbitVerifier();
  /** Attempts under way, by execution. */
  readonly #runs = new Map<string, HostedRun>();
  readonly #server: Server;
  #closed: Promise<void> | undefined;

  constructor(options: OrbitHostOptions) {
    this.#options = options;
    this.#satellites = hosted(options.satellites);
    for (const { secret, satellite } of options.secrets) {
      if (!isOrbitSecret(secret)) throw notASecret(satellite);
      if (satellite !== undefined && !this.#satellites.has(satellite))
        throw new PerigeeError(
          "usage",
          `a secret is for ${JSON.stringify(satellite)}, which is not hosted here`,
        );
    }
    const limits = { headersTimeout: 10_000, requestTimeout: 60_000, maxHeaderSize: 16 * 1024 };
    this.#server = createServer({ ...limits, connectionsCheckingInterval: 1_000 }, (request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        this.#options.log?.(error instanceof Error ? (error.stack ?? error.message) : String(error));
        response.destroy();
      });
    });
  }

  listen({ host, port }: { readonly host: string; readonly port: number }): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port }, () => {
        const found = this.#server.address() as AddressInfo; // of a TCP server
        resolve(`http://${found.family === "IPv6" ? `[${found.address}]` : found.address}:${found.port}`);
      });
    });
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    const timer = this.#options.clock.timer(DRAIN_MS, () => {
      for (const run of this.#runs.values()) run.abort("the host ends");
      this.#server.closeAllConnections();
    });
    await closed;
    timer.cancel();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!/^1\.[01]$/.test(request.httpVersion)) return refuse(response, 505, "http_version_not_supported");
    const path = request.url?.split("?", 1)[0];
    if (path === "/healthz" && request.method === "GET") return end(response, 200, { status: "ok" });
    if (request.method !== "POST") return refuse(response, 405, "method_not_allowed");
    const body = await read(request);
    if (body === undefined) return refuse(response, 413, "too_large");
    const secrets = this.#options.secrets.map(({ secret }) => secret);
    const wallMs = this.#options.clock.wallMs();
    const signed = this.#verifier.verify(request.headers, body, { secrets, wallMs });
    if (signed === "unsigned") return refuse(response, 401, "unauthenticated");
    if (signed === "seen") return refuse(response, 409, "seen_before");
    if (signed === "full") return refuse(response, 503, "too_many");
    const parsed = orbitRequest.safeParse(parse(body));
    if (!parsed.success) return refuse(response, 400, "invalid_request");
    const found = this.#satellites.get(parsed.data.satellite);
    const mayCall = this.#options.secrets.some(
      ({ secret, satellite = found?.satellite.name }) =>
        signed.includes(secret) && satellite === found?.satellite.name,
    );
    if (found === undefined || !mayCall) return refuse(response, 404, "not_found");
    return await this.#handle(found, parsed.data, response);
  }

  async #handle(found: Hosted, request: OrbitRequest, response: ServerResponse): Promise<void> {
    if (request.type === "describe") return end(response, 200, toWire(found.described));
    const under = this.#runs.get(request.execution_id);
    if (request.type === "noted") {
      const isThere = under?.noted(request.number, request.is_kept) === true;
      return isThere ? void response.writeHead(204).end() : refuse(response, 404, "not_found");
    }
    if (request.type === "executed") {
      const isThere = under?.executed(request.number, request) === true;
      return isThere ? void response.writeHead(204).end() : refuse(response, 404, "not_found");
    }
    if (request.description !== undefined && request.description !== found.hash)
      return refuse(response, 409, "satellite_changed");
    under?.abort("another attempt has begun");
    if (under !== undefined || this.#runs.size >= (this.#options.runsMax ?? RUNS_MAX))
      return refuse(response, 503, "too_many");
    return await this.#run(found, request, response);
  }

  async #run({ satellite }: Hosted, request: RunRequest, response: ServerResponse): Promise<void> {
    const { clock, http, log = () => undefined } = this.#options;
    response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
    response.flushHeaders();
    const write = (text: string): void => {
      if (!response.destroyed) response.write(text);
    };
    const run = new HostedRun({ clock, http, write, log }, satellite, request);
    response.once("close", () => run.abort("the connection was closed"));
    this.#runs.set(request.execution_id, run);
    await run.run();
    this.#runs.delete(request.execution_id);
    response.end();
  }
}

/** No message has the secret itself. */
function notASecret(satellite: string | undefined): PerigeeError {
  const which = satellite === undefined ? "a secret" : `the secret for ${JSON.stringify(satellite)}`;
  return new PerigeeError(
    "usage",
    `${which} must be whsec_ and base64, as perigee satellites register has printed it`,
  );
}

function hosted(satellites: readonly AnySatellite[]): ReadonlyMap<string, Hosted> {
  const found = new Map<string, Hosted>();
  for (const satellite of satellites) {
    if (found.has(satellite.name))
      throw new PerigeeError("usage", `two satellites are called ${satellite.name}`);
    const described = describeSatellite(satellite);
    found.set(satellite.name, { satellite, described, hash: descriptionHash(described) });
  }
  return found;
}

/** Undefined when it is longer than it may be. */
async function read(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= REQUEST_BYTES_MAX) chunks.push(chunk); // read on, so that the answer is read
  }
  return bytes <= REQUEST_BYTES_MAX ? Buffer.concat(chunks) : undefined;
}

function parse(body: Buffer): unknown {
  const read = readDocument(body.toString("utf8"), DEPTH_MAX);
  return read.kind === "value" ? read.value : undefined;
}

function refuse(response: ServerResponse, status: number, code: string): void {
  if (status === 503) response.setHeader("retry-after", "1");
  end(response, status, { error: { code } });
}

function end(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
