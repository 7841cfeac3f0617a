/**
 * A fake of OpenRouter: batches with their requests and results inline, and `/api/v1/chat/completions` with `usage.cost`.
 * Facts: openrouter.ai/docs, batches, read 2026-11.
 *
 * States as OpenAI's (run.ts), without cancel. `endpoint` and `model` must come before `requests` in the text of a create, which is
 * answered with 202 before anything is checked.
 */
import { FakeAccount } from "./account.ts";
import type { FakeOptions } from "./behaviour.ts";
import { type ChatEntry, readEntries, refuse, resultLines, secondsOf } from "./chat_batch.ts";
import {
  addressOf,
  type BatchFake,
  bearerOf,
  type FakeAnswer,
  type FakeReply,
  type FakeRequest,
  isObject,
  jsonReply,
  objectOf,
} from "./fake.ts";
import type { Ledger } from "./ledger.ts";
import { OPENAI_ENDPOINTS } from "./openai_answers.ts";
import { pageOf } from "./openai_files.ts";
import { answerChat } from "./realtime_chat.ts";
import { idOf, resultsOf } from "./results.ts";
import type { Run } from "./run.ts";

export interface FakeOpenRouterOptions extends FakeOptions {
  /** Whether a get shows the results, or only pages of `/results` do; default true. */
  readonly isInline?: boolean;
}

const RESULTS_PAGE = 100;

export class FakeOpenRouterBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly #account: FakeAccount;
  readonly #isInline: boolean;
  readonly #batches = new Map<string, { readonly run: Run; readonly endpoint: string }>();

  constructor(options: FakeOpenRouterOptions) {
    this.#isInline = options.isInline ?? true;
    this.#account = new FakeAccount({ itemsMax: 5_000, ...options }, refuse);
    this.ledger = this.#account.ledger;
  }

  handle(request: FakeRequest): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, body } = request;
    const key = bearerOf(request);
    const account = this.#account;
    const endpoint = path.replace(/^\/api/, "");
    if (method === "POST" && OPENAI_ENDPOINTS.has(endpoint))
      return account.call("realtime", key, () => answerChat(account, refuse, endpoint, body, true));
    const [, id, verb = ""] = /^\/api\/v1\/batches(?:\/([^/]+))?((?:\/results)?)$/.exec(path) ?? [];
    const found = (then: (run: Run) => FakeReply) => (): FakeReply => {
      const run = account.find(id ?? "", key);
      return run === undefined ? refuse(404, "not_found", `no batch ${id}`) : then(run);
    };
    switch (`${method} ${id === undefined ? "" : "ID"}${verb}`) {
      case "POST ":
        return account.call("create", key, () => this.#create(key, body));
      case "GET ":
        return account.call("list", key, () => this.#list(key, query));
      case "GET ID":
        return account.call(
          "get",
          key,
          found((run) => jsonReply(200, this.#view(run, this.#isInline))),
        );
      case "GET ID/results":
        return account.call(
          "results",
          key,
          found((run) => this.#results(run, query)),
        );
      case "DELETE ID":
        return account.call(
          "delete",
          key,
          found((run) => this.#delete(run)),
        );
      default:
        return refuse(404, "not_found", `${method} ${path}`);
    }
  }

  #create(key: string, body: Uint8Array): FakeReply {
    const asked = objectOf(body) ?? {};
    const { bytesMax, itemsMax, seed } = this.#account.behaviour;
    const names = Object.keys(asked);
    const { endpoint, model, requests } = asked;
    const wrong = (message: string): FakeReply => refuse(400, "invalid_request_error", message);
    if (body.length > bytesMax) return refuse(413, "payload_too_large", `${body.length} bytes`);
    if (typeof endpoint !== "string" || !OPENAI_ENDPOINTS.has(endpoint)) return wrong("endpoint");
    if (typeof model !== "string" || !Array.isArray(requests)) return wrong("model and requests");
    const at = names.indexOf("requests");
    if (names.indexOf("endpoint") > at || names.indexOf("model") > at)
      return wrong("endpoint and model must come before requests");
    const entries = requests.map((entry) => entryOf(entry));
    const read = readEntries(entries, { endpoint, model, itemsMax });
    const id = idOf("batch_", seed, this.#account.nextBatch);
    const run = this.#account.create({ id, key, ...read });
    if ("status" in run) return run;
    this.#batches.set(id, { run, endpoint });
    return jsonReply(202, this.#view(run, false));
  }

  #list(key: string, query: Readonly<Record<string, string>>): FakeReply {
    const limit = Math.min(this.#account.behaviour.pageMax, Number(query["limit"] ?? 20));
    const page = pageOf(this.#account.listed(key), query["after"] ?? query["cursor"], limit);
    return jsonReply(200, { ...page, data: page.data.map((run) => this.#view(run, false)) });
  }

  #results(run: Run, query: Readonly<Record<string, string>>): FakeReply {
    const from = Number(query["cursor"] ?? 0);
    const all = this.#lines(run) ?? [];
    const data = all.slice(from, from + RESULTS_PAGE);
    const next = from + RESULTS_PAGE;
    const hasMore = next < all.length;
    return jsonReply(200, { data, has_more: hasMore, next_cursor: hasMore ? String(next) : null });
  }

  #delete(run: Run): FakeReply {
    this.#account.delete(run);
    return jsonReply(200, { id: run.id, deleted: true });
  }

  /** Undefined while it has none. */
  #lines(run: Run): unknown[] | undefined {
    const { endpoint = "" } = this.#batches.get(run.id) ?? {};
    if (!run.isEndedAt(this.#account.nowMs)) return undefined;
    return resultLines(this.#account, run, endpoint, resultsOf(this.#account, run)).map((line) =>
      objectOf(line),
    );
  }

  #view(run: Run, withResults: boolean): object {
    const state = this.#account.shown(run);
    const isEnded = run.isEndedAt(this.#account.nowMs);
    const name = typeof state === "string" ? (state === "running" ? "in_progress" : state) : state.name;
    const [fault] = run.faults;
    return {
      id: run.id,
      object: "batch",
      status: name,
      endpoint: this.#batches.get(run.id)?.endpoint,
      model: run.items[0]?.model ?? null,
      created_at: secondsOf(run.createdMs),
      expires_at: secondsOf(run.expiresMs),
      completed_at: isEnded ? secondsOf(run.endMs) : null,
      error: isEnded && fault !== undefined ? { code: fault.code, message: fault.message } : null,
      request_counts: {
        total: run.items.length,
        completed: run.good,
        failed: run.booked - run.good,
      },
      usage: { cost: run.billedNanoUsd / 1e9 },
      ...(withResults ? { results: this.#lines(run) ?? null } : {}),
    };
  }
}

function entryOf(entry: unknown): ChatEntry | undefined {
  if (!isObject(entry)) return undefined;
  const { body } = entry;
  return { customId: entry["custom_id"], body: isObject(body) ? body : undefined };
}
