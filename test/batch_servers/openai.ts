/**
 * A fake of OpenAI: files, batches, and the endpoints that answer in realtime (`/v1/chat/completions`, `/v1/responses`,
 * `/v1/embeddings`). Wire: openai 6.49.0 and OpenAI's OpenAPI file of 2026-08-21.
 *
 * States: validating -> in_progress -> finalizing -> completed; failed, expired, cancelling -> cancelled (run.ts).
 * Results are files: finished requests with 200 in the output file, all others in the error file; both are made when the batch ends.
 */
import { codeOf, FakeAccount } from "./account.ts";
import type { FakeOptions } from "./behaviour.ts";
import {
  addressOf,
  type BatchFake,
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
import { OPENAI_ENDPOINTS, openaiAnswered, openaiAsked, openaiLines } from "./openai_answers.ts";
import { OpenAiFiles, pageOf, type StoredFile } from "./openai_files.ts";
import { type FakeResult, fileOf, idOf, resultsOf } from "./results.ts";
import { itemOf, type Run, type RunFault, type RunItem, type RunState } from "./run.ts";

export interface FakeOpenAiOptions extends FakeOptions {
  /** What `completion_window` may be; default only `24h`. Others than `<n>h` and `<n>d` are not understood. */
  readonly windows?: readonly string[];
  /** Whether validation faults have the number of their line; default true. */
  readonly tellsLines?: boolean;
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
  files: { readonly output: StoredFile | undefined; readonly errors: StoredFile | undefined } | undefined;
}

function refuse(status: number, code: string, message: string): FakeReply {
  const type = status === 429 && code === "insufficient_quota" ? code : typeOf(status);
  return jsonReply(status, { error: { message, type, param: null, code } });
}

function typeOf(status: number): string {
  if (status === 429) return "rate_limit_exceeded";
  return status >= 500 ? "server_error" : "invalid_request_error";
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
    const { method, headers, body } = request;
    const key = (headers["authorization"] ?? headers["api-key"] ?? "").replace(/^Bearer /, "");
    const account = this.#account;
    const [, , resource = "", id = "", verb = ""] = path.split("/");
    const route = `${method} ${resource}${id === "" ? "" : "/ID"}${verb === "" ? "" : `/${verb}`}`;
    if (method === "POST" && OPENAI_ENDPOINTS.has(path))
      return account.call("realtime", key, () => this.#answer(path, body));
    switch (route) {
      case "POST files":
        return account.call("upload", key, () => this.files.upload(key, headers["content-type"], body));
      case "GET files":
        return account.call("find_file", key, () => this.files.list(key, query));
      case "GET files/ID":
        return account.call("find_file", key, () => this.files.get(id, key));
      case "GET files/ID/content":
        return account.call("results", key, () => this.files.content(id, key));
      case "DELETE files/ID":
        return account.call("delete", key, () => this.files.delete(id, key));
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

  #answer(path: string, body: Uint8Array): FakeReply {
    const request = objectOf(body);
    const asked = request && openaiAsked(path, request);
    if (asked === undefined) return refuse(400, "invalid_request_error", "not a request");
    const tier = request?.["service_tier"] === "flex" ? "flex" : "realtime";
    const { nowMs } = this.#account;
    const id = idOf("", this.ledger.charges.length, asked.prompt);
    return this.#account.realtime(asked, tier, (refused) => {
      if (refused !== undefined) return refused;
      const said = { id: `chatcmpl-${id}`, createdMs: nowMs, tier: tier === "flex" ? "flex" : "default" };
      return jsonReply(200, openaiAnswered(path, asked, said), { "x-request-id": `req_${id}` });
    });
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
    const { items, faults } = this.#read(file.bytes(), endpoint);
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

  /** The requests of a file and what is wrong with them. */
  #read(bytes: Uint8Array, endpoint: string): { readonly items: RunItem[]; readonly faults: RunFault[] } {
    const items: RunItem[] = [];
    const faults: RunFault[] = [];
    const ids = new Set<string>();
    const lines = linesOf(bytes);
    let model: string | undefined;
    for (const [line, text] of lines.entries()) {
      const fault = (code: string, message: string): number => faults.push({ code, message, line });
      const entry = objectOf(text);
      const body = entry?.["body"];
      const asked = isObject(body) ? openaiAsked(endpoint, body) : undefined;
      const id = entry?.["custom_id"];
      if (entry === undefined) fault("invalid_json_line", "This line is not parseable as valid JSON.");
      else if (typeof id !== "string" || id === "")
        fault("missing_required_parameter", "custom_id is missing");
      else if (ids.has(id)) fault("duplicate_custom_id", `The custom_id ${id} is not unique.`);
      else if (entry["method"] !== "POST") fault("invalid_method", "method must be POST");
      else if (entry["url"] !== endpoint) fault("invalid_url", "The URL does not match the batch endpoint.");
      else if (asked === undefined) fault("invalid_request", "the body is not a request");
      else if (asked.fate.isInvalid) fault("invalid_request", "the prompt asked to be invalid");
      else if (asked.model !== (model ?? asked.model)) fault("mismatched_model", "a batch has one model");
      else {
        ids.add(id);
        model = asked.model;
        items.push(itemOf(asked, id, items.length));
      }
    }
    const { itemsMax } = this.#account.behaviour;
    const whole = (code: string, message: string): number => faults.push({ code, message, line: undefined });
    if (lines.length === 0) whole("empty_file", "The file is empty.");
    if (lines.length > itemsMax) whole("too_many_tasks", `A batch may have ${itemsMax} requests.`);
    return { items, faults };
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
    if (isEnded) batch.files ??= this.#filesOf(batch);
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
      created_at: seconds(run.createdMs),
      in_progress_at: nowMs >= run.startMs && !run.isFailing ? seconds(run.startMs) : null,
      expires_at: seconds(run.expiresMs),
      finalizing_at: status === "finalizing" || status === "completed" ? seconds(run.endMs) : null,
      completed_at: status === "completed" ? seconds(run.endMs) : null,
      failed_at: status === "failed" ? seconds(run.endMs) : null,
      expired_at: status === "expired" ? seconds(run.endMs) : null,
      cancelling_at: run.cancelAskedMs === undefined ? null : seconds(run.cancelAskedMs),
      cancelled_at: status === "cancelled" ? seconds(run.endMs) : null,
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

  #filesOf({ run, id, endpoint }: OpenAiBatch): OpenAiBatch["files"] {
    const results = resultsOf(this.#account, run);
    const isGood = ({ status, item }: FakeResult): boolean =>
      status === 200 || (status !== undefined && item?.fate.isInBody === true);
    const file = (name: string, chosen: readonly FakeResult[]): StoredFile | undefined => {
      if (chosen.length === 0) return undefined;
      const make = (): Uint8Array => fileOf(run, this.#lines(run, endpoint, chosen));
      return this.files.make(run.workspace, `${id}_${name}.jsonl`, run.endMs, make);
    };
    const output = file("output", results.filter(isGood));
    return {
      output,
      errors: file(
        "error",
        results.filter((result) => !isGood(result)),
      ),
    };
  }

  #lines(run: Run, endpoint: string, results: readonly FakeResult[]): string[] {
    const code = run.stateAt(this.#account.nowMs) === "expired" ? "batch_expired" : "batch_cancelled";
    const unfinished = { code, message: "This request could not be executed before the batch ended." };
    const answered = openaiLines(endpoint, run.endMs);
    const prefix = run.id.slice(6);
    return results.map(({ item, id: customId, status }) => {
      const number = `${prefix}${item?.index ?? customId}`;
      const id = `batch_req_${number}`;
      const asked = item ?? run.items[0];
      const line = (response: object | null, error: object | null): string =>
        JSON.stringify({ id, custom_id: customId, response, error });
      if (status === undefined || asked === undefined) return line(null, unfinished);
      if (asked.fate.isNull) return line(null, null);
      if (status === 200) return answered({ id, customId, name: `req_${number}`, asked });
      const body = errorBody(status, asked.fate.isHold);
      return line({ status_code: status, request_id: `req_${number}`, body }, null);
    });
  }
}

function errorBody(status: number, isHold: boolean): object {
  const code = isHold ? "insufficient_quota" : codeOf(status);
  const type = isHold ? code : typeOf(status);
  return { error: { message: `the prompt asked for ${status}`, type, param: null, code } };
}

function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
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
