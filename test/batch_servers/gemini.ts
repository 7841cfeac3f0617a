/**
 * A fake of Gemini's Developer API: files, batches of `generateContent` (by file and inline), `:generateContent`, and interactions
 * (gemini_interactions.ts).
 * Wire: @google/genai 2.32.0 and Google's documentation of batch mode.
 *
 * States: PENDING -> RUNNING -> SUCCEEDED | FAILED | CANCELLED | EXPIRED (run.ts), in two spellings. A failed request is an error
 * among the results of a batch that succeeded. A validation fault has no line. A missing file is a 403, as Google answers it.
 */
import { FakeAccount } from "./account.ts";
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
import { geminiAnswered, geminiAsked, geminiLines, refuseGemini, rpcStatusOf } from "./gemini_answers.ts";
import { GeminiFiles, tokenPageOf } from "./gemini_files.ts";
import { GeminiInteractions, type InteractionOptions } from "./gemini_interactions.ts";
import type { Ledger } from "./ledger.ts";
import { fileOf, idOf, resultsOf } from "./results.ts";
import { itemOf, type Run, type RunFault, type RunItem, type RunState } from "./run.ts";

export interface FakeGeminiOptions extends FakeOptions {
  /** Where clients reach it: the origin of upload addresses. Default: what the request names as its host, by http. */
  readonly origin?: string;
  /** How states begin; `both`: by turns. Default `BATCH_STATE_`. */
  readonly spelling?: "BATCH_STATE_" | "JOB_STATE_" | "both";
  /** Where a batch shows its results. Default `both`. */
  readonly outputIn?: "response" | "metadata" | "both";
  /** Whether cancelled and expired batches have results of what was finished; default not. */
  readonly keepsPartialResults?: boolean;
  readonly filesKeptMs?: number;
  readonly interactions?: InteractionOptions;
}

const STATES: Readonly<Record<RunState, string>> = {
  validating: "PENDING",
  failed: "FAILED",
  running: "RUNNING",
  finalizing: "RUNNING",
  completed: "SUCCEEDED",
  expired: "EXPIRED",
  cancelling: "RUNNING",
  cancelled: "CANCELLED",
};

const DAY_MS = 86_400_000;

interface GeminiBatch {
  readonly run: Run;
  readonly name: string;
  readonly model: string;
  readonly displayName: unknown;
  readonly webhookConfig: unknown;
  readonly isInline: boolean;
  /** Made at the end; undefined before it. */
  output: JsonObject | undefined;
}

export class FakeGeminiBatches implements BatchFake {
  readonly ledger: Ledger;
  readonly files: GeminiFiles;
  readonly #account: FakeAccount;
  readonly #interactions: GeminiInteractions;
  readonly #options: FakeGeminiOptions;
  readonly #batches = new Map<string, GeminiBatch>();
  #shownStates = 0;

