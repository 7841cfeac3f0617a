/**
 * A fake of Anthropic: message batches and `/v1/messages`. Wire: @anthropic-ai/sdk 1.11.0.
 *
 * States: in_progress -> ended; in_progress -> canceling -> ended (run.ts). Counts stay 0 and results hidden until the whole batch
 * has ended. A batch has no name and no metadata. Requests are not validated at its creation but in its results: those whose
 * prompt is INVALID are errored.
 */
import { FakeAccount } from "./account.ts";
import {
  anthropicAnswered,
  anthropicAsked,
  anthropicLines,
  refuseAnthropic,
  typeOfStatus,
} from "./anthropic_answers.ts";
import type { FakeOptions } from "./behaviour.ts";
import {
  addressOf,
  type BatchFake,
  bytesReply,
  type FakeAnswer,
  type FakeReply,
  type FakeRequest,
  isObject,
  jsonReply,
  objectOf,
} from "./fake.ts";
import type { Ledger } from "./ledger.ts";
import { askedOf } from "./prompt.ts";
import { type FakeResult, fileOf, idOf, resultsOf } from "./results.ts";
import { itemOf, type Run, type RunItem } from "./run.ts";

export interface FakeAnthropicOptions extends FakeOptions {
  /** Where clients reach it: the origin of `results_url`. Default: what the request names as its host, by http. */
  readonly origin?: string;
  /** From creation until the results are gone and the batch is archived; default 29 days. */
  readonly resultsKeptMs?: number;
}

const CUSTOM_ID = /^[A-Za-z0-9_-]{1,64}$/;
const DAY_MS = 86_400_000;

