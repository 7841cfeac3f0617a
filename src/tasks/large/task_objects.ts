/**
 * The present objects of a task, in the order of submission.
 */
import type { EngineCore } from "../../engine/core.ts";
import { answeredObject } from "../../engine/items/answered_object.ts";
import { endMessage } from "../../engine/items/run_stopped.ts";
import { brokenAnswer } from "../../engine/journal/answer_check.ts";
import type { IndexedAnswer } from "../../engine/journal/answer_index.ts";
import { CountedWorks } from "../../engine/plans/counted_work.ts";
import type { Work } from "../../engine/posted/admitting.ts";
import { bodyIn } from "../../jsonl/body_lines.ts";
import { asBuffer } from "../../jsonl/lines.ts";
import { parseOutputLine } from "../../jsonl/write.ts";
import { priceFactor } from "../../price/factor.ts";
import type { OutputLine } from "../../work/item.ts";
import { objectId, objectNumber } from "../../work/object_id.ts";
import type { Failure } from "../../work/outcome.ts";
import type { TaskObject } from "../../work/task.ts";
import { type LinePlace, readPlaces } from "../lots/answer_file.ts";
import type { Lot } from "../lots/lot.ts";
import type { Lots } from "../lots/lots.ts";
import { INDEX_STEP } from "../lots/request_spool.ts";
import { isPartCancelled, type TaskPart, type TaskRecord } from "../lots/task_record.ts";
import { baseOf, notFound, placeOf } from "../shapes/ids.ts";
import type { AnsweredLine, Page, PageQuery } from "../shapes/task_view.ts";
import { HeldItems, isHeld } from "./held_items.ts";
import { LineTable } from "./line_table.ts";
import { type Layer, layerOf, layersOf } from "./part_layers.ts";

/** Reads objects, and estimates their use. */
type ReadingCore = Pick<EngineCore, "storage" | "config" | "measurer" | "sending">;

/** The place of an object, and what was counted for it. */
interface ObjectRow {
  readonly part: number;
  /** Within the part, from 1. */
  readonly number: number;
  readonly inputTokens: number;
  readonly factor: number;
}

/** Objects of one lot, by their lines in it. */
interface RowsOfLot {
  readonly lot: Lot;
  readonly rowOf: Map<number, ObjectRow>;
  /** Objects that were not sent will not be. */
  readonly isCancelled: boolean;
}

/** How far the answers of lots count; all of a lot that is not in it. */
export type OutEnds = ReadonlyMap<Lot, number>;

interface Place {
  readonly lot: Lot;
  readonly line: number;
}

/** Reads only: nothing is stored per object. */
export class TaskObjects {
  readonly #core: ReadingCore;
  readonly #lots: Lots;
  readonly #table: LineTable;
  /** For all callers that show tasks. */
  readonly held: HeldItems;

  constructor(core: ReadingCore, lots: Lots) {
    this.#core = core;
    this.#lots = lots;
    this.#table = new LineTable(core.storage.disk, core.measurer);
    this.held = new HeldItems(core);
  }

