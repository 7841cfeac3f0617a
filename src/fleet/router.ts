/**
 * Routes each request to the partition in which the project of its key has its home.
 *
 *   found -> answered here       (this process owns the partition: the request is passed to that service as it came)
 *         -> answered elsewhere  (streamed to the worker that owns it)
 *         -> waits               (no worker owns it, or its owner refuses connections: tried again for 10 s, then 503. While its owner drains
 *                                for the next one, a call that waits for its answer is tried once a second, and for up to 10 s after that.
 *                                So is one that is sent again while its owner is still at the first)
 *         -> 502                 (the connection broke after the request was sent; GET, HEAD, and small POSTs whose `Idempotency-Key`
 *                                the service reads wait for a worker instead, from then on for 10 s, until that has happened three times)
 *
 * A request without a valid key is answered by a service of this process, or else of any worker; a signed link by the home of its project;
 * an operator's decision on a satellite by the home of the satellite's project. What concerns all projects is asked of all (`gathered.ts`).
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../clock.ts";
import { VENDOR_NAMESPACE } from "../satellites/sdk/reference.ts";
import { answerOf, type ErrorAnswer, envelope, plain } from "../service/http/errors.ts";
import { unknownQuery, unreadBody } from "../service/http/validation.ts";
import type { FleetDirectory } from "./directory.ts";
import type { FleetAccess } from "./fleet_access.ts";
import type { Forwarding } from "./forwarding.ts";
import { noteClient } from "./hop_headers.ts";
import { BROKEN_OFF } from "./hops/hops.ts";
import { inTime } from "./in_time.ts";
import type { ProjectHomes } from "./project_homes.ts";
import type { Gathering } from "./shared/gathered.ts";

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** What this process answers by itself. */
export interface LocalServices {
  /** Undefined for a partition that it does not own or is closing; while that drains, also for a call that waits for its answer. */
  handlerOf(part: number, request: IncomingMessage): Handler | undefined;
  /** The partition that answers requests without a project; undefined while none is open. */
  readonly first: number | undefined;
}

export interface RouterOptions {
  readonly clock: Clock;
  readonly directory: FleetDirectory;
  readonly homes: ProjectHomes;
  readonly access: FleetAccess;
  readonly forwarding: Forwarding;
  readonly gathering: Gathering;
  readonly local: LocalServices;
  /** Answers `GET /metrics`. */
  readonly metrics: Handler;
  /** Whether the last address in a request's `X-Forwarded-For` is trusted. */
  readonly isBehindProxy: boolean;
}

/** How long a request waits for an owner of its partition: since it arrived, or since it lost the worker that had it. */
const WAIT_MS = 10_000;
/** How often a request may be lost: what ends each worker that has it must not end all of them. */
const LOSSES_MAX = 3;
const RETRY_AFTER_SECONDS = 5;
/** How long an owner that cannot take it yet is not asked again. It drains for up to 90 s, and each time it gets the whole body. */
const LATER_MS = 1_000;
/** A body up to this size is kept so that its request can be sent again. */
const REPLAYED_BYTES_MAX = 1024 * 1024;
/** All bodies that are kept; beyond it they are streamed. */
const KEPT_BYTES_MAX = 64 * 1024 * 1024;
/** Where the service answers a POST with an `Idempotency-Key` once. */
const KEYED =
  /^\/(v0\/infer\/?|v1\/(chat\/completions|completions|embeddings|responses|batches)|v1\/(satellites|clusters)\/.*)$/;
const LINK = /^\/v0\/files\/link\/([^/?]+)/;
/** What an operator decides: the satellite is in the home of its project. */
const DECISION = /^\/v1\/satellites\/([^/]+)\/[^/]+\/(verify|approve|disable|enable)\/?$/;
const NO_OWNER = plain(
  503,
  "unavailable",
  "no process of the service can answer for this project now; try again",
);
const NOT_READY = plain(503, "unavailable", "this process cannot reach the database, or it is stopping");
const NO_BYTES = new Uint8Array(0);

/** A request on its way. */
interface Journey {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Until when it waits for an owner; counts only while it has none. */
  deadlineMs: number;
  /** Undefined until it is needed, and for one that is streamed. */
  body: Uint8Array | undefined;
  /** Its key is one of a project: only of those a body is kept, for as long as the journey takes. */
  isKnown: boolean;
  /** How often the connection broke while a worker had it. */
  losses: number;
  /** The owner that last answered that it cannot take it yet, and when. */
  later?: { readonly ownerId: string; readonly atMs: number };
}

