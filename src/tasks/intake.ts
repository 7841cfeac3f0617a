/**
 * The intake of small tasks: what comes while others are counted is counted and committed together.
 *
 *   offered -> counted (in a thread) -> given lines of a lot -> committed -> accepted
 *                 \-> refused: a model that nobody serves        \-> failed: its lines stay blank
 *
 * Hot: one item's post may take 60 us of this thread here (bench/jobs/service.ts).
 */
import type { EngineParts } from "../engine/parts.ts";
import { type FailureCode, PerigeeError } from "../errors.ts";
import { itemLine } from "../jsonl/items.ts";
import { priceFactor } from "../price/factor.ts";
import type { MeasuredBlock, RejectedLine } from "../shard/measured.ts";
import type { RecordChange } from "../store/records.ts";
import type { Item } from "../work/item.ts";
import { newId } from "../work/new_id.ts";
import { objectId } from "../work/object_id.ts";
import type { Admission, Admitted, Work } from "./admission.ts";
import type { Gathering, GivenLines } from "./gathering.ts";
import type { Lot } from "./lot.ts";
import { lotToRecord } from "./lot_record.ts";
import type { Lots } from "./lots.ts";
import { type TaskRecord, taskToRecord } from "./task_record.ts";

/** Lines and bytes that are counted in one go. */
const BATCH_LINES_MAX = 1_024;
const BATCH_CHARS_MAX = 512 * 1024;

/** Batches that are counted at once; what comes meanwhile makes the next, the larger the busier it is. */
const COUNTING_MAX = 1;

/** The field of an item that a line is rejected for. */
const FIELD_AT_FAULT: ReadonlyMap<FailureCode, string> = new Map([
  ["unknown_model", "model"],
  ["provider_missing", "model"],
  ["invalid_config", "generation_config"],
  ["unsupported_request", "generation_config"],
  ["invalid_contents", "input"],
  ["tokenizer_failed", "input"],
]);

/** A small task before it is accepted: inline items of one sla. */
export interface SmallTask {
  readonly id?: string | undefined;
  readonly project: string;
  readonly items: readonly Item[];
  readonly slaMinutes: number | null;
  readonly hasOutputFile: boolean;
  readonly note?: string | undefined;
}

interface Offer {
  readonly id: string;
  readonly task: SmallTask;
  readonly lines: readonly string[];
  readonly chars: number;
  readonly resolve: (accepted: Accepted) => void;
  readonly reject: (error: unknown) => void;
}

export interface Accepted {
  readonly task: TaskRecord;
  readonly lot: Lot;
}

/** What was counted of an offer. */
interface Counted {
  readonly inputTokens: number[];
  readonly factors: number[];
  readonly works: Map<string, { -readonly [name in keyof Work]: Work[name] }>;
}

interface Ready {
  readonly offer: Offer;
  readonly counted: Counted;
  readonly admitted: Admitted;
}

export class Intake {
  readonly #parts: EngineParts;
  readonly #lots: Lots;
  readonly #gathering: Gathering;
  readonly #admission: Admission;
  #offers: Offer[] = [];
  #counting = 0;
  #isDue = false;

  constructor(parts: EngineParts, lots: Lots, gathering: Gathering, admission: Admission) {
    this.#parts = parts;
    this.#lots = lots;
    this.#gathering = gathering;
    this.#admission = admission;
  }

  /**
   * Resolves when it is durable. Throws `usage` (`details.param`), `conflict` for an id that is taken, `disk_full`, and
   * what admission throws.
   */
  offer(task: SmallTask): Promise<Accepted> {
    return new Promise((resolve, reject) => {
      const id = task.id ?? newId();
      const lines = task.items.map((item, index) =>
        itemLine({ ...item, key: objectId(id, index + 1) }, `item ${index}`),
      );
      const chars = lines.reduce((sum, line) => sum + line.length, 0);
      this.#offers.push({ id, task, lines, chars, resolve, reject });
      this.#wake();
    });
  }

