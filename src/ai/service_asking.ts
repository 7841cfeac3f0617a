/**
 * Calls answered by a perigee service: each is a task, posted under an `Idempotency-Key` that is the name of the call.
 *
 *   posted -> 2xx: the task, made now or found ----> polled until it is final -> answered, or an error
 *          -> 409 idempotency_in_progress: the first request for it is not answered yet; asked again in a second
 *          -> 429, 5xx, no connection: posted again, with growing waits, for 5 minutes
 *   found, and it ended without an answer -> run again
 *
 * The service remembers keys for 24 hours (docs/guide/webhooks.md): a program that is started again by then causes no request of a provider.
 */

import { hash } from "node:crypto";
import { systemClock } from "../clock.ts";
import { unlessAborted } from "../engine/abort.ts";
import type { LibraryTask } from "../engine/library.ts";
import { messageOf } from "../errors.ts";
import { camelCased } from "../work/camel_case.ts";
import type { Item } from "../work/item.ts";
import { isObject } from "../work/json.ts";
import type { Task } from "../work/task.ts";
import {
  type AnsweredItems,
  type Asks,
  type AskTerms,
  answersIn,
  errorCodesIn,
  heldByService,
  otherCall,
} from "./asking.ts";
import { ModelCallError } from "./call_error.ts";
import { CallNames } from "./call_names.ts";

/** How long a service may be without an answer before a call fails. */
const PATIENCE_MS = 5 * 60_000;
const FIRST_WAIT_MS = 250;
const WAIT_MAX_MS = 10_000;
const POLL_FIRST_MS = 100;
const POLL_MAX_MS = 5_000;
const IN_PROGRESS_WAIT_MS = 1_000;
/** Another request was posted under the same key. */
const MISMATCH = "idempotency_mismatch";
/** Codes of answers that a later request may not get. */
const PASSING_STATUS: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504, 507]);

/** A service to ask. */
export interface AskedService {
  /** Such as `https://perigee.example.org`; a path before `/v0` is kept. */
  readonly url: string;
  /** With the scopes `infer:write` and `infer:read`. */
  readonly apiKey: string;
  /** Default: that of Node. */
  readonly fetch?: typeof globalThis.fetch;
}

/** By address and key: programs may make several providers of one service. */
const namesOf = new Map<string, CallNames>();

interface Answered {
  readonly task: LibraryTask;
  /** It was made by an earlier request. */
  readonly isFound: boolean;
}

/** One for a service. */
export class ServiceAsking implements Asks {
  readonly names: CallNames;
  readonly #root: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof globalThis.fetch;

  constructor({ url, apiKey, fetch = globalThis.fetch }: AskedService) {
    this.#root = `${url.replace(/\/+$/, "")}/v0/infer/`;
    this.#headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
    this.#fetch = fetch;
    const whose = hash("sha256", JSON.stringify([this.#root, apiKey]), "base64");
    this.names = namesOf.get(whose) ?? new CallNames();
    namesOf.set(whose, this.names);
  }

  async ask(items: readonly Item[], name: string, { signal, keyed }: AskTerms): Promise<AnsweredItems> {
    signal?.throwIfAborted();
    const isAtOnce = items[0]?.sla === undefined;
    // A post with an sla is answered at once: it is waited for even when its caller has left, so that it can be cancelled.
    const posting = this.#post(items, name, isAtOnce ? signal : undefined).catch((error: unknown) => {
      const isOther = keyed !== undefined && error instanceof ModelCallError && error.code === MISMATCH;
      throw isOther ? otherCall(keyed, error, error) : error;
    });
    const posted = await unlessAborted(posting, signal, () => {
      posting.then(({ task: { taskId } }) => this.#cancel(taskId)).catch(() => undefined);
    });
    const { taskId } = posted.task;
    const ended = await this.#ended(posted, isAtOnce, signal).catch((error: unknown) => {
      void this.#cancel(taskId); // nobody waits for it any more
      throw error;
    });
    return answersIn(ended);
  }

