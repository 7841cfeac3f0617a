/**
 * A fake of xAI: batches that are created empty and named, to which requests are added, and `/v1/chat/completions`.
 * Facts: docs.x.ai, batch API, read 2026-11.
 *
 * A batch has no state but its counts. A request that is added again under its id changes nothing. Results are read by pages while it
 * runs; what was not finished when it was cancelled is an error among them. The cost is in ticks, 10^10 to a dollar.
 */
import { FakeAccount } from "./account.ts";
import type { FakeOptions } from "./behaviour.ts";
import { refuse } from "./chat_batch.ts";
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
import { openaiAnswered, openaiAsked } from "./openai_answers.ts";
import { answerChat } from "./realtime_chat.ts";
import { type FakeResult, idOf, resultsOf } from "./results.ts";
import { itemOf, type Run, type RunItem } from "./run.ts";

export interface FakeXaiOptions extends FakeOptions {
  readonly addBytesMax?: number;
  /** Adds in 30 s; more are refused with 429. */
  readonly addsMax?: number;
}

const CHAT = "/v1/chat/completions";
const ADDS_MS = 30_000;

interface XaiBatch {
  readonly run: Run;
  readonly name: string;
  readonly ids: Set<string>;
}

export class FakeXaiBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly #account: FakeAccount;
  readonly #options: FakeXaiOptions;
  readonly #batches = new Map<string, XaiBatch>();
  /** When requests were added last. */
  #addsMs: number[] = [];

  constructor(options: FakeXaiOptions) {
    this.#options = options;
    this.#account = new FakeAccount(options, refuse);
    this.ledger = this.#account.ledger;
  }

  handle(request: FakeRequest): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, body } = request;
    const key = bearerOf(request);
    const account = this.#account;
    if (method === "POST" && path === CHAT)
      return account.call("realtime", key, () => answerChat(account, refuse, path, body));
    const [, id, verb = ""] =
      /^\/v1\/batches(?:\/([^/:]+))?((?:\/requests|\/results|:cancel)?)$/.exec(path) ?? [];
    const found = (then: (batch: XaiBatch) => FakeReply) => (): FakeReply => {
      const run = account.find(id ?? "", key);
      const batch = run && this.#batches.get(run.id);
      return batch === undefined ? refuse(404, "not_found", `no batch ${id}`) : then(batch);
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
          found((batch) => jsonReply(200, this.#view(batch))),
        );
      case "POST ID/requests":
        return account.call(
          "add",
          key,
          found((batch) => this.#add(batch, body)),
        );
      case "POST ID:cancel":
        return account.call(
          "cancel",
          key,
          found((batch) => this.#cancel(batch)),
        );
      case "GET ID/results":
        return account.call(
          "results",
          key,
          found(({ run }) => this.#results(run, query)),
        );
      default:
        return refuse(404, "not_found", `${method} ${path}`);
    }
  }

  #create(key: string, body: Uint8Array): FakeReply {
    const { name } = objectOf(body) ?? {};
    if (typeof name !== "string" || name === "") return refuse(400, "invalid_request_error", "name");
    const id = idOf("batch_", this.#account.behaviour.seed, this.#account.nextBatch);
    const run = this.#account.create({ id, key, items: [], isOpen: true });
    if ("status" in run) return run;
    const batch = { run, name, ids: new Set<string>() };
    this.#batches.set(id, batch);
    return jsonReply(200, this.#view(batch));
  }

  #add({ run, ids }: XaiBatch, body: Uint8Array): FakeReply {
    const { addBytesMax = 25_000_000, addsMax = 100 } = this.#options;
    const { nowMs } = this.#account;
    this.#addsMs = this.#addsMs.filter((atMs) => atMs > nowMs - ADDS_MS);
    if (this.#addsMs.length >= addsMax) return refuse(429, "rate_limit_exceeded", "too many adds");
    if (body.length > addBytesMax) return refuse(413, "payload_too_large", `${body.length} bytes`);
    if (run.cancelAskedMs !== undefined || run.isEndedAt(nowMs))
      return refuse(400, "invalid_request_error", "the batch takes no more requests");
    this.#addsMs.push(nowMs);
    const requests = objectOf(body)?.["batch_requests"];
    if (!Array.isArray(requests)) return refuse(400, "invalid_request_error", "batch_requests");
    const items: RunItem[] = [];
    for (const entry of requests) {
      const { batch_request_id: id, batch_request } = isObject(entry) ? entry : {};
      const chat = isObject(batch_request) ? batch_request["chat_get_completion"] : undefined;
      const asked = isObject(chat) ? openaiAsked(CHAT, chat) : undefined;
      if (typeof id !== "string" || asked === undefined)
        return refuse(400, "invalid_request_error", `not a request: ${id}`);
      if (ids.has(id)) continue;
      ids.add(id);
      items.push(itemOf(asked, id, run.items.length + items.length));
    }
    this.#account.add(run, items);
    return jsonReply(200, {});
  }

  #list(key: string, query: Readonly<Record<string, string>>): FakeReply {
    const batches = this.#account.listed(key).flatMap(({ id }) => this.#batches.get(id) ?? []);
    const { page, token } = pageOf(batches, query, this.#account.behaviour.pageMax);
    return jsonReply(200, { batches: page.map((batch) => this.#view(batch)), pagination_token: token });
  }

  #cancel(batch: XaiBatch): FakeReply {
    this.#account.cancel(batch.run);
    return jsonReply(200, this.#view(batch));
  }

  /** In the order in which they were finished, so that pages stay as they are while it runs. */
  #results(run: Run, query: Readonly<Record<string, string>>): FakeReply {
    const results = resultsOf(this.#account, run, { isStable: true });
    const { page, token } = pageOf(results, query, 1_000);
    const shown = page.map((result) => this.#result(run, result));
    return jsonReply(200, { results: shown, pagination_token: token });
  }

  #result(run: Run, { item, id, status }: FakeResult): object {
    const asked = item ?? run.items[0];
    const error = (code: number, message: string): object => ({
      batch_request_id: id,
      batch_result: { error: { code, message } },
      error_message: message,
    });
    if (status === undefined || asked === undefined) return error(1, "cancelled");
    if (asked.fate.isNull) return { batch_request_id: id, batch_result: null };
    if (status !== 200) return error(status === 400 ? 3 : 13, `the prompt asked for ${status}`);
    const said = { id: `chatcmpl-${idOf("", run.id, id)}`, createdMs: run.createdMs, tier: "default" };
    const response = { chat_get_completion: openaiAnswered(CHAT, asked, said) };
    return { batch_request_id: id, batch_result: { response } };
  }

  #view({ run, name }: XaiBatch): object {
    const isEnded = run.isEndedAt(this.#account.nowMs);
    const left = run.items.length - run.booked;
    const isCancelled = run.cancelAskedMs !== undefined;
    return {
      batch_id: run.id,
      name,
      create_time: new Date(run.createdMs).toISOString(),
      expire_time: new Date(run.expiresMs).toISOString(),
      cancel_time: run.cancelAskedMs === undefined ? null : new Date(run.cancelAskedMs).toISOString(),
      cancel_by_xai_message: null,
      state: {
        num_requests: run.items.length,
        num_pending: isEnded && isCancelled ? 0 : left,
        num_success: run.good,
        num_error: run.booked - run.good,
        num_cancelled: isEnded && isCancelled ? left : 0,
      },
      cost_breakdown: { total_cost_usd_ticks: run.billedNanoUsd * 10 },
    };
  }
}

function pageOf<T>(
  all: readonly T[],
  query: Readonly<Record<string, string>>,
  pageMax: number,
): { readonly page: readonly T[]; readonly token: string | null } {
  const from = Number(query["pagination_token"] ?? 0);
  const size = Math.min(pageMax, Number(query["limit"] ?? 100));
  const page = all.slice(from, from + size);
  return { page, token: from + size < all.length ? String(from + size) : null };
}
