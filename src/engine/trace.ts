/**
 * The life of one item, from what is durable of it: its task, the journal, the line that answered it, and the note of what holds its run.
 *
 *   accepted -> [held -> released] -> (admitted -> [ended | in doubt])* -> committed -> written
 *                                                             committed -> reopened -> admitted, and so on
 *
 *   accepted    its task was stored; from then on it waits for its turn
 *   admitted    limits and money were reserved, and the intent of a request was durable: it was sent right after that
 *   ended       the request brought no answer that ends the item
 *   in doubt    the process ended, or lost the request, before its end was recorded
 *   committed   the outcome was durable
 *   written     its line stands in the output, in the same commit
 *   damaged     a power cut damaged the line: its item was open again
 *   reopened    its line was removed from the output, by a retry or a repair: its item was open again
 *
 * Times are those of the commits. Measuring leaves no record of its own: the intent has what was measured. One pass over the
 * journal, and one over the input up to the item's line; works in another process than that of the run. An update gives lines new
 * numbers: what was recorded before the last restatement is left out then.
 */
import { resolve } from "node:path";
import type { Disk } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import { hashKey, keyFilter, scanKeys } from "../jsonl/keys.ts";
import { asBuffer } from "../jsonl/lines.ts";
import { readBlocks } from "../jsonl/read.ts";
import { type LaneKey, providerOfLane } from "../queue/lanes.ts";
import type { Store, StoredTask } from "../store/store.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import { parseModelId } from "../work/request.ts";
import { bodyOf } from "./files/moved_task.ts";
import { type SettledLine, settledLines } from "./files/settled_lines.ts";
import { runOfOutput } from "./files/stored_tasks.ts";
import type { TaskBody } from "./files/task_body.ts";
import { answersPath, spoolPath } from "./files/task_files.ts";
import { STATES_ANEW } from "./files/task_journal.ts";
import { ItemLife, type TraceEvent } from "./item_life.ts";
import { type PastHold, readHoldNote } from "./items/hold_note.ts";
import type { Hold } from "./items/holds.ts";
import { readStep } from "./journal/journal.ts";
import { readWhole } from "./journal/line_bytes.ts";
import type { RunFiles } from "./journal/storage.ts";
import { submissionIn } from "./submissions/submission_body.ts";

/** Far above what an answer of 32 MiB takes in JSON. */
const OUTPUT_LINE_BYTES_MAX = 256 * 1024 * 1024;

/** `waiting` is the last event: it is what is now. */
const WAITING = "\uffff";

/** The life of an item, in order. */
export interface ItemTrace {
  /** Of its line in the input. */
  readonly key: string;
  /** From 1. */
  readonly line: number;
  readonly status: "open" | "completed" | "failed" | "expired" | "cancelled";
  readonly events: readonly TraceEvent[];
}

/** An item by its key, or by its line where the key is known to be in it. */
export interface TracedItem {
  readonly key: string;
  readonly line?: number;
}

/** Throws `not_found` for a key that neither input nor output has. */
export async function traceItem(
  files: RunFiles,
  task: Pick<StoredTask, "id" | "body" | "createdWallMs">,
  { key, line: known }: TracedItem,
): Promise<ItemTrace> {
  const body = bodyOf(files, task);
  const line =
    known ??
    (await lineInInput(files, task.id, body, key)) ??
    (await lineInOutput(files, task.id, body, key));
  if (line === undefined)
    throw new PerigeeError("not_found", `no line of the run has the key ${JSON.stringify(key)}`);
  const life = await lifeOf(files, task.id, body, line);
  const { outcome } = life;
  const noted = await readHoldNote(files, task.id);
  const endedAt = outcome === undefined ? null : life.settledAt;
  const past = noted.past.filter(({ since }) => endedAt === null || since < endedAt);
  const released = past.map(
    (hold): TraceEvent => ({ at: hold.until, event: "released", detail: holdText(hold) }),
  );
  const events = [...released, acceptedEvent(body), ...life.events];
  events.push(...past.map((hold): TraceEvent => ({ at: hold.since, event: "held", detail: holdText(hold) })));
  if (outcome === undefined)
    events.push(...noted.holds.map(heldEvent), waitingEvent(life, body, noted.holds));
  else {
    const found = await settledLine(files, task.id, body, line);
    if (found !== undefined) events.push(await writtenEvent(files, task.id, body, found, life.settledAt));
  }
  return { key, line, status: outcome?.status ?? "open", events: inOrder(events) };
}

