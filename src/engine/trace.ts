/**
 * The life of one item, from what is durable of it: its task, the journal, the line that answered it, and the note of what holds its run.
 *
 *   accepted -> [held -> released] -> (admitted -> [ended | in doubt])* -> committed -> written
 *                                                             committed -> reopened -> admitted, and so on
 *
 *   accepted    its task was stored, by the first call; from then on it waits for its turn
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
import { asBuffer } from "../jsonl/lines.ts";
import type { UsedPrice } from "../price/used_prices.ts";
import { type LaneKey, providerOfLane } from "../queue/lanes.ts";
import type { Store, StoredTask } from "../store/store.ts";
import { isObject, type JsonObject } from "../work/json.ts";
import { parseModelId } from "../work/request.ts";
import type { ObjectHold } from "../work/task.ts";
import type { BatchRecord } from "./batches/batch_record.ts";
import { batchRecords } from "./batches/batch_records.ts";
import { bodyOf } from "./files/moved_task.ts";
import { type SettledLine, settledLines } from "./files/settled_lines.ts";
import { runOfOutput } from "./files/stored_tasks.ts";
import type { TaskBody } from "./files/task_body.ts";
import { answersPath } from "./files/task_files.ts";
import { STATES_ANEW } from "./files/task_journal.ts";
import { ItemLife, type TraceEvent } from "./item_life.ts";
import { joined, type PastHold, readHoldNote, SAME_MS } from "./items/hold_note.ts";
import type { Hold } from "./items/holds.ts";
import { readStep } from "./journal/journal.ts";
import { readWhole } from "./journal/line_bytes.ts";
import type { RunFiles } from "./journal/storage.ts";
import { withBatch } from "./shown/recorded_batches.ts";
import { submissionIn } from "./submissions/submission_body.ts";
import { inputItem, lineInOutput } from "./traced_lines.ts";

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

/** An item of a run by its key. */
interface RunItem {
  readonly key: string;
}

/** An item of a list, whose run keeps no note of what holds it. */
interface ListItem extends RunItem {
  readonly line: number;
  /** What holds it now. */
  readonly hold: Hold | undefined;
}

