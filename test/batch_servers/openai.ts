/**
 * A fake of OpenAI: files, batches, and the endpoints that answer in realtime (`/v1/chat/completions`, `/v1/responses`,
 * `/v1/embeddings`, `/v1/completions`, `/v1/moderations`). Wire: openai 6.49.0 and OpenAI's OpenAPI file of 2026-08-21.
 *
 * States: validating -> in_progress -> finalizing -> completed; failed, expired, cancelling -> cancelled (run.ts).
 * Results are files: finished requests with 200 in the output file, all others in the error file; both are made when the batch ends.
 */
import { FakeAccount } from "./account.ts";
import type { FakeOptions } from "./behaviour.ts";
import {
  type ChatEntry,
  type ResultFiles,
  readEntries,
  refuse,
  resultFiles,
  secondsOf,
} from "./chat_batch.ts";
import {
  addressOf,
  type BatchFake,
  bearerOf,
  type FakeAnswer,
  type FakeReply,
  type FakeRequest,
  isObject,
  type JsonObject,
  jsonReply,
  linesOf,
  objectOf,
} from "./fake.ts";
import type { Ledger } from "./ledger.ts";
import { inputsOf, OPENAI_ENDPOINTS } from "./openai_answers.ts";
import { OpenAiFiles, pageOf } from "./openai_files.ts";
import { answerChat } from "./realtime_chat.ts";
import { idOf } from "./results.ts";
import type { Run, RunState } from "./run.ts";

export interface FakeOpenAiOptions extends FakeOptions {
  /** What `completion_window` may be; default only `24h`. Others than `<n>h` and `<n>d` are not understood. */
  readonly windows?: readonly string[];
  /** Whether validation faults have the number of their line; default true. */
  readonly tellsLines?: boolean;
  /** Inputs of all requests of a batch for embeddings; default 50,000. */
  readonly inputsMax?: number;
}

const STATUSES: Readonly<Record<RunState, string>> = {
  validating: "validating",
  failed: "failed",
  running: "in_progress",
  finalizing: "finalizing",
  completed: "completed",
  expired: "expired",
  cancelling: "cancelling",
  cancelled: "cancelled",
};

interface OpenAiBatch {
  readonly run: Run;
  readonly id: string;
  readonly inputFile: string;
  readonly endpoint: string;
  readonly window: string;
  readonly metadata: unknown;
  /** Made at the end; undefined before it. */
  files: ResultFiles | undefined;
}