/** The life of an item of a run, by the run's `task_id`, its output or its `id`. Throws `not_found`. */
export async function traceOfRun(
  files: RunFiles & { readonly store: Store },
  id: string,
  key: string,
): Promise<ItemTrace> {
  const { store } = files;
  const task =
    (await store.task(id)) ?? (await store.taskByName(`id:${id}`)) ?? (await runOfOutput(store, resolve(id)));
  if (task === undefined || submissionIn(task.body) !== undefined)
    throw new PerigeeError("not_found", `no run has the id or the output ${JSON.stringify(id)}`);
  return traceItem(files, task, { key });
}

async function lifeOf(
  { store }: RunFiles,
  taskId: string,
  { restated, keptLines }: TaskBody,
  line: number,
): Promise<ItemLife> {
  const { from, to } = restated ?? { from: 1, to: 0 };
  const life = new ItemLife(line);
  let isRestated = restated === undefined;
  for await (const { sequence, records, wallMs } of store.journal(taskId)) {
    const step = readStep(records);
    const at = new Date(wallMs).toISOString();
    if (step.voids === STATES_ANEW) {
      life.restate(step, at, sequence >= from && sequence <= to);
      continue;
    }
    if (sequence > to && !isRestated) {
      isRestated = true;
      life.restated(at);
    }
    if (sequence > to || keptLines === undefined) life.apply(sequence, step, at);
  }
  if (!isRestated) life.restated(null);
  return life;
}

/** By time, those of one time as given: what was released at that time before, what was held after. One without a time stays after the one before it. */
export function inOrder(events: readonly TraceEvent[]): TraceEvent[] {
  let last = "";
  const timed = events.map((event) => {
    last = event.at ?? last;
    return { event, at: event.event === "waiting" ? WAITING : last };
  });
  return timed
    .sort((one, other) => (one.at < other.at ? -1 : Number(one.at > other.at)))
    .map(({ event }) => event);
}

function acceptedEvent({ acceptedWallMs, slaMinutes }: TaskBody): TraceEvent {
  const detail = `its run began: ${slaText(slaMinutes)}`;
  return { at: new Date(acceptedWallMs).toISOString(), event: "accepted", detail };
}

export function slaText(slaMinutes: number | undefined): string {
  return slaMinutes === undefined ? "no sla" : `sla ${slaMinutes} ${slaMinutes === 1 ? "minute" : "minutes"}`;
}

function heldEvent(hold: Hold): TraceEvent {
  return { at: hold.since, event: "held", detail: nextText(hold) };
}

function nextText(hold: Hold): string {
  const { next_try } = hold;
  const next = next_try === null ? "nothing is tried before the run is called again" : `next try ${next_try}`;
  return `${holdText(hold)}; ${next}`;
}

function holdText({ reason, provider, model, message }: Hold | PastHold): string {
  return [reason, model ?? provider ?? "", message].filter(Boolean).join(": ");
}

function waitingEvent(
  { open, events, lane }: ItemLife,
  { status }: TaskBody,
  holds: readonly Hold[],
): TraceEvent {
  const at = null;
  if (status !== "open")
    return { at, event: "waiting", detail: `the run has ${status}, and its line is not answered` };
  if (open !== undefined)
    return {
      at,
      event: "waiting",
      attempt: open.attempt,
      detail: "the request is under way, or was cut off when its process ended",
    };
  const what = events.length === 0 ? "its first request" : "its next request";
  const own = holds.find((hold) => isOfLane(hold, lane));
  if (own !== undefined)
    return { at, event: "waiting", detail: `${what} waits until this is over: ${nextText(own)}` };
  const detail = `${what} waits for its turn, for limits and for money`;
  const [other] = holds; // which may hold it, too: the journal does not say where its first request will go
  return {
    at,
    event: "waiting",
    detail: other === undefined ? detail : `${detail}; its run is held: ${nextText(other)}`,
  };
}

/** Whether a hold is of all that waits, or of the lane of an item. */
function isOfLane({ reason, provider, model }: Hold, lane: LaneKey | undefined): boolean {
  if (reason === "disk_full") return true;
  if (lane === undefined || provider !== providerOfLane(lane)) return false;
  return model === undefined || lane.endsWith(`:${parseModelId(model)?.name ?? model}`);
}