/** Which partition answers; undefined while none can. */
type Place = () => number | undefined | Promise<number | undefined>;

export class FleetRouter {
  readonly #options: RouterOptions;
  #keptBytes = 0;

  constructor(options: RouterOptions) {
    this.#options = options;
  }

  /** Answers a request of a client. Never rejects. */
  readonly handle = (request: IncomingMessage, response: ServerResponse): void => {
    if (this.#isOwn(request, response)) return;
    noteClient(request, this.#options.isBehindProxy);
    const journey: Journey = {
      ...{ request, response, isKnown: false, losses: 0, body: hasBody(request) ? undefined : NO_BYTES },
      deadlineMs: this.#options.clock.nowMs() + WAIT_MS,
    };
    this.#route(journey)
      .catch(() => refuse(response, NO_OWNER))
      .finally(() => {
        this.#keptBytes -= journey.body?.byteLength ?? 0;
      });
  };

  /** Answers what concerns only this process, and returns whether it did: liveness, readiness while it is not ready, and metrics. */
  #isOwn(request: IncomingMessage, response: ServerResponse): boolean {
    const { directory } = this.#options;
    switch (pathOf(request).replace(/\/$/, "")) {
      case "/metrics":
        this.#options.metrics(request, response);
        return true;
      case "/readyz":
        if (directory.isFresh && !directory.isLeaving) return false;
        refuse(response, NOT_READY);
        return true;
      case "/healthz":
        if (request.method !== "GET" && request.method !== "HEAD") return false;
        if (!refusesUnread(request, response)) alive(response); // without the database, too: a restart would not help
        return true;
      default:
        return false;
    }
  }

  async #route(journey: Journey): Promise<void> {
    if (this.#options.gathering.isFor(journey.request)) return this.#gathered(journey);
    const placed = this.#placeOf(journey);
    const place = placed instanceof Promise ? await this.#within(journey, placed) : placed;
    if (place !== undefined) await this.#answer(journey, place);
    else refuse(journey.response, NO_OWNER);
  }

  async #gathered({ request, response, body: read, deadlineMs }: Journey): Promise<void> {
    const body = read ?? (await readAll(request));
    if (!(await this.#options.gathering.answer(request, response, { body, deadlineMs })))
      refuse(response, NO_OWNER);
  }

  /** A promise only if the database is asked. */
  #placeOf(journey: Journey): Place | Promise<Place> {
    const project = this.#options.access.projectOf(journey.request.headers.authorization);
    return project instanceof Promise
      ? project.then((found) => this.#placeFor(journey, found))
      : this.#placeFor(journey, project);
  }

  #placeFor(journey: Journey, project: string | undefined): Place | Promise<Place> {
    const { homes } = this.#options;
    const { request } = journey;
    journey.isKnown = project !== undefined;
    const named = project === undefined ? projectOfLink(request) : projectOfDecision(request);
    const home = (): ReturnType<Place> =>
      project === undefined ? this.#anyPart() : (homes.known(project) ?? homes.assigned(project));
    if (named === undefined) return home;
    const isAssigned = project !== undefined && named === VENDOR_NAMESPACE;
    return (isAssigned ? homes.assigned(named) : homes.claimed(named)).then((owner) => () => owner ?? home());
  }

  #anyPart(): number | undefined {
    return this.#options.local.first ?? this.#options.directory.ownedParts[0];
  }

  async #answer(journey: Journey, place: Place): Promise<void> {
    const { clock, directory, local } = this.#options;
    const { request, response } = journey;
    for (;;) {
      const placed = place();
      const part = placed instanceof Promise ? await this.#within(journey, placed) : placed; // no timer for a known home
      if (response.destroyed) return;
      if (part !== undefined) {
        const isUnread = journey.body === undefined || journey.body.byteLength === 0;
        const handler = isUnread && directory.isFresh ? local.handlerOf(part, request) : undefined;
        if (handler !== undefined) return handler(request, response);
        if (await this.#forwarded(journey, part)) return;
      }
      if (clock.nowMs() >= journey.deadlineMs) return refuse(response, NO_OWNER);
      await this.#within(journey, directory.renewed());
    }
  }