export class FakeOpenAiBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly files: OpenAiFiles;
  readonly #account: FakeAccount;
  readonly #options: FakeOpenAiOptions;
  readonly #batches = new Map<string, OpenAiBatch>();

  constructor(options: FakeOpenAiOptions) {
    this.#options = options;
    this.#account = new FakeAccount(options, refuse);
    this.ledger = this.#account.ledger;
    this.files = new OpenAiFiles(this.#account, refuse);
  }

  handle(request: FakeRequest): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, body } = request;
    const key = bearerOf(request);
    const account = this.#account;
    const [, , resource = "", id = "", verb = ""] = path.split("/");
    const route = `${method} ${resource}${id === "" ? "" : "/ID"}${verb === "" ? "" : `/${verb}`}`;
    if (method === "POST" && OPENAI_ENDPOINTS.has(path))
      return account.call("realtime", key, () => answerChat(account, refuse, path, body));
    if (resource === "files") return this.files.handle(request, key);
    switch (route) {
      case "POST batches":
        return account.call("create", key, () => this.#create(key, body));
      case "GET batches":
        return account.call("list", key, () => this.#list(key, query));
      case "GET batches/ID":
        return account.call("get", key, () => this.#found(id, key, (batch) => this.#shown(batch)));
      case "POST batches/ID/cancel":
        return account.call("cancel", key, () => this.#cancel(id, key));
      default:
        return refuse(404, "unknown_url", `Unknown request URL: ${method} ${path}`);
    }
  }

  #create(key: string, body: Uint8Array): FakeReply {
    const asked = objectOf(body) ?? {};
    const { input_file_id, endpoint, completion_window, metadata = null } = asked;
    const { windows = ["24h"] } = this.#options;
    const wrong = (message: string): FakeReply => refuse(400, "invalid_request_error", message);
    if (typeof endpoint !== "string" || !OPENAI_ENDPOINTS.has(endpoint))
      return wrong(`Invalid value for endpoint: ${endpoint}`);
    if (typeof completion_window !== "string" || !windows.includes(completion_window))
      return wrong(`Invalid value for completion_window: ${completion_window}`);
    if (!isMetadata(metadata)) return wrong("Invalid metadata");
    const file = typeof input_file_id === "string" ? this.files.find(input_file_id, key) : undefined;
    if (file === undefined) return wrong(`No such File object: ${input_file_id}`);
    const id = idOf("batch_", this.#account.behaviour.seed, this.#account.nextBatch);
    const { itemsMax } = this.#account.behaviour;
    const entries = linesOf(file.bytes()).map((line) => entryOf(line, endpoint));
    const { items, faults } = readEntries(entries, { endpoint, itemsMax });
    const { inputsMax = 50_000 } = this.#options;
    const inputs = items.reduce((sum, { prompt }) => sum + inputsOf(prompt).length, 0);
    if (endpoint.endsWith("/embeddings") && inputs > inputsMax)
      faults.push({ code: "too_many_inputs", message: `${inputs} inputs`, line: undefined });
    const windowMs = this.#options.windowMs ?? windowMsOf(completion_window);
    const run = this.#account.create({ id, key, items, faults, windowMs });
    if ("status" in run) return run;
    const batch = {
      run,
      id,
      inputFile: file.id,
      endpoint,
      window: completion_window,
      metadata,
      files: undefined,
    };
    this.#batches.set(id, batch);
    return this.#shown(batch);
  }

  #list(key: string, query: Readonly<Record<string, string>>): FakeReply {
    const { pageMax } = this.#account.behaviour;
    const limit = Math.min(pageMax, Number(query["limit"] ?? 20));
    const page = pageOf(this.#account.listed(key), query["after"], limit);
    const data = page.data.map(({ id }) => this.#view(this.#batches.get(id) as OpenAiBatch));
    return jsonReply(200, { ...page, data });
  }

  #cancel(id: string, key: string): FakeReply {
    return this.#found(id, key, (batch) => {
      const { run } = batch;
      if (run.isEndedAt(this.#account.nowMs))
        return refuse(
          409,
          "invalid_request_error",
          `Cannot cancel a batch with status '${this.#status(run)}'.`,
        );
      this.#account.cancel(run);
      return this.#shown(batch);
    });
  }

  #found(id: string, key: string, then: (batch: OpenAiBatch) => FakeReply): FakeReply {
    const run = this.#account.find(id, key);
    const batch = this.#batches.get(id);
    if (run === undefined || batch === undefined)
      return refuse(404, "invalid_request_error", `No batch found with id '${id}'.`);
    return then(batch);
  }

  #status(run: Run): string {
    const state = this.#account.shown(run);
    return typeof state === "string" ? STATUSES[state] : state.name;
  }

  #shown(batch: OpenAiBatch): FakeReply {
    return jsonReply(200, this.#view(batch));
  }

  #view(batch: OpenAiBatch): JsonObject {
    const { run } = batch;
    const { nowMs } = this.#account;
    const isEnded = run.isEndedAt(nowMs);
    if (isEnded) batch.files ??= resultFiles(this.#account, this.files, run, batch.endpoint);
    const status = this.#status(run);
    const errors = run.isFailing && isEnded ? { object: "list", data: this.#errorsOf(run) } : null;
    return {
      id: batch.id,
      object: "batch",
      endpoint: batch.endpoint,
      model: run.items[0]?.model,
      errors,
      input_file_id: batch.inputFile,
      completion_window: batch.window,
      status,
      output_file_id: batch.files?.output?.id ?? null,
      error_file_id: batch.files?.errors?.id ?? null,
      created_at: secondsOf(run.createdMs),
      in_progress_at: nowMs >= run.startMs && !run.isFailing ? secondsOf(run.startMs) : null,
      expires_at: secondsOf(run.expiresMs),
      finalizing_at: status === "finalizing" || status === "completed" ? secondsOf(run.endMs) : null,
      completed_at: status === "completed" ? secondsOf(run.endMs) : null,
      failed_at: status === "failed" ? secondsOf(run.endMs) : null,
      expired_at: status === "expired" ? secondsOf(run.endMs) : null,
      cancelling_at: run.cancelAskedMs === undefined ? null : secondsOf(run.cancelAskedMs),
      cancelled_at: status === "cancelled" ? secondsOf(run.endMs) : null,
      request_counts: run.isFailing
        ? { total: 0, completed: 0, failed: 0 }
        : { total: run.items.length, completed: run.good, failed: run.booked - run.good },
      metadata: batch.metadata,
    };
  }

  #errorsOf(run: Run): object[] {
    const { tellsLines = true } = this.#options;
    return run.faults.map(({ code, message, line }) => ({
      code,
      message,
      param: null,
      line: line === undefined || !tellsLines ? null : line + 1,
    }));
  }
}

function entryOf(line: string, endpoint: string): ChatEntry | undefined {
  const entry = objectOf(line);
  if (entry === undefined) return undefined;
  const { custom_id: customId, method, url, body } = entry;
  const fault =
    method !== "POST"
      ? { code: "invalid_method", message: "method must be POST" }
      : url !== endpoint
        ? { code: "invalid_url", message: "The URL does not match the batch endpoint." }
        : undefined;
  return { customId, body: isObject(body) ? body : undefined, fault };
}

/** `24h`, `7d`. */
function windowMsOf(window: string): number {
  const hours = Number.parseFloat(window) * (window.endsWith("d") ? 24 : 1);
  return hours * 3_600_000;
}

/** At most 16 pairs of texts; names of 64 characters, values of 512. */
function isMetadata(value: unknown): boolean {
  if (value === null) return true;
  if (!isObject(value) || Object.keys(value).length > 16) return false;
  return Object.entries(value).every(
    ([name, text]) => name.length <= 64 && typeof text === "string" && text.length <= 512,
  );
}