async function settledLine(
  { store }: RunFiles,
  taskId: string,
  body: TaskBody,
  line: number,
): Promise<SettledLine | undefined> {
  let found: SettledLine | undefined;
  for await (const each of settledLines(store, taskId, body)) if (each.outcome.line === line) found = each;
  return found;
}

/** With what the line says of the last request. */
async function writtenEvent(
  files: RunFiles,
  taskId: string,
  body: TaskBody,
  found: SettledLine,
  at: string | null,
): Promise<TraceEvent> {
  if ("held" in found)
    return { at, event: "held", detail: "disk_full: its line waits in the journal for space in the output" };
  const { start, outcome } = found;
  const path = answersPath(files, taskId, body);
  const isThere = (await files.disk.stat(path)) !== undefined;
  const bytes = isThere ? await readAt(files.disk, path, start, outcome.lineBytes) : undefined;
  const place = isThere ? `bytes ${start} to ${start + outcome.lineBytes} of ${path}` : body.out;
  const facts = bytes === undefined ? "" : factsText(bytes);
  return { at, event: "written", detail: `${place}${facts}` };
}

/** What the line of an answer says of its last request. */
export function factsText(bytes: Uint8Array): string {
  let line: unknown;
  try {
    line = JSON.parse(asBuffer(bytes).toString());
  } catch {
    return "; these bytes are no longer its line";
  }
  if (!isObject(line)) return "";
  const { model, finish_reason, latency_ms, provider_request_id, error } = line as JsonObject;
  const { message, provider_status } = isObject(error) ? (error as JsonObject) : {};
  const facts: readonly (readonly [string, unknown])[] = [
    ["model", model],
    ["finish reason", finish_reason],
    ["error", message],
    ["HTTP status", provider_status],
    ["latency of the last request", latency_ms === undefined ? undefined : `${String(latency_ms)} ms`],
    ["provider's request id", provider_request_id],
  ];
  return facts
    .flatMap(([name, value]) => (value === undefined ? [] : [`; ${name}: ${String(value)}`]))
    .join("");
}

async function readAt(
  disk: Disk,
  path: string,
  start: number,
  lengthBytes: number,
): Promise<Uint8Array | undefined> {
  const file = await disk.open(path, "read");
  try {
    return await readWhole(file, start, lengthBytes);
  } catch {
    return undefined; // it was moved, or cut
  } finally {
    await file.close();
  }
}

/** The first line with a key in a file of lines; undefined where there is none. */
async function lineOfKey(disk: Disk, path: string, key: string): Promise<{ line: number } | undefined> {
  if ((await disk.stat(path)) === undefined) return undefined;
  const file = await disk.open(path, "read");
  const wanted = hashKey(Buffer.from(key));
  const options = { wantKeys: true, filter: keyFilter([wanted.high]) };
  try {
    for await (const event of readBlocks(file, { lineBytesMax: OUTPUT_LINE_BYTES_MAX })) {
      if (event.kind === "refused") continue;
      const { count, lines, hashes } = scanKeys(event.block, options);
      for (let index = 0; index < count; index += 1)
        if (hashes[index * 2] === wanted.high && hashes[index * 2 + 1] === wanted.low)
          return { line: lines[index] as number };
    }
    return undefined;
  } finally {
    await file.close();
  }
}

/** Of a stream, as far as its copy is kept. */
async function lineInInput(
  files: RunFiles,
  taskId: string,
  { input }: TaskBody,
  key: string,
): Promise<number | undefined> {
  for (const path of [spoolPath(files, taskId), input?.name ?? ""]) {
    const found = path === "" ? undefined : await lineOfKey(files.disk, path, key).catch(() => undefined);
    if (found !== undefined) return found.line;
  }
  return undefined;
}

/** Of an input that is gone: its answers stand in the output in the order of their commits. */
async function lineInOutput(
  files: RunFiles,
  taskId: string,
  body: TaskBody,
  key: string,
): Promise<number | undefined> {
  const found = await lineOfKey(files.disk, answersPath(files, taskId, body), key);
  if (found === undefined) return undefined;
  let number = 0;
  for await (const { outcome } of settledLines(files.store, taskId, body)) {
    number += 1;
    if (number === found.line) return outcome.line;
  }
  return undefined;
}
