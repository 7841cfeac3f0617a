/**
 * A fake of Mistral: batch jobs by file and inline, files, and `/v1/chat/completions`. Wire: Mistral's
 * OpenAPI file, read 2026-11.
 *
 * States: QUEUED -> RUNNING -> SUCCESS | FAILED | TIMEOUT_EXCEEDED; CANCELLATION_REQUESTED -> CANCELLED (run.ts). The list filters by
 * metadata, status and time of creation. Results of inline requests are in `outputs` of the job, others in files.
 */
import { FakeAccount } from "./account.ts";
import type { FakeOptions } from "./behaviour.ts";
import {
  type ChatEntry,
  type ResultFiles,
  readEntries,
  refuse,
  resultFiles,
  resultLines,
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
  jsonReply,
  linesOf,
  objectOf,
} from "./fake.ts";
import type { Ledger } from "./ledger.ts";
import { OPENAI_ENDPOINTS } from "./openai_answers.ts";
import { OpenAiFiles } from "./openai_files.ts";
import { answerChat } from "./realtime_chat.ts";
import { idOf, resultsOf } from "./results.ts";
import type { Run, RunState } from "./run.ts";

const STATUSES: Readonly<Record<RunState, string>> = {
  validating: "QUEUED",
  failed: "FAILED",
  running: "RUNNING",
  finalizing: "RUNNING",
  completed: "SUCCESS",
  expired: "TIMEOUT_EXCEEDED",
  cancelling: "CANCELLATION_REQUESTED",
  cancelled: "CANCELLED",
};

const HOUR_MS = 3_600_000;

interface MistralJob {
  readonly run: Run;
  readonly inputFiles: readonly string[];
  readonly endpoint: string;
  readonly metadata: unknown;
  readonly isInline: boolean;
  files: ResultFiles | undefined;
}