  #wake(): void {
    if (this.#isDue || this.#counting === COUNTING_MAX || this.#offers.length === 0) return;
    this.#isDue = true;
    this.#parts.clock.soon(() => {
      this.#isDue = false;
      void this.#accept(this.#take());
      this.#wake();
    });
  }

  /** As many as are counted in one go. */
  #take(): Offer[] {
    let lines = 0;
    let chars = 0;
    const end = this.#offers.findIndex((offer, index) => {
      lines += offer.lines.length;
      chars += offer.chars;
      return index > 0 && (lines > BATCH_LINES_MAX || chars > BATCH_CHARS_MAX);
    });
    return this.#offers.splice(0, end < 0 ? this.#offers.length : end);
  }

  /** Never rejects: each offer is told. */
  async #accept(batch: readonly Offer[]): Promise<void> {
    try {
      this.#counting += 1;
      const counted = await this.#measure(batch).finally(() => {
        this.#counting -= 1;
        this.#wake();
      });
      const admitted = await Promise.all(batch.map((offer, index) => this.#admit(offer, counted[index])));
      const ready = admitted.filter((one) => one !== undefined);
      if (ready.length > 0) await this.#commit(ready);
    } catch (error) {
      for (const offer of batch) offer.reject(error);
    }
  }

  /** Undefined when it was refused, and its caller told. */
  async #admit(offer: Offer, counted: Counted | PerigeeError | undefined): Promise<Ready | undefined> {
    try {
      if (counted === undefined || counted instanceof PerigeeError) throw counted;
      const { task, lines, chars } = offer;
      const amount = { items: lines.length, bytes: chars };
      const admitted = await this.#admission.admit(task.project, [...counted.works.values()], amount);
      return { offer, counted, admitted };
    } catch (error) {
      offer.reject(error);
      return undefined;
    }
  }

  async #measure(batch: readonly Offer[]): Promise<readonly (Counted | PerigeeError)[]> {
    let text = "";
    let lineCount = 0;
    for (const { lines } of batch) {
      for (const line of lines) text += `${line}\n`;
      lineCount += lines.length;
    }
    const bytes = new Uint8Array(Buffer.byteLength(text));
    Buffer.from(bytes.buffer).write(text);
    const block = { bytes, offset: 0, firstLine: 1, lineCount };
    const measured = await this.#parts.measurer.measure(block, { wantBodies: false });
    return countedOf(measured, batch, this.#parts);
  }

  async #commit(batch: readonly Ready[]): Promise<void> {
    const given: GivenLines[] = [];
    const tasks: TaskRecord[] = [];
    const changes: RecordChange[] = [];
    const createdWallMs = this.#parts.clock.wallMs();
    for (const { offer, counted, admitted } of batch) {
      const { task, lines, chars } = offer;
      const one = this.#gathering.take(task.project, task.slaMinutes, lines.length, chars);
      const lot = this.#gathering.recordToStore(one.gathering);
      if (lot !== undefined)
        changes.push(...this.#lots.cards.unstored(), { kind: "put", record: lotToRecord(lot) });
      const { estimatedUsd } = admitted;
      const terms = { createdWallMs, ...(estimatedUsd > 0 ? { estimatedUsd } : {}) };
      const record = recordOf(offer, one, counted, terms);
      const payload = Buffer.from(lines.join("\n"));
      changes.push({ kind: task.id === undefined ? "put" : "insert", record: taskToRecord(record, payload) });
      given.push(one);
      tasks.push(record);
    }
    try {
      await this.#parts.store.change(changes);
      this.#lots.cards.stored();
    } catch (error) {
      for (const one of given) this.#gathering.committed(one.gathering, false);
      for (const { admitted } of batch) {
        admitted.hold.release();
        admitted.room.release();
      }
      throw error;
    }
    for (const [index, { offer, counted, admitted }] of batch.entries()) {
      const { gathering } = given[index] as GivenLines;
      gathering.lot.addWorks(counted.works.values());
      gathering.lot.holds.push(admitted.hold);
      gathering.lot.estimatedUsd += admitted.estimatedUsd;
      this.#accepted(offer, given[index] as GivenLines, tasks[index] as TaskRecord);
      admitted.room.release(); // counted with its lot from here on
    }
    for (const one of given) this.#gathering.committed(one.gathering, true);
  }

  #accepted(offer: Offer, { gathering, firstLine }: GivenLines, task: TaskRecord): void {
    for (const [index, line] of offer.lines.entries()) gathering.texts[firstLine - 1 + index] = line;
    const { length } = offer.lines;
    this.#lots.join(gathering.lot, {
      taskId: offer.id,
      firstLine,
      lines: length,
      open: length,
      isCancelled: false,
    });
    gathering.lot.share?.grow({ items: length, bytes: offer.chars });
    offer.resolve({ task, lot: gathering.lot });
  }
}

