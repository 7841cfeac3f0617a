/**
 * A fake of Together: batches by file, files, and `/v1/chat/completions`. Facts: Together's SDK and documentation, read 2026-11.
 *
 * States: VALIDATING -> IN_PROGRESS -> COMPLETED | FAILED | EXPIRED | CANCELLED (run.ts). There is no metadata; a create is answered
 * with `{job, warning}`, a list with a plain array of all batches. A file is made by its name, and its bytes are put where a redirect says,
 * as the SDK does; the form of OpenAI is taken, too.
 */
import { FakeAccount } from "./account.ts";
import type { FakeOptions } from "./behaviour.ts";
import { type ChatEntry, type ResultFiles, readEntries, refuse, resultFiles } from "./chat_batch.ts";
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
import { idOf } from "./results.ts";
import type { Run, RunState } from "./run.ts";

export interface FakeTogetherOptions extends FakeOptions {
  /** Of uploaded files; default `batch-api`. */
  readonly purpose?: string;
}

const STORE = "/store/";

const STATUSES: Readonly<Record<RunState, string>> = {
  validating: "VALIDATING",
  failed: "FAILED",
  running: "IN_PROGRESS",
  finalizing: "IN_PROGRESS",
  completed: "COMPLETED",
  expired: "EXPIRED",
  cancelling: "IN_PROGRESS",
  cancelled: "CANCELLED",
};

interface TogetherBatch {
  readonly run: Run;
  readonly inputFile: string;
  readonly endpoint: string;
  files: ResultFiles | undefined;
}

export class FakeTogetherBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly files: OpenAiFiles;
  readonly #account: FakeAccount;
  readonly #purpose: string;
  readonly #batches = new Map<string, TogetherBatch>();
  /** Where bytes of files are put, by id. */
  readonly #places = new Map<string, { put(bytes: Uint8Array): void }>();

  constructor(options: FakeTogetherOptions) {
    this.#account = new FakeAccount({ bytesMax: 100 * 1024 * 1024, ...options }, refuse);
    this.ledger = this.#account.ledger;
    this.#purpose = options.purpose ?? "batch-api";
    this.files = new OpenAiFiles(this.#account, refuse, this.#purpose);
  }

  handle(request: FakeRequest): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, body } = request;
    const account = this.#account;
    const key = bearerOf(request);
    if (method === "POST" && OPENAI_ENDPOINTS.has(path))
      return account.call("realtime", key, () => answerChat(account, refuse, path, body));
    if (method === "PUT" && path.startsWith(STORE)) return this.#put(path.slice(STORE.length), body);
    if (method === "POST" && path === "/v1/files" && query["file_name"] !== undefined)
      return account.call("upload", key, () => this.#place(key, query));
    if (path.startsWith("/v1/files")) return this.files.handle(request, key);
    const [, id, verb = ""] = /^\/v1\/batches(?:\/([^/]+))?(\/cancel)?$/.exec(path) ?? [];
    const found = (then: (batch: TogetherBatch) => FakeReply): FakeReply => {
      const run = account.find(id ?? "", key);
      const batch = run && this.#batches.get(run.id);
      return batch === undefined ? refuse(404, "not_found", `no batch ${id}`) : then(batch);
    };
    switch (`${method} ${id === undefined ? "" : "ID"}${verb}`) {
      case "POST ":
        return account.call("create", key, () => this.#create(key, body));
      case "GET ":
        return account.call("list", key, () =>
          jsonReply(
            200,
            account.listed(key).flatMap((run) => {
              const batch = this.#batches.get(run.id);
              return batch === undefined ? [] : [this.#view(batch)];
            }),
          ),
        );
      case "GET ID":
        return account.call("get", key, () => found((batch) => jsonReply(200, this.#view(batch))));
      case "POST ID/cancel":
        return account.call("cancel", key, () =>
          found((batch) => {
            account.cancel(batch.run);
            return jsonReply(200, this.#view(batch));
          }),
        );
      default:
        return refuse(404, "not_found", `${method} ${path}`);
    }
  }

  #place(key: string, { file_name = "", purpose }: Readonly<Record<string, string>>): FakeReply {
    if (purpose !== this.#purpose)
      return refuse(400, "invalid_request_error", `purpose must be ${this.#purpose}`);
    const place = this.files.reserve(key, file_name);
    this.#places.set(place.id, place);
    const headers = { location: `${STORE}${place.id}`, "x-together-file-id": place.id };
    return { status: 302, headers, body: new Uint8Array() };
  }

  /** Without a key: the place is signed. */
  #put(id: string, body: Uint8Array): FakeReply {
    const place = this.#places.get(id);
    if (place === undefined) return refuse(403, "AccessDenied", "the place is not valid any more");
    place.put(Uint8Array.from(body));
    return { status: 200, headers: {}, body: new Uint8Array() };
  }

  #create(key: string, body: Uint8Array): FakeReply {
    const { input_file_id, endpoint } = objectOf(body) ?? {};
    if (typeof endpoint !== "string" || !OPENAI_ENDPOINTS.has(endpoint))
      return refuse(400, "invalid_request_error", `endpoint: ${endpoint}`);
    const file = typeof input_file_id === "string" ? this.files.find(input_file_id, key) : undefined;
    if (file === undefined) return refuse(400, "invalid_request_error", `no file ${input_file_id}`);
    const { itemsMax, seed } = this.#account.behaviour;
    const read = readEntries(linesOf(file.bytes()).map(entryOf), { endpoint, itemsMax });
    const id = idOf("batch-", seed, this.#account.nextBatch);
    const run = this.#account.create({ id, key, ...read });
    if ("status" in run) return run;
    const batch: TogetherBatch = { run, inputFile: file.id, endpoint, files: undefined };
    this.#batches.set(id, batch);
    return jsonReply(201, { job: this.#view(batch), warning: null });
  }

  #view(batch: TogetherBatch): object {
    const { run, endpoint, inputFile } = batch;
    const { nowMs } = this.#account;
    const isEnded = run.isEndedAt(nowMs);
    if (isEnded) batch.files ??= resultFiles(this.#account, this.files, run, endpoint);
    const state = this.#account.shown(run);
    const [fault] = run.faults;
    return {
      id: run.id,
      status: typeof state === "string" ? STATUSES[state] : state.name.toUpperCase(),
      progress: run.items.length === 0 ? 0 : Math.floor((100 * run.booked) / run.items.length),
      input_file_id: inputFile,
      output_file_id: batch.files?.output?.id ?? null,
      error_file_id: batch.files?.errors?.id ?? null,
      endpoint,
      model_id: run.items[0]?.model ?? null,
      error: isEnded && fault !== undefined ? fault.message : null,
      created_at: new Date(run.createdMs).toISOString(),
      completed_at: isEnded ? new Date(run.endMs).toISOString() : null,
      job_deadline: new Date(run.expiresMs).toISOString(),
    };
  }
}

function entryOf(line: string): ChatEntry | undefined {
  const entry = objectOf(line);
  const body = entry?.["body"];
  return entry && { customId: entry["custom_id"], body: isObject(body) ? body : undefined };
}