export class FakeMistralBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly files: OpenAiFiles;
  readonly #account: FakeAccount;
  readonly #jobs = new Map<string, MistralJob>();

  constructor(options: FakeOptions) {
    this.#account = new FakeAccount({ itemsMax: 1_000_000, ...options }, refuse);
    this.ledger = this.#account.ledger;
    this.files = new OpenAiFiles(this.#account, refuse);
  }

  handle(request: FakeRequest): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, body } = request;
    const key = bearerOf(request);
    const account = this.#account;
    if (method === "POST" && OPENAI_ENDPOINTS.has(path))
      return account.call("realtime", key, () => answerChat(account, refuse, path, body));
    if (path.startsWith("/v1/files")) return this.files.handle(request, key);
    const [, id, verb = ""] = /^\/v1\/batch\/jobs(?:\/([^/]+))?(\/cancel)?$/.exec(path) ?? [];
    switch (`${method} ${id === undefined ? "" : "ID"}${verb}`) {
      case "POST ":
        return account.call("create", key, () => this.#create(key, body));
      case "GET ":
        return account.call("list", key, () => this.#list(key, query));
      case "GET ID":
        return account.call("get", key, () => this.#found(id, key, (job) => this.#shown(job, true)));
      case "POST ID/cancel":
        return account.call("cancel", key, () =>
          this.#found(id, key, (job) => {
            account.cancel(job.run);
            return this.#shown(job, false);
          }),
        );
      case "DELETE ID":
        return account.call("delete", key, () =>
          this.#found(id, key, ({ run }) => {
            account.delete(run);
            return jsonReply(200, { id: run.id, object: "batch", deleted: true });
          }),
        );
      default:
        return refuse(404, "not_found", `${method} ${path}`);
    }
  }

  #create(key: string, body: Uint8Array): FakeReply {
    const asked = objectOf(body) ?? {};
    const { input_files, requests, endpoint, model, metadata = null, timeout_hours = 24 } = asked;
    const wrong = (msg: string): FakeReply =>
      jsonReply(422, { detail: [{ loc: ["body"], msg, type: "value_error" }] });
    if (typeof endpoint !== "string" || !OPENAI_ENDPOINTS.has(endpoint)) return wrong("endpoint");
    if (typeof model !== "string" || model === "") return wrong("model");
    if (typeof timeout_hours !== "number" || timeout_hours < 1 || timeout_hours > 168)
      return wrong("timeout_hours");
    const ids = Array.isArray(input_files) ? input_files.map(String) : [];
    const files = ids.map((id) => this.files.find(id, key));
    if (files.includes(undefined)) return wrong("input_files");
    if (ids.length === 0 && !Array.isArray(requests)) return wrong("input_files or requests");
    const entries =
      ids.length > 0
        ? files.flatMap((file) => (file === undefined ? [] : linesOf(file.bytes()).map(objectOf)))
        : (requests as unknown[]).map((entry) => (isObject(entry) ? entry : undefined));
    const { itemsMax, seed } = this.#account.behaviour;
    const read = readEntries(entries.map(entryOf), { endpoint, model, itemsMax });
    const id = idOf("job-", seed, this.#account.nextBatch);
    const windowMs = timeout_hours * HOUR_MS;
    const run = this.#account.create({ id, key, ...read, windowMs });
    if ("status" in run) return run;
    const isInline = ids.length === 0;
    const job: MistralJob = { run, inputFiles: ids, endpoint, metadata, isInline, files: undefined };
    this.#jobs.set(id, job);
    return this.#shown(job, false);
  }

  /** `page` counts from 0. */
  #list(key: string, query: Readonly<Record<string, string>>): FakeReply {
    const { metadata, created_after, status } = query;
    const wanted = metadata === undefined ? {} : (objectOf(metadata) ?? {});
    const afterMs = created_after === undefined ? 0 : Date.parse(created_after);
    const jobs = this.#account.listed(key).flatMap((run) => {
      const job = this.#jobs.get(run.id);
      if (job === undefined || run.createdMs < afterMs) return [];
      if (status !== undefined && !status.split(",").includes(this.#status(run))) return [];
      const has = isObject(job.metadata) ? job.metadata : {};
      return Object.entries(wanted).every(([name, text]) => has[name] === text) ? [job] : [];
    });
    const size = Math.min(this.#account.behaviour.pageMax, Number(query["page_size"] ?? 100));
    const from = Number(query["page"] ?? 0) * size;
    const data = jobs.slice(from, from + size).map((job) => this.#view(job, false));
    return jsonReply(200, { object: "list", data, total: jobs.length });
  }

  #found(id: string | undefined, key: string, then: (job: MistralJob) => FakeReply): FakeReply {
    const run = this.#account.find(id ?? "", key);
    const job = run && this.#jobs.get(run.id);
    return job === undefined ? refuse(404, "not_found", `no job ${id}`) : then(job);
  }

  #status(run: Run): string {
    const state = this.#account.shown(run);
    return typeof state === "string" ? STATUSES[state] : state.name.toUpperCase();
  }

  #shown(job: MistralJob, withOutputs: boolean): FakeReply {
    return jsonReply(200, this.#view(job, withOutputs));
  }

  #view(job: MistralJob, withOutputs: boolean): object {
    const { run, endpoint, isInline } = job;
    const isEnded = run.isEndedAt(this.#account.nowMs);
    const hasOutputs = isEnded && isInline && withOutputs && run.wrong.hasNoResults !== true;
    if (isEnded && !isInline) job.files ??= resultFiles(this.#account, this.files, run, endpoint);
    return {
      id: run.id,
      object: "batch",
      input_files: job.inputFiles,
      metadata: job.metadata,
      endpoint,
      model: run.items[0]?.model ?? null,
      output_file: job.files?.output?.id ?? null,
      error_file: job.files?.errors?.id ?? null,
      errors: isEnded ? run.faults.map(({ message }) => ({ message, count: 1 })) : [],
      outputs: hasOutputs
        ? resultLines(this.#account, run, endpoint, resultsOf(this.#account, run)).map(objectOf)
        : null,
      status: this.#status(run),
      created_at: secondsOf(run.createdMs),
      total_requests: run.items.length,
      completed_requests: run.booked,
      succeeded_requests: run.good,
      failed_requests: run.booked - run.good,
      started_at: this.#account.nowMs >= run.startMs ? secondsOf(run.startMs) : null,
      completed_at: isEnded ? secondsOf(run.endMs) : null,
    };
  }
}

function entryOf(entry: ReturnType<typeof objectOf>): ChatEntry | undefined {
  const body = entry?.["body"];
  return entry && { customId: entry["custom_id"], body: isObject(body) ? body : undefined };
}
