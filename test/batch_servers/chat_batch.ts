/** What the wires share that keep OpenAI's requests and results in their batches: entries under a `custom_id`, and result lines. */
import { codeOf, type FakeAccount } from "./account.ts";
import { type FakeReply, type JsonObject, jsonReply } from "./fake.ts";
import { openaiAsked, openaiLines } from "./openai_answers.ts";
import type { OpenAiFiles, StoredFile } from "./openai_files.ts";
import { type FakeResult, fileOf, resultsOf } from "./results.ts";
import { itemOf, type Run, type RunFault, type RunItem } from "./run.ts";

/** An entry of a payload as its wire reads it; undefined where it is not JSON. */
export interface ChatEntry {
  readonly customId: unknown;
  readonly body: JsonObject | undefined;
  /** What is wrong with what else it holds. */
  readonly fault?: { readonly code: string; readonly message: string } | undefined;
}

export interface EntryRules {
  readonly endpoint: string;
  /** The model of the whole batch, if bodies do not name it. */
  readonly model?: string;
  readonly mixesModels?: boolean;
  readonly itemsMax: number;
}

/** The requests of a payload and what is wrong with them. */
export function readEntries(
  entries: readonly (ChatEntry | undefined)[],
  { endpoint, model, mixesModels = false, itemsMax }: EntryRules,
): { readonly items: RunItem[]; readonly faults: RunFault[] } {
  const items: RunItem[] = [];
  const faults: RunFault[] = [];
  const ids = new Set<string>();
  let first: string | undefined;
  for (const [line, entry] of entries.entries()) {
    const fault = (code: string, message: string): number => faults.push({ code, message, line });
    const { customId: id, body, fault: found } = entry ?? {};
    const asked = body && openaiAsked(endpoint, model === undefined ? body : { ...body, model });
    if (entry === undefined) fault("invalid_json_line", "This line is not parseable as valid JSON.");
    else if (typeof id !== "string" || id === "") fault("missing_required_parameter", "custom_id is missing");
    else if (ids.has(id)) fault("duplicate_custom_id", `The custom_id ${id} is not unique.`);
    else if (found !== undefined) fault(found.code, found.message);
    else if (asked === undefined) fault("invalid_request", "the body is not a request");
    else if (asked.fate.isInvalid) fault("invalid_request", "the prompt asked to be invalid");
    else if (!mixesModels && asked.model !== (first ?? asked.model))
      fault("mismatched_model", "a batch has one model");
    else {
      ids.add(id);
      first = asked.model;
      items.push(itemOf(asked, id, items.length));
    }
  }
  const whole = (code: string, message: string): number => faults.push({ code, message, line: undefined });
  if (entries.length === 0) whole("empty_file", "The file is empty.");
  if (entries.length > itemsMax) whole("too_many_tasks", `A batch may have ${itemsMax} requests.`);
  return { items, faults };
}

export interface ResultFiles {
  readonly output: StoredFile | undefined;
  readonly errors: StoredFile | undefined;
}

/** The files of a batch at its end: finished requests with 200 in one, all others in the other. */
export function resultFiles(
  account: FakeAccount,
  files: OpenAiFiles,
  run: Run,
  endpoint: string,
): ResultFiles {
  const results = resultsOf(account, run);
  const isGood = ({ status, item }: FakeResult): boolean =>
    status === 200 || (status !== undefined && item?.fate.isInBody === true);
  const file = (name: string, chosen: readonly FakeResult[]): StoredFile | undefined => {
    if (chosen.length === 0) return undefined;
    const make = (): Uint8Array => fileOf(run, resultLines(account, run, endpoint, chosen));
    return files.make(run.workspace, `${run.id}_${name}.jsonl`, run.endMs, make);
  };
  const output = file("output", results.filter(isGood));
  const errors = file(
    "error",
    results.filter((result) => !isGood(result)),
  );
  return { output, errors };
}

/** Results as lines of JSON. */
export function resultLines(
  account: FakeAccount,
  run: Run,
  endpoint: string,
  results: readonly FakeResult[],
): string[] {
  const code = run.stateAt(account.nowMs) === "expired" ? "batch_expired" : "batch_cancelled";
  const unfinished = { code, message: "This request could not be executed before the batch ended." };
  const answered = openaiLines(endpoint, run.endMs);
  const prefix = run.id.slice(-16);
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

/** A refusal in OpenAI's words. */
export function refuse(status: number, code: string, message: string): FakeReply {
  const type = status === 429 && code === "insufficient_quota" ? code : typeOfStatus(status);
  return jsonReply(status, { error: { message, type, param: null, code } });
}

function typeOfStatus(status: number): string {
  if (status === 429) return "rate_limit_exceeded";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

function errorBody(status: number, isHold: boolean): object {
  const code = isHold ? "insufficient_quota" : codeOf(status);
  const type = isHold ? code : typeOfStatus(status);
  return { error: { message: `the prompt asked for ${status}`, type, param: null, code } };
}

export function secondsOf(ms: number): number {
  return Math.floor(ms / 1_000);
}
