/**
 * The present items of posted tasks, read from the rows of their answers; nothing else is stored per item.
 *
 *   open -> submitted (queued, running, retrying)
 *   ended with an answer -> its line, after the time of its end and how it was sent (answer_text.ts)
 *   ended with the rest of its task -> cancelled or expired, with a line made here from what its attempts took
 */
import { parseOutputLine } from "../../jsonl/write.ts";
import { type EndedStatus, type FieldsOf, recordOf } from "../../log/records.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { OutputLine } from "../../work/item.ts";
import { lineLayout } from "../../work/line_layout.ts";
import { objectId } from "../../work/object_id.ts";
import type { LastError, ObjectHold, ObjectPhase, TaskObject } from "../../work/task.ts";
import type { EngineCore } from "../core.ts";
import { answeredObject } from "../items/answered_object.ts";
import type { Hold } from "../items/holds.ts";
import { concerns, objectHold } from "../items/object_holds.ts";
import { endMessage, failureText } from "../items/run_stopped.ts";
import { unsentEnding } from "../items/settle.ts";
import type { AttemptFailure } from "../journal/journal.ts";
import { readAnswerText, type StatedEnd } from "./answer_text.ts";
import type { PostedHome } from "./posted_homes.ts";
import type { PostedRecord } from "./posted_record.ts";
import type { PostedWork } from "./posted_work.ts";
import { madeOf } from "./tried_items.ts";

const PAGE_ITEMS = 256;
const LINES = { taskId: "", layout: lineLayout({}), namesLines: false };

/** What holds an item. */
type Held = { readonly held?: ObjectHold };
const NOT_HELD: Held = {};

/** An item that has ended. */
export interface EndedPosted {
  /** Its number, from 0. */
  readonly item: number;
  readonly status: EndedStatus;
  /** Its output line, with its line end. */
  readonly line: string;
  readonly endedWallMs: number;
  /** As the provider counted. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** How it was sent; undefined where an earlier version wrote its answer, and without one. */
  readonly stated: StatedEnd | undefined;
  /** Whether it has its own answer. */
  readonly isAnswered: boolean;
  /** What its attempts took; undefined if there were none. */
  readonly taken: FieldsOf<"outcome"> | FieldsOf<"attemptEnded"> | undefined;
}

/** One for a store. */
export class PostedItemReader {
  readonly #core: Pick<EngineCore, "config" | "sending">;
  readonly #log: WorkLog;
  readonly #work: Pick<PostedWork, "homeOf">;

  constructor(core: Pick<EngineCore, "config" | "sending">, log: WorkLog, work: Pick<PostedWork, "homeOf">) {
    this.#core = core;
    this.#log = log;
    this.#work = work;
  }