/** Throws `not_found` for a key that neither input nor output has. */
export async function traceItem(
  files: RunFiles,
  task: Pick<StoredTask, "id" | "body" | "createdWallMs">,
  item: RunItem | ListItem,
): Promise<ItemTrace> {
  const { key } = item;
  const body = bodyOf(files, task);
  const found = "line" in item ? item : await inputItem(files, task.id, body, key);
  const line = found?.line ?? (await lineInOutput(files, task.id, body, key));
  if (line === undefined)
    throw new PerigeeError("not_found", `no line of the run has the key ${JSON.stringify(key)}`);
  const life = await lifeOf(files, task.id, body, line);
  const { outcome } = life;
  const model = found !== undefined && "model" in found ? found.model : undefined;
  const noted = joined(await readHoldNote(files, task.id));
  const isOwn = (hold: Hold | PastHold): boolean => mayHold(hold, life.lane, model);
  const endedAt = outcome === undefined ? null : life.settledAt;
  const past = noted.past.filter((hold) => isOwn(hold) && (endedAt === null || hold.since < endedAt));
  const released = past.map(
    (hold): TraceEvent => ({ at: hold.until, event: "released", detail: holdText(hold) }),
  );
  const events = [...released, acceptedEvent(task, body), ...life.events];
  events.push(...past.map((hold): TraceEvent => ({ at: hold.since, event: "held", detail: holdText(hold) })));
  if (outcome === undefined) {
    const isOfList = "line" in item;
    const holds = isOfList ? [item.hold ?? []].flat() : noted.holds.filter(isOwn);
    events.push(...holds.map((hold) => heldEvent(hold, isOfList)));
    const own = isOfList ? item.hold : holds.find((hold) => isHeldBy(hold, life.lane, model));
    events.push(waitingEvent(life, body, { own, other: holds[0], isOfList }));
  } else {
    const settled = await settledLine(files, task.id, body, line);
    if (settled !== undefined) events.push(await writtenEvent(files, task.id, body, settled, life.settledAt));
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
  return withBatch(await traceItem(files, task, { key }), await batchesOf(store, task.id));
}

/** The records of a run's open batches, in no order. */
export async function batchesOf(store: Store, taskId: string): Promise<readonly BatchRecord[]> {
  const records: BatchRecord[] = [];
  for await (const record of batchRecords(store, taskId)) records.push(record);
  return records;
}

async function lifeOf(
  { store }: RunFiles,
  taskId: string,
  { restated, keptLines }: TaskBody,
  line: number,
): Promise<ItemLife> {
  const { from, to } = restated ?? { from: 1, to: 0 };
  const life = new ItemLife({ line, kept: "output" });
  const prices = new Map<string, UsedPrice>(); // each once: a restatement repeats them in their order
  const isPriced = (number: number): boolean => ([...prices.values()][number - 1]?.source ?? null) !== null;
  let isRestated = restated === undefined;
  for await (const { sequence, records, wallMs } of store.journal(taskId)) {
    const step = readStep(records);
    const at = new Date(wallMs).toISOString();
    for (const price of step.prices) prices.set(JSON.stringify(price), price);
    if (step.voids === STATES_ANEW) {
      life.restate({ ...step, isPriced }, at, sequence >= from && sequence <= to);
      continue;
    }
    if (sequence > to && !isRestated) {
      isRestated = true;
      life.restated(at);
    }
    if (sequence > to || keptLines === undefined) life.apply(sequence, { ...step, isPriced }, at);
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

/** Of the first call: a retry, another sla or a clock that jumped has its sla counted from another time. */
function acceptedEvent(
  { createdWallMs }: Pick<StoredTask, "createdWallMs">,
  { acceptedWallMs, slaMinutes }: TaskBody,
): TraceEvent {
  const isMoved = slaMinutes !== undefined && Math.abs(acceptedWallMs - createdWallMs) >= SAME_MS;
  const since = isMoved ? `, counted from ${new Date(acceptedWallMs).toISOString()}` : "";
  const detail = `its run began: ${slaText(slaMinutes)}${since}`;
  return { at: new Date(createdWallMs).toISOString(), event: "accepted", detail };
}

export function slaText(slaMinutes: number | undefined): string {
  return slaMinutes === undefined ? "no sla" : `sla ${slaMinutes} ${slaMinutes === 1 ? "minute" : "minutes"}`;
}

function heldEvent(hold: Hold, isOfList: boolean): TraceEvent {
  return { at: hold.since, event: "held", detail: `${holdText(hold)}; ${nextText(hold, isOfList)}` };
}

/** `next_try` of a list that is null ends with the configuration, of a run with its call. */
function nextText({ next_try }: Pick<Hold, "next_try">, isOfList: boolean): string {
  if (next_try !== null) return `next try ${next_try}`;
  return `nothing is tried before ${isOfList ? "the configuration changes" : "the run is called again"}`;
}

/** How a hold is named after its message was shown. */
export function shortHoldText(hold: ObjectHold, isOfList: boolean): string {
  const { reason, provider, model } = hold;
  const where = model ?? provider;
  return `${where === undefined ? reason : `${reason}: ${where}`}; ${nextText(hold, isOfList)}`;
}

function holdText({ reason, provider, model, message }: Hold | PastHold): string {
  return [reason, model ?? provider ?? "", message].filter(Boolean).join(": ");
}

function waitingEvent(
  { open, events }: ItemLife,
  { status }: TaskBody,
  {
    own,
    other,
    isOfList,
  }: { readonly own: Hold | undefined; readonly other: Hold | undefined; readonly isOfList: boolean },
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
  if (own !== undefined) {
    const hold = shortHoldText(own, isOfList);
    return { at, event: "waiting", detail: `${what} waits until this is over: ${hold}` };
  }
  const detail = `${what} waits for its turn, for limits and for money`;
  // What else holds the run may hold it, too: nothing says where its first request will go.
  const rest = other === undefined ? "" : `; its run is held: ${shortHoldText(other, isOfList)}`;
  return { at, event: "waiting", detail: `${detail}${rest}` };
}

/** False where a hold is known to be of items of other models. `lane`: where the item's last request was sent. */
function mayHold(hold: Hold | PastHold, lane: LaneKey | undefined, model: string | undefined): boolean {
  if (hold.provider === undefined && hold.model === undefined) return true;
  const isUnknown = lane === undefined && (model === undefined || parseModelId(model) === undefined);
  return isUnknown || isHeldBy(hold, lane, model);
}

/** Whether a hold is of all that waits, or of the lane or the model of an item. */
function isHeldBy(
  { reason, provider, model: held }: Hold | PastHold,
  lane: LaneKey | undefined,
  model: string | undefined,
): boolean {
  if (reason === "disk_full") return true;
  const own = model === undefined ? undefined : parseModelId(model);
  if (provider === undefined || (own?.provider !== provider && !isOfProvider(lane, provider))) return false;
  if (held === undefined) return true;
  const name = parseModelId(held)?.name ?? held;
  return own?.name === name || lane?.endsWith(`:${name}`) === true;
}

function isOfProvider(lane: LaneKey | undefined, provider: string): boolean {
  return lane !== undefined && providerOfLane(lane) === provider;
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