  /** `outEnds`: objects whose answers follow these are shown as submitted. */
  async page(task: TaskRecord, query: PageQuery, outEnds?: OutEnds): Promise<Page<TaskObject>> {
    const from = query.after === undefined ? 0 : (await this.#positionOf(task, query.after)) + 1;
    const to = Math.min(task.totalItems, from + query.limit);
    return {
      items: await this.#objects(task, await this.#rows(task, from, to), outEnds),
      hasMore: to < task.totalItems,
    };
  }

  async object(task: TaskRecord, id: string): Promise<TaskObject> {
    const position = await this.#positionOf(task, id);
    const [object] = await this.#objects(task, await this.#rows(task, position, position + 1));
    if (object === undefined) throw notFound("object", id);
    return object;
  }

  /** The work in an own lot, estimated from its first thousand items. */
  async worksOf(lot: Pick<Lot, "record" | "path">): Promise<Work[]> {
    const { items, slaMinutes, volumeTokens } = lot.record;
    if (items === 0) return [];
    const rows = await this.#table.firstRows(lot);
    const scale = items / rows.lines.length;
    const { sender } = this.#core.sending;
    const works = new CountedWorks(sender.loads);
    for (const [index, model] of rows.models.entries()) {
      const inputTokens = rows.inputTokens[index] ?? 0;
      const maxOutputTokens = rows.maxOutputTokens[index] ?? 0;
      const requests = rows.requests[index] ?? 1;
      works.add({ model, kind: rows.kinds[index], requests, inputTokens, maxOutputTokens }, scale);
    }
    return works.all.map((work) => ({ ...work, slaMinutes, volumeTokens }));
  }

  /** Final lines of one lot as `readPlaces` returns them, at `places`. */
  async *answered(
    task: TaskRecord,
    { lot, part, base }: Layer,
    places: readonly LinePlace[],
  ): AsyncGenerator<AnsweredLine> {
    for await (const { place, bytes } of readPlaces(this.#core.storage.disk, lot.out ?? "", places)) {
      const status = lot.index.statusOf(place.line);
      if (status === undefined) continue;
      const number = place.line - part.firstLine + 1;
      const text = textOf(bytes);
      const { key, line: _, output, error, body: value, ...facts } = lineOf(lot, place, text);
      const json = value === undefined || text === undefined ? undefined : bodyIn(text);
      const { inputTokens, outputTokens } = lot.index.get(place.line);
      yield {
        objectId: objectId(task.id, baseOf(base) + number),
        key,
        status: bytes === undefined ? "failed" : status,
        output,
        error: error === undefined ? null : failureOf(lot, error),
        usage: {
          input_tokens: facts.usage?.input_tokens ?? inputTokens,
          output_tokens: facts.usage?.output_tokens ?? outputTokens,
        },
        facts,
        ...(json === undefined || value === undefined ? {} : { body: { json, value } }),
      };
    }
  }

  /** Its index among the task's objects, from 0; throws `not_found`. */
  async #positionOf(task: TaskRecord, id: string): Promise<number> {
    const { part, line } = placeOf(objectNumber(task.id, id));
    const terms = task.parts[part];
    if (terms === undefined || terms.again !== undefined || line < 1 || line > terms.lines)
      throw notFound("object", id);
    const ordinal = terms.items === terms.lines ? line - 1 : await this.#ordinalOf(terms, line);
    if (ordinal < 0) throw notFound("object", id); // a blank line
    let position = 0;
    let seen = 0;
    for (let span = 0; span < task.spans.length; span += 2) {
      const count = task.spans[span + 1] as number;
      if (task.spans[span] === part) {
        if (ordinal < seen + count) return position + ordinal - seen;
        seen += count;
      }
      position += count;
    }
    throw notFound("object", id);
  }

  async #ordinalOf({ lotId }: TaskPart, line: number): Promise<number> {
    const lot = await this.#lots.find(lotId);
    const step = this.#table.stepOf(lot, line);
    const index = (await this.#table.rows(lot, step)).lines.indexOf(line);
    return index < 0 ? -1 : step * INDEX_STEP + index;
  }

  /** Objects from `from` up to, but not including, `to`. */
  async #rows(task: TaskRecord, from: number, to: number): Promise<ObjectRow[]> {
    const rows: ObjectRow[] = [];
    const before = new Map<number, number>();
    let position = 0;
    for (let span = 0; span < task.spans.length && position < to; span += 2) {
      const part = task.spans[span] as number;
      const count = task.spans[span + 1] as number;
      const ordinal = before.get(part) ?? 0;
      before.set(part, ordinal + count);
      const first = Math.max(from, position);
      const last = Math.min(to, position + count);
      for (let at = first; at < last; at += 1)
        rows.push(
          countedRow(task, part, ordinal + at - position, at) ??
            (await this.#row(task, part, ordinal + at - position)),
        );
      position += count;
    }
    return rows;
  }

  async #row(task: TaskRecord, part: number, ordinal: number): Promise<ObjectRow> {
    const terms = task.parts[part] as TaskPart;
    const lot = await this.#lots.find(terms.lotId);
    const rows = await this.#table.rows(lot, Math.floor(ordinal / INDEX_STEP));
    const index = ordinal % INDEX_STEP;
    const line = rows.lines[index] ?? 0;
    const model = rows.models[index] ?? "";
    const sla = terms.slaMinutes ?? undefined;
    return {
      part,
      number: line,
      inputTokens: rows.inputTokens[index] ?? 0,
      factor: priceFactor(model, sla, task.volumeTokens, this.#lots.cards.of(lot.record)),
    };
  }

  async #objects(
    task: TaskRecord,
    rows: readonly ObjectRow[],
    outEnds: OutEnds = new Map(),
  ): Promise<TaskObject[]> {
    const objects = new Map<ObjectRow, TaskObject>();
    for (const { lot, rowOf, isCancelled } of await this.#byLot(task, rows)) {
      const places: LinePlace[] = [];
      const outEnd = outEnds.get(lot) ?? Number.POSITIVE_INFINITY;
      for (const [line, row] of rowOf) {
        const answer = lot.index.get(line);
        if (answer.status !== undefined && answer.lengthBytes > 0 && answer.start < outEnd)
          places.push({ line, ...placeIn(answer) });
        else objects.set(row, unsettled(task, { lot, line, isCancelled }, row));
      }
      if (rowOf.size > places.length && isHeld(lot))
        for (const [line, row] of rowOf) await this.#hold(objects, { lot, line }, row);
      if (places.length === 0) continue;
      for await (const { place, bytes } of readPlaces(this.#core.storage.disk, lot.out ?? "", places)) {
        const row = rowOf.get(place.line) as ObjectRow;
        objects.set(row, settled(task, { lot, line: place.line }, row, lineOf(lot, place, textOf(bytes))));
      }
    }
    return rows.flatMap((row) => objects.get(row) ?? []);
  }

  /** Adds its hold to a submitted object. */
  async #hold(objects: Map<ObjectRow, TaskObject>, { lot, line }: Place, row: ObjectRow): Promise<void> {
    const object = objects.get(row);
    if (object?.status !== "submitted") return;
    const held = await this.held.ofLine(lot, line);
    if (held !== undefined) objects.set(row, { ...object, held });
  }