  async #post(items: readonly Item[], name: string, signal: AbortSignal | undefined): Promise<Answered> {
    const response = await this.#send("", { body: JSON.stringify(items), key: name, signal });
    const isFound = response.headers.get("idempotent-replayed") === "true";
    return { task: await taskIn(response), isFound };
  }

  /** Polls; one that was found without an answer runs again first. One at once is not waited for while it is held. */
  async #ended(
    { task: first, isFound }: Answered,
    isAtOnce: boolean,
    signal: AbortSignal | undefined,
  ): Promise<LibraryTask> {
    let task = first;
    const codes = errorCodesIn(task.objects);
    if (isFound && codes.length > 0)
      task = await taskIn(
        await this.#send(`task/${task.taskId}/retry`, { body: JSON.stringify({ codes }), signal }),
      );
    for (let waitMs = POLL_FIRST_MS; isOpen(task); waitMs = Math.min(2 * waitMs, POLL_MAX_MS)) {
      const held = task.objects.find((object) => object.held !== undefined);
      if (isAtOnce && held !== undefined) throw heldByService(task.taskId, held);
      await systemClock.sleep(waitMs, signal === undefined ? {} : { signal });
      task = await taskIn(await this.#send(`task/${task.taskId}`, { signal }));
    }
    return task;
  }

  /** Never rejects: its caller has left. */
  async #cancel(taskId: string): Promise<void> {
    await this.#send(`task/${taskId}/cancel`, { body: "{}", signal: undefined }).catch(() => undefined);
  }

  /** A response of 2xx. */
  async #send(path: string, request: ServiceRequest): Promise<Response> {
    const startedMs = systemClock.nowMs();
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, WAIT_MAX_MS)) {
      const found = await this.#once(path, request);
      if (found instanceof Response && found.ok) return found;
      const refusal = found instanceof Response ? await refusalIn(found) : { cause: found };
      if (refusal.code === "idempotency_in_progress") {
        await this.#sleep(IN_PROGRESS_WAIT_MS, request);
        continue;
      }
      const mayPass =
        refusal.status === undefined ||
        (PASSING_STATUS.has(refusal.status) && refusal.code !== "sla_infeasible");
      if (!mayPass || systemClock.nowMs() - startedMs > PATIENCE_MS) throw this.#failure(refusal);
      await this.#sleep(Math.max(waitMs, Math.min(refusal.retryAfterMs ?? 0, 60_000)), request);
    }
  }

  /** The error of a request without an answer; throws when the caller has left. */
  async #once(path: string, { body, key, signal }: ServiceRequest): Promise<unknown> {
    try {
      return await this.#fetch(`${this.#root}${path}`, {
        method: body === undefined ? "GET" : "POST",
        headers: { ...this.#headers, ...(key === undefined ? {} : { "idempotency-key": key }) },
        ...(body === undefined ? {} : { body }),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      signal?.throwIfAborted();
      return error;
    }
  }

  #sleep(waitMs: number, { signal }: ServiceRequest): Promise<void> {
    return systemClock.sleep(waitMs, signal === undefined ? {} : { signal });
  }

  #failure({ status, code, message, cause }: Refusal): ModelCallError {
    const url = this.#root;
    if (status === undefined)
      return new ModelCallError(
        `the perigee service at ${url} cannot be reached: ${messageOf(cause)}`,
        { code: "connection_failed", url },
        { cause },
      );
    const text = `the perigee service answered ${status}${code === undefined ? "" : ` ${code}`}: ${message ?? ""}`;
    return new ModelCallError(text, { code: code ?? "provider_error", statusCode: status, url });
  }
}

interface ServiceRequest {
  readonly body?: string;
  readonly key?: string;
  readonly signal: AbortSignal | undefined;
}

/** What a service said instead of 2xx, or the error of a request without an answer. */
interface Refusal {
  readonly status?: number;
  readonly code?: string;
  readonly message?: string;
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

async function taskIn(response: Response): Promise<LibraryTask> {
  return camelCased((await response.json()) as Task); // a service of perigee says what a task is
}

function isOpen({ objects }: LibraryTask): boolean {
  return objects.length === 0 || objects.some(({ status }) => status === "submitted");
}

async function refusalIn(response: Response): Promise<Refusal> {
  const body: unknown = await response.json().catch(() => undefined);
  const error = isObject(body) && isObject(body["error"]) ? body["error"] : {};
  const { code, message } = error;
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return {
    status: response.status,
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof message === "string" ? { message } : {}),
    ...(Number.isFinite(seconds) ? { retryAfterMs: seconds * 1_000 } : {}),
  };
}