  /** True when it was answered. */
  async #forwarded(journey: Journey, part: number): Promise<boolean> {
    const { clock, directory, forwarding } = this.#options;
    const owner = directory.ownerOf(part);
    if (owner === undefined) return false;
    const { request, response, later } = journey;
    if (later?.ownerId === owner.id && clock.nowMs() - later.atMs < LATER_MS) return false;
    if (journey.body === undefined && this.#keeps(journey)) {
      const body = await readAll(request);
      journey.body = body;
      this.#keptBytes += body.byteLength;
    }
    const target = { part, address: owner.address, died: directory.deathOf(owner.id) };
    const result = await forwarding.forward(journey, target);
    const atMs = clock.nowMs();
    if (result === "later" || result === "lost") journey.deadlineMs = atMs + WAIT_MS;
    if (result === "later") journey.later = { ownerId: owner.id, atMs };
    if (result === "lost") journey.losses += 1;
    const isGivenUp = result === "lost" && !mayRepeat(journey);
    if (isGivenUp) refuse(response, BROKEN_OFF);
    return result === "done" || isGivenUp;
  }

  #keeps({ request, isKnown }: Journey): boolean {
    return isKnown && isSmall(request) && this.#keptBytes < KEPT_BYTES_MAX;
  }

  /** Undefined when it takes longer than the request may wait. */
  #within<T>({ deadlineMs }: Journey, work: Promise<T>): Promise<T | undefined> {
    const { clock } = this.#options;
    return inTime(clock, deadlineMs - clock.nowMs(), work);
  }
}

/** Answers with an error of the router itself. */
export function refuse(response: ServerResponse, { status, error }: ErrorAnswer): void {
  if (response.destroyed || response.headersSent) return;
  const requestId = `req_${randomUUID()}`;
  const body = envelope(error, requestId);
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(body),
    "x-content-type-options": "nosniff",
    "x-request-id": requestId,
    ...(status === 503 ? { "retry-after": String(RETRY_AFTER_SECONDS) } : {}),
    ...(response.req.complete ? {} : { connection: "close" }),
  });
  response.end(body);
}

function alive(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json; charset=utf-8" }).end('{"status":"ok"}');
}

/** Answers a GET or HEAD with query parameters or a body, for an address that takes neither, and returns whether it had any. */
export function refusesUnread({ url = "/", headers }: IncomingMessage, response: ServerResponse): boolean {
  const query = Object.fromEntries(new URLSearchParams(url.split("?", 2)[1]));
  const unread = unknownQuery(query) ?? unreadBody(headers);
  if (unread !== undefined) refuse(response, answerOf(unread));
  return unread !== undefined;
}

function pathOf({ url = "/" }: IncomingMessage): string {
  return url.split("?", 1)[0] ?? "/";
}

/** The project that a link claims, unchecked: the service of its home checks the signature. Undefined for another path. */
function projectOfLink({ url = "/" }: IncomingMessage): string | undefined {
  const [, token = ""] = LINK.exec(url) ?? [];
  try {
    const [project] = JSON.parse(
      Buffer.from(token.split(".", 1)[0] ?? "", "base64url").toString(),
    ) as unknown[];
    return typeof project === "string" ? project : undefined;
  } catch {
    return undefined;
  }
}

/** The namespace of the satellite that an operator decides on; undefined for another request. */
function projectOfDecision(request: IncomingMessage): string | undefined {
  return request.method === "POST" ? DECISION.exec(pathOf(request))?.[1] : undefined;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function isSmall({ headers }: IncomingMessage): boolean {
  return Number(headers["content-length"] ?? Number.NaN) <= REPLAYED_BYTES_MAX;
}

function mayRepeat({ request, body, losses }: Journey): boolean {
  if (losses >= LOSSES_MAX) return false;
  const { method, headers } = request;
  if (method === "GET" || method === "HEAD") return body !== undefined;
  const isKeyed =
    method === "POST" && headers["idempotency-key"] !== undefined && KEYED.test(pathOf(request));
  return isKeyed && body !== undefined;
}

async function readAll(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer); // no encoding was set
  return Buffer.concat(chunks);
}