export class FakeAnthropicBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly #account: FakeAccount;
  readonly #options: FakeAnthropicOptions;
  /** What each batch's results are, once they were asked for. */
  readonly #results = new Map<string, Uint8Array>();

  constructor(options: FakeAnthropicOptions) {
    this.#options = options;
    const limits = { itemsMax: 100_000, bytesMax: 256 * 1024 * 1024 };
    this.#account = new FakeAccount({ ...limits, ...options }, refuseAnthropic);
    this.ledger = this.#account.ledger;
  }

  handle(request: FakeRequest): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, headers, body } = request;
    const key = headers["x-api-key"] ?? (headers["authorization"] ?? "").replace(/^Bearer /, "");
    const account = this.#account;
    const version = headers["anthropic-version"];
    if (version === undefined)
      return refuseAnthropic(400, "invalid_request_error", "anthropic-version: header is required");
    const origin = this.#options.origin ?? `http://${headers["host"] ?? "anthropic.test"}`;
    const [id = "", verb = ""] = path.split("/").slice(4);
    const shown = (run: Run): FakeReply => jsonReply(200, this.#view(run, origin));
    switch (`${method} ${path.replace(id || "\n", "ID")}`) {
      case "POST /v1/messages":
        return account.call("realtime", key, () => this.#answer(body, version));
      case "POST /v1/messages/batches":
        return account.call("create", key, () => this.#create({ key, body, version, origin }));
      case "GET /v1/messages/batches":
        return account.call("list", key, () => this.#list(key, query, origin));
      case "GET /v1/messages/batches/ID":
        return account.call("get", key, () => this.#found(id, key, shown));
      case "POST /v1/messages/batches/ID/cancel":
        return account.call("cancel", key, () => this.#found(id, key, (run) => this.#cancel(run, shown)));
      case "GET /v1/messages/batches/ID/results":
        return account.call("results", key, () => this.#found(id, key, (run) => this.#fetch(run)));
      case "DELETE /v1/messages/batches/ID":
        return account.call("delete", key, () => this.#found(id, key, (run) => this.#delete(run)));
      default:
        return refuseAnthropic(404, "not_found_error", `${method} ${path} ${verb}`);
    }
  }

  #answer(body: Uint8Array, version: string): FakeReply {
    const request = objectOf(body);
    const asked = request === undefined ? "not JSON" : anthropicAsked(request, version);
    if (typeof asked === "string") return refuseAnthropic(400, "invalid_request_error", asked);
    const id = idOf("msg_", this.ledger.charges.length, asked.prompt);
    return this.#account.realtime(asked, "realtime", (refused) => {
      if (refused !== undefined) return refused;
      return jsonReply(200, anthropicAnswered(asked, id, "standard"), { "request-id": `req_${id}` });
    });
  }

  #create({ key, body, version, origin }: CreateCall): FakeReply {
    const wrong = (message: string): FakeReply => refuseAnthropic(400, "invalid_request_error", message);
    const { itemsMax, bytesMax, seed } = this.#account.behaviour;
    if (body.length > bytesMax) return refuseAnthropic(413, "request_too_large", `${body.length} bytes`);
    const requests = objectOf(body)?.["requests"];
    if (!Array.isArray(requests) || requests.length === 0) return wrong("requests: Field required");
    if (requests.length > itemsMax) return wrong(`requests: at most ${itemsMax}`);
    const items: RunItem[] = [];
    const ids = new Set<string>();
    for (const [index, request] of requests.entries()) {
      const { custom_id: customId, params } = isObject(request) ? request : {};
      if (typeof customId !== "string" || !CUSTOM_ID.test(customId))
        return wrong(`requests.${index}.custom_id: String should match pattern '${CUSTOM_ID.source}'`);
      if (ids.has(customId)) return wrong(`requests.${index}.custom_id: ${customId} is not unique`);
      if (!isObject(params)) return wrong(`requests.${index}.params: Field required`);
      ids.add(customId);
      const asked = anthropicAsked(params, version);
      items.push(itemOf(typeof asked === "string" ? askedOf("", "FAIL-400", 0, 0) : asked, customId, index));
    }
    const id = idOf("msgbatch_", seed, this.#account.nextBatch);
    const run = this.#account.create({ id, key, items });
    return "status" in run ? run : jsonReply(200, this.#view(run, origin));
  }

  #list(key: string, query: Readonly<Record<string, string>>, origin: string): FakeReply {
    const all = this.#account.listed(key);
    const { after_id, before_id } = query;
    const limit = Math.min(this.#account.behaviour.pageMax, Number(query["limit"] ?? 20));
    const to = before_id === undefined ? all.length : all.findIndex(({ id }) => id === before_id);
    const from =
      before_id === undefined
        ? after_id === undefined
          ? 0
          : all.findIndex(({ id }) => id === after_id) + 1
        : Math.max(0, to - limit);
    const page = all.slice(from, Math.min(to, from + limit));
    return jsonReply(200, {
      data: page.map((run) => this.#view(run, origin)),
      has_more: before_id === undefined ? from + page.length < all.length : from > 0,
      first_id: page[0]?.id ?? null,
      last_id: page.at(-1)?.id ?? null,
    });
  }

  #found(id: string, key: string, then: (run: Run) => FakeReply): FakeReply {
    const run = this.#account.find(id, key);
    return run === undefined ? refuseAnthropic(404, "not_found_error", `no batch ${id}`) : then(run);
  }

  #cancel(run: Run, shown: (run: Run) => FakeReply): FakeReply {
    if (run.isEndedAt(this.#account.nowMs))
      return refuseAnthropic(400, "invalid_request_error", "the batch has ended");
    this.#account.cancel(run);
    return shown(run);
  }

  #delete(run: Run): FakeReply {
    if (!run.isEndedAt(this.#account.nowMs))
      return refuseAnthropic(400, "invalid_request_error", "the batch has not ended");
    this.#account.delete(run);
    return jsonReply(200, { id: run.id, type: "message_batch_deleted" });
  }

  #fetch(run: Run): FakeReply {
    const { nowMs } = this.#account;
    if (!run.isEndedAt(nowMs) || this.#isArchived(run))
      return refuseAnthropic(404, "not_found_error", "no results");
    let bytes = this.#results.get(run.id);
    if (bytes === undefined) {
      bytes = fileOf(run, this.#lines(run));
      this.#results.set(run.id, bytes);
    }
    return bytesReply(bytes, "application/x-jsonl");
  }

  #lines(run: Run): string[] {
    const left = run.stateAt(this.#account.nowMs) === "expired" ? "expired" : "canceled";
    const succeeded = anthropicLines();
    const prefix = `msg_${run.id.slice(9)}`;
    return resultsOf(this.#account, run).map(({ item, id, status }) => {
      const asked = item ?? run.items[0];
      const line = (result: object | null): string => JSON.stringify({ custom_id: id, result });
      if (status === undefined || asked === undefined) return line({ type: left });
      if (asked.fate.isNull) return line(null);
      if (status === 200) return succeeded(id, asked, `${prefix}${item?.index ?? id}`);
      return line({ type: "errored", error: errorOf(status, asked.fate.isHold) });
    });
  }

  #isArchived(run: Run): boolean {
    return this.#account.nowMs >= run.createdMs + (this.#options.resultsKeptMs ?? 29 * DAY_MS);
  }

  #view(run: Run, origin: string): object {
    const { nowMs } = this.#account;
    const shown = this.#account.shown(run);
    const isEnded = run.isEndedAt(nowMs);
    const state = typeof shown === "string" ? (isEnded ? "ended" : "in_progress") : shown.name;
    const isCanceling = shown === "cancelling";
    const archivedMs = run.createdMs + (this.#options.resultsKeptMs ?? 29 * DAY_MS);
    const hasResults = isEnded && !this.#isArchived(run) && run.wrong.hasNoResults !== true;
    return {
      id: run.id,
      type: "message_batch",
      processing_status: isCanceling ? "canceling" : state,
      request_counts: isEnded ? this.#counts(run) : { ...NO_COUNTS, processing: run.items.length },
      created_at: new Date(run.createdMs).toISOString(),
      expires_at: new Date(run.expiresMs).toISOString(),
      ended_at: isEnded ? new Date(run.endMs).toISOString() : null,
      cancel_initiated_at: run.cancelAskedMs === undefined ? null : new Date(run.cancelAskedMs).toISOString(),
      archived_at: this.#isArchived(run) ? new Date(archivedMs).toISOString() : null,
      results_url: hasResults ? `${origin}/v1/messages/batches/${run.id}/results` : null,
    };
  }

  #counts(run: Run): object {
    const left = run.items.length - run.booked;
    const isExpired = run.stateAt(this.#account.nowMs) === "expired";
    return {
      ...NO_COUNTS,
      succeeded: run.good,
      errored: run.booked - run.good,
      [isExpired ? "expired" : "canceled"]: left,
    };
  }
}

interface CreateCall {
  readonly key: string;
  readonly body: Uint8Array;
  readonly version: string;
  readonly origin: string;
}

const NO_COUNTS = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 };

function errorOf(status: Exclude<FakeResult["status"], undefined>, isHold: boolean): object {
  const type = isHold ? "billing_error" : typeOfStatus(status);
  const message = isHold ? "Your credit balance is too low" : `the prompt asked for ${status}`;
  return { type: "error", error: { type, message }, request_id: "req_errored" };
}