  /** Ended items from `from` up to, but not including, `to`, in order. */
  async *ended(task: PostedRecord, from = 0, to: number = task.totalItems): AsyncGenerator<EndedPosted> {
    let next = from;
    while (next < to) {
      const open = new Set<number>(); // before the answers are read: later ends count as open here
      const end = Math.min(to, next + PAGE_ITEMS);
      for (let item = next; item < end; item += 1) if (this.#log.isOpen(task.number, item)) open.add(item);
      const tried = new Map([...this.#log.triedItems(task.number)].map(([item, { ended }]) => [item, ended]));
      const answers = new Map<number, EndedPosted>();
      for (let at = next; at < end; ) {
        const page = await this.#log.rows.loggedAnswers(task.number, at, end - at);
        for (const { item, record, text } of page)
          if (item >= end) break;
          else if (text === undefined || text.byteLength === 0)
            tried.set(item, recordOf("attemptEnded", record));
          else answers.set(item, answered(item, record, text));
        const last = page.at(-1)?.item ?? end;
        at = last + 1;
      }
      for (let item = next; item < end; item += 1) {
        const answer = answers.get(item);
        if (answer !== undefined) yield answer;
        else if (!open.has(item)) yield this.#restItem(task, item, tried.get(item));
      }
      next = end;
    }
  }

  /** Objects from `from` up to, but not including, `to`; those in `submitted` as if they had not ended since. */
  async objects(
    task: PostedRecord,
    {
      from,
      to,
      submitted,
    }: { readonly from: number; readonly to: number; readonly submitted?: ReadonlySet<number> | undefined },
  ): Promise<TaskObject[]> {
    const objects: TaskObject[] = [];
    let isAnyEnded = false;
    const home = this.#work.homeOf(task.number);
    const holds = home === undefined ? [] : this.#core.sending.holds.of(home.owner).holds;
    for (let item = from; item < to; item += 1) {
      objects.push(this.#submitted(task, item, this.#heldOf(home, item, holds)));
      if (!this.#log.isOpen(task.number, item) && submitted?.has(item) !== true) isAnyEnded = true;
    }
    if (!isAnyEnded) return objects; // the case of each post's response
    for await (const ended of this.ended(task, from, to))
      if (submitted?.has(ended.item) !== true) objects[ended.item - from] = objectOf(task, ended);
    return objects;
  }

  #submitted(task: PostedRecord, item: number, held: Held): TaskObject {
    const { inputTokens, priceFactor } = countedOf(task, item);
    return {
      object_id: objectId(task.id, item + 1),
      status: "submitted",
      ...this.#phaseOf(task.number, item),
      ...held,
      usage: { input_tokens: inputTokens, price_factor: priceFactor },
      error: null,
    };
  }

  #heldOf(home: PostedHome | undefined, item: number, holds: readonly Hold[]): Held {
    if (home === undefined || holds.length === 0) return NOT_HELD;
    const model = home.owner.models[home.task.firstLine + item - 1] ?? "";
    const hold = holds.find((each) => concerns(this.#core.config.providerNames, each, model));
    return hold === undefined ? NOT_HELD : { held: objectHold(hold) };
  }

  #phaseOf(task: number, item: number): { readonly phase: ObjectPhase; readonly last_error?: LastError } {
    const { ended, before, intents = [] } = this.#log.triedItems(task).get(item) ?? {};
    if (ended !== undefined && ended !== before && intents.length === 0)
      return { phase: "retrying", ...lastErrorOf(ended) };
    const home = this.#work.homeOf(task);
    const isClaimed =
      !this.#log.isOpen(task, item) || home?.owner.items.claimed.has(home.task.firstLine + item) === true;
    return { phase: isClaimed ? "running" : "queued" };
  }

  /** It ended with the rest of its task, without a further request; `taken`: by earlier requests. */
  #restItem(task: PostedRecord, item: number, taken: FieldsOf<"attemptEnded"> | undefined): EndedPosted {
    const status = restStatusOf(task, item);
    const made = taken === undefined ? undefined : madeOf({ ended: taken, intents: [] });
    const price = this.#log.text(taken?.price ?? 0) ?? null;
    const { record, text: line } = unsentEnding({ ...LINES, prices: { sourceOf: () => price } }, made, {
      line: item + 1,
      keyJson: JSON.stringify(objectId(task.id, item + 1)),
      end: { status, code: status, message: endMessage(status), ...endedAfter(status, made?.failure) },
    });
    const { inputTokens, outputTokens } = record;
    const tokens = { inputTokens, outputTokens };
    return { item, status, line, endedWallMs: 0, stated: undefined, ...tokens, isAnswered: false, taken };
  }
}

/** The object of an item that has ended. */
function objectOf(task: PostedRecord, ended: EndedPosted): TaskObject {
  const head = { objectId: objectId(task.id, ended.item + 1), ...countedOf(task, ended.item) };
  return answeredObject(head, ended, lineOf(ended));
}

export function lineOf({ line }: EndedPosted): OutputLine {
  return parseOutputLine(line);
}

function countedOf(
  { inputTokens, factors }: PostedRecord,
  item: number,
): { readonly inputTokens: number; readonly priceFactor: number } {
  const priceFactor = typeof factors === "number" ? factors : (factors[item] ?? 1);
  return { inputTokens: inputTokens[item] ?? 0, priceFactor };
}

function answered(item: number, record: Uint8Array, text: Uint8Array = new Uint8Array()): EndedPosted {
  const taken = recordOf("outcome", record);
  const { status, inputTokens, outputTokens } = taken;
  const all = Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString();
  const { endedWallMs, stated, line } = readAnswerText(all);
  return { item, status, line, endedWallMs, stated, inputTokens, outputTokens, isAnswered: true, taken };
}

/** How the error of an expired item describes its last request; empty if that is not known. */
function endedAfter(
  status: "cancelled" | "expired",
  failure: AttemptFailure | undefined,
): { readonly message?: string; readonly providerStatus?: number } {
  if (status === "cancelled" || failure === undefined) return {};
  const { httpStatus } = failure;
  return {
    message: `${endMessage(status)}; its last request failed (${failureText(failure)})`,
    ...(httpStatus === 0 ? {} : { providerStatus: httpStatus }),
  };
}

function lastErrorOf(ended: FieldsOf<"attemptEnded">): { readonly last_error?: LastError } {
  const { failure } = madeOf({ ended, intents: [] });
  if (failure === undefined) return {};
  const { code, httpStatus } = failure;
  return { last_error: { code, ...(httpStatus === 0 ? {} : { provider_status: httpStatus }) } };
}

function restStatusOf({ isCancelled, rest }: PostedRecord, item: number): "cancelled" | "expired" {
  if (rest?.cancelled.includes(item) === true) return "cancelled";
  if (rest?.expired.includes(item) === true) return "expired";
  return isCancelled === true ? "cancelled" : "expired";
}