function recordOf(
  offer: Offer,
  given: GivenLines,
  counted: Counted,
  terms: Pick<TaskRecord, "createdWallMs" | "estimatedUsd">,
): TaskRecord {
  const { id, task, lines } = offer;
  const [factor = 1] = counted.factors;
  return {
    id,
    project: task.project,
    ...terms,
    totalItems: lines.length,
    volumeTokens: 0,
    hasOutputFile: task.hasOutputFile,
    ...(task.note === undefined ? {} : { note: task.note }),
    parts: [
      {
        lotId: given.gathering.lot.record.id,
        firstLine: given.firstLine,
        lines: lines.length,
        items: lines.length,
        slaMinutes: task.slaMinutes,
      },
    ],
    spans: [0, lines.length],
    inputTokens: counted.inputTokens,
    factors: counted.factors.every((each) => each === factor) ? factor : counted.factors,
  };
}

/** Of each offer what was counted, or why it is refused. */
function countedOf(
  measured: MeasuredBlock,
  batch: readonly Offer[],
  { rateCard, sender }: Pick<EngineParts, "rateCard" | "sender">,
): readonly (Counted | PerigeeError)[] {
  const rejected = new Map(measured.rejected.map((one) => [one.line, one]));
  const itemOf = new Map<number, number>();
  for (let item = 0; item < measured.count; item += 1) itemOf.set(measured.lines[item] as number, item);
  let line = 0;
  return batch.map(({ lines, task }) => {
    const counted: Counted = { inputTokens: [], factors: [], works: new Map() };
    let refusal: PerigeeError | undefined;
    for (const index of lines.keys()) {
      line += 1;
      const item = itemOf.get(line);
      if (item === undefined) {
        refusal ??= refusalOf(index, rejected.get(line));
        continue;
      }
      const model = measured.groups[measured.groupOf[item] as number]?.model ?? "";
      const inputTokens = measured.inputTokens[item] as number;
      counted.inputTokens.push(inputTokens);
      const { slaMinutes } = task;
      const work = counted.works.get(model) ?? {
        model,
        slaMinutes,
        items: 0,
        inputTokens: 0,
        outputTokens: 0,
        volumeTokens: 0,
      };
      work.items += 1;
      work.inputTokens += inputTokens;
      work.outputTokens += sender.expectedOutputTokensOf(model, measured.maxOutputTokens[item] as number);
      counted.works.set(model, work);
      counted.factors.push(priceFactor(model, task.slaMinutes ?? undefined, 0, rateCard));
    }
    return refusal ?? counted;
  });
}

/** A rejection speaks of the line; the caller knows of items. */
function refusalOf(index: number, rejected: RejectedLine | undefined): PerigeeError {
  const about = rejected?.message.replace(/^line \d+: /, "") ?? "it cannot be read";
  const field = rejected === undefined ? undefined : FIELD_AT_FAULT.get(rejected.code);
  const param = field === undefined ? String(index) : `${index}.${field}`;
  return new PerigeeError("usage", `item ${index}: ${about}`, { details: { param } });
}