  async #byLot(task: TaskRecord, rows: readonly ObjectRow[]): Promise<Iterable<RowsOfLot>> {
    const found = new Map<Lot, RowsOfLot>();
    for (const base of new Set(rows.map((row) => row.part))) {
      const layers = await layersOf(this.#lots, task, base);
      for (const row of rows) {
        if (row.part !== base) continue;
        const { lot, part, index } = layerOf(layers, row.number);
        const its = found.get(lot) ?? {
          lot,
          rowOf: new Map<number, ObjectRow>(),
          isCancelled: isPartCancelled(task, index),
        };
        its.rowOf.set(part.firstLine + row.number - 1, row);
        found.set(lot, its);
      }
    }
    return found.values();
  }
}

/** For a task whose items were counted at submission. */
function countedRow(
  { inputTokens, factors }: TaskRecord,
  part: number,
  ordinal: number,
  position: number,
): ObjectRow | undefined {
  if (inputTokens === undefined) return undefined;
  return {
    part,
    number: ordinal + 1,
    inputTokens: inputTokens[position] ?? 0,
    factor: typeof factors === "number" ? factors : (factors?.[position] ?? 1),
  };
}

function unsettled(
  task: TaskRecord,
  { lot, line, isCancelled }: Place & Pick<RowsOfLot, "isCancelled">,
  row: ObjectRow,
): TaskObject {
  const object_id = objectId(task.id, baseOf(row.part) + row.number);
  const usage = { input_tokens: row.inputTokens, price_factor: row.factor };
  const isShared = lot.record.taskId === undefined; // its own lot has not ended it at the moment that is shown
  if (isShared && lot.statusOf(line, isCancelled) === "cancelled")
    return { object_id, status: "cancelled", usage, error: cancelledUnsent() };
  const { status, isRetrying, lastCode } = lot.index.get(line);
  const isRunning = status !== undefined || lot.run?.isClaimed(line) === true;
  const phase = isRetrying ? "retrying" : isRunning ? "running" : "queued";
  const last = lastCode === undefined ? {} : { last_error: { code: lastCode } };
  return { object_id, status: "submitted", phase, ...last, usage, error: null };
}

function settled(task: TaskRecord, { lot, line }: Place, row: ObjectRow, text: OutputLine): TaskObject {
  const head = {
    objectId: objectId(task.id, baseOf(row.part) + row.number),
    inputTokens: row.inputTokens,
    priceFactor: row.factor,
  };
  return answeredObject(head, lot.index.get(line), text, (failure) => failureOf(lot, failure));
}

/** The failure of an item that was cancelled before it was sent. */
export function cancelledUnsent(): Failure {
  const message = endMessage("cancelled");
  return { code: "cancelled", message, retryable: true, attempts: 0, ambiguous_attempts: 0 };
}

/** Removes the line number from failures in a shared lot, where it means nothing to a caller. */
export function failureOf(lot: Lot, failure: Failure): Failure {
  const { fileId, again } = lot.record;
  if ((fileId ?? again?.fileId) !== undefined) return failure;
  const { line, ...rest } = failure;
  return rest;
}

function placeIn({ start, lengthBytes, lineCrc32 }: IndexedAnswer): Omit<LinePlace, "line"> {
  return { start, lengthBytes, lineCrc32 };
}

function textOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : asBuffer(bytes).toString().trimEnd();
}

function lineOf(lot: Lot, place: LinePlace, text: string | undefined): OutputLine {
  if (text === undefined) return { key: null, output: null, error: brokenAnswer(lot.out ?? "", place) };
  return parseOutputLine(text);
}