  constructor(options: FakeGeminiOptions) {
    this.#options = options;
    const bounds = { windowMs: 2 * DAY_MS, itemsMax: Number.POSITIVE_INFINITY, bytesMax: 2 * 1024 ** 3 };
    this.#account = new FakeAccount({ ...bounds, ...options }, refuseGemini);
    this.ledger = this.#account.ledger;
    this.#interactions = new GeminiInteractions(this.#account, options.interactions);
    this.files = new GeminiFiles(this.#account, options.filesKeptMs ?? 2 * DAY_MS);
  }

  handle(request: FakeRequest): FakeAnswer {
    const { path, query } = addressOf(request);
    const { method, headers, body } = request;
    const key = headers["x-goog-api-key"] ?? query["key"] ?? "";
    const account = this.#account;
    const interaction = this.#interactions.handle(method, path, key, body);
    if (interaction !== undefined) return interaction;
    // `/download/v1beta/files/ID:download` and `/v1/files/ID:download` are the same.
    const [, prefix = "", resource = "", id = "", verb = ""] =
      /^(\/upload|\/download)?\/v1(?:beta|alpha)?\/([a-z]+)(?:\/([^:/]+))?(?::([A-Za-z]+))?$/.exec(path) ??
      [];
    const name = `${resource}/${id}`;
    switch (`${method} ${prefix}${resource}${id === "" ? "" : "/ID"}${verb === "" ? "" : `:${verb}`}`) {
      case "POST models/ID:generateContent":
        return account.call("realtime", key, () => this.#answer(id, body));
      case "POST /uploadfiles":
        return account.call("upload", key, () => this.#upload(key, request, query));
      case "GET files":
        return account.call("find_file", key, () => this.files.list(key, query));
      case "GET files/ID":
        return account.call("find_file", key, () => this.files.get(name, key));
      case "GET files/ID:download":
      case "GET /downloadfiles/ID:download":
        return account.call("results", key, () => this.files.download(name, key));
      case "DELETE files/ID":
        return account.call("delete", key, () => this.files.delete(name, key));
      case "POST models/ID:batchGenerateContent":
        return account.call("create", key, () => this.#create(id, key, body));
      case "GET batches":
        return account.call("list", key, () => this.#list(key, query));
      case "GET batches/ID":
        return account.call("get", key, () =>
          this.#found(name, key, (batch) => jsonReply(200, this.#view(batch))),
        );
      case "POST batches/ID:cancel":
        return account.call("cancel", key, () => this.#found(name, key, ({ run }) => this.#cancel(run)));
      case "DELETE batches/ID":
        return account.call("delete", key, () => this.#found(name, key, ({ run }) => this.#delete(run)));
      default:
        return refuseGemini(404, "not_found", `${method} ${path}`);
    }
  }

  #answer(model: string, body: Uint8Array): FakeReply {
    const request = objectOf(body);
    const asked = request && geminiAsked(model, request);
    if (asked === undefined) return refuseGemini(400, "invalid_request_error", "contents are required");
    const isFlex = (request?.["serviceTier"] ?? request?.["service_tier"]) === "flex";
    const id = idOf("", this.ledger.charges.length, asked.prompt);
    return this.#account.realtime(asked, isFlex ? "flex" : "realtime", (refused) => {
      if (refused !== undefined) return refused;
      const headers = { "x-gemini-service-tier": isFlex ? "flex" : "standard" };
      return jsonReply(200, geminiAnswered(asked, id), headers);
    });
  }

  #upload(key: string, { headers, body }: FakeRequest, query: Readonly<Record<string, string>>): FakeReply {
    const command = headers["x-goog-upload-command"] ?? "";
    const origin = this.#options.origin ?? `http://${headers["host"] ?? "gemini.test"}`;
    if (command === "start")
      return this.files.start(key, body, headers["x-goog-upload-header-content-type"], origin);
    return this.files.upload(query["upload_id"] ?? "", command, headers["x-goog-upload-offset"], body);
  }

  #create(model: string, key: string, body: Uint8Array): FakeReply {
    const wrong = (message: string): FakeReply => refuseGemini(400, "invalid_request_error", message);
    const batch = objectOf(body)?.["batch"];
    if (!isObject(batch)) return wrong("batch is required");
    const config = batch["inputConfig"] ?? batch["input_config"];
    if (!isObject(config)) return wrong("batch.inputConfig is required");
    const fileName = config["fileName"] ?? config["file_name"];
    const inline = isObject(config["requests"]) ? config["requests"]["requests"] : undefined;
    const file = typeof fileName === "string" ? this.files.find(fileName, key) : undefined;
    if (file === undefined && !Array.isArray(inline)) return wrong(`no requests: ${fileName}`);
    const entries = file === undefined ? inlineEntries(inline as unknown[]) : fileEntries(file.bytes());
    const { items, faults } = read(entries, model, this.#account.behaviour.itemsMax);
    const name = idOf("batches/", this.#account.behaviour.seed, this.#account.nextBatch);
    const run = this.#account.create({ id: name, key, items, faults });
    if ("status" in run) return run;
    const made: GeminiBatch = {
      run,
      name,
      model,
      displayName: batch["displayName"] ?? batch["display_name"],
      webhookConfig: batch["webhookConfig"] ?? batch["webhook_config"],
      isInline: file === undefined,
      output: undefined,
    };
    this.#batches.set(name, made);
    return jsonReply(200, this.#view(made));
  }

  #list(key: string, query: Readonly<Record<string, string>>): FakeReply {
    const { page, next } = tokenPageOf(this.#account.listed(key), query, this.#account.behaviour.pageMax);
    const operations = page.map(({ id }) => this.#view(this.#batches.get(id) as GeminiBatch));
    return jsonReply(200, { operations, ...next });
  }

  #found(name: string, key: string, then: (batch: GeminiBatch) => FakeReply): FakeReply {
    const run = this.#account.find(name, key);
    const batch = this.#batches.get(name);
    if (run === undefined || batch === undefined) return refuseGemini(404, "not_found", `no ${name}`);
    return then(batch);
  }

  #cancel(run: Run): FakeReply {
    this.#account.cancel(run);
    return jsonReply(200, {});
  }

  #delete(run: Run): FakeReply {
    this.#account.delete(run);
    return jsonReply(200, {});
  }

  #view(batch: GeminiBatch): object {
    const { run, name, model, displayName, webhookConfig } = batch;
    const { nowMs } = this.#account;
    const done = run.isEndedAt(nowMs);
    if (done) batch.output ??= this.#outputOf(batch);
    const { outputIn = "both" } = this.#options;
    const shown = { metadata: {}, response: {} };
    if (batch.output !== undefined && outputIn !== "response") shown.metadata = { output: batch.output };
    if (batch.output !== undefined && outputIn !== "metadata") shown.response = { response: batch.output };
    const [fault] = run.faults;
    const error = done && fault !== undefined ? { error: { code: 3, message: fault.message } } : {};
    return {
      name,
      metadata: {
        "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
        model: `models/${model}`,
        displayName,
        webhookConfig,
        state: this.#state(run),
        createTime: new Date(run.createdMs).toISOString(),
        ...(done ? { endTime: new Date(run.endMs).toISOString() } : {}),
        updateTime: new Date(nowMs).toISOString(),
        batchStats: {
          requestCount: String(run.items.length),
          successfulRequestCount: String(run.good),
          failedRequestCount: String(run.booked - run.good),
          pendingRequestCount: String(run.items.length - run.booked),
        },
        name,
        ...shown.metadata,
      },
      ...(done ? { done } : {}),
      ...error,
      ...shown.response,
    };
  }

  #state(run: Run): string {
    const state = this.#account.shown(run);
    this.#shownStates += 1;
    const { spelling = "BATCH_STATE_" } = this.#options;
    const prefix =
      spelling === "both" ? (this.#shownStates % 2 === 0 ? "JOB_STATE_" : "BATCH_STATE_") : spelling;
    return `${prefix}${typeof state === "string" ? STATES[state] : state.name.toUpperCase()}`;
  }

  #outputOf({ run, model, isInline }: GeminiBatch): JsonObject | undefined {
    const isPartial = run.stateAt(this.#account.nowMs) !== "completed";
    if (isPartial && this.#options.keepsPartialResults !== true) return undefined;
    if (run.wrong.hasNoResults === true || run.isFailing) return undefined;
    if (!isInline)
      return {
        responsesFile: this.files.make(run.workspace, run.endMs, () => fileOf(run, this.#lines(run, model))),
      };
    const inlined = this.#lines(run, model).map((line) => {
      const { key, ...rest } = objectOf(line) ?? {};
      return { metadata: { key }, ...rest };
    });
    return { inlinedResponses: { inlinedResponses: inlined } };
  }

  #lines(run: Run, model: string): string[] {
    const answered = geminiLines(model);
    const prefix = run.id.slice(8);
    return resultsOf(this.#account, run).flatMap(({ item, id: key, status }) => {
      const asked = item ?? run.items[0];
      if (status === undefined || asked === undefined) return [];
      if (asked.fate.isNull) return [JSON.stringify({ key, response: null })];
      if (status === 200) return [answered(key, asked, `${prefix}${item?.index ?? key}`)];
      return [JSON.stringify({ key, error: rpcStatusOf(status, asked.fate.isHold) })];
    });
  }
}

interface Entry {
  readonly key: unknown;
  readonly request: unknown;
}

function fileEntries(bytes: Uint8Array): (Entry | undefined)[] {
  return linesOf(bytes).map((line) => objectOf(line) as Entry | undefined);
}

function inlineEntries(requests: readonly unknown[]): (Entry | undefined)[] {
  return requests.map((entry) => {
    if (!isObject(entry)) return undefined;
    const { metadata, request } = entry;
    return { key: isObject(metadata) ? metadata["key"] : undefined, request };
  });
}

/** A request without a key is known by its number. */
function read(
  entries: readonly (Entry | undefined)[],
  model: string,
  itemsMax: number,
): { readonly items: RunItem[]; readonly faults: RunFault[] } {
  const items: RunItem[] = [];
  const faults: RunFault[] = [];
  for (const [line, entry] of entries.entries()) {
    const asked = isObject(entry?.request) ? geminiAsked(model, entry.request) : undefined;
    if (asked === undefined || asked.fate.isInvalid)
      faults.push({ code: "INVALID_ARGUMENT", message: "the input has a line that is not a request", line });
    else items.push(itemOf(asked, typeof entry?.key === "string" ? entry.key : String(line), items.length));
  }
  if (entries.length === 0 || entries.length > itemsMax)
    faults.push({ code: "INVALID_ARGUMENT", message: `${entries.length} requests`, line: undefined });
  return { items, faults };
}
