/**
 * The acceptance of small tasks: requests that arrive while others are counted are counted and committed together.
 *
 *   offered -> counted (in a thread, with the bodies to send) -> admitted -> committed to the work log -> accepted, and on its way
 *                 |-> refused: a model that no provider serves
 *                 \-> passed on: it goes with batches, as a run
 *
 * Hot: the post of one item may take 60 us of this thread here (bench/jobs/service.ts).
 */
import { type FailureCode, PerigeeError } from "../../errors.ts";
import { itemLine } from "../../jsonl/items.ts";
import { type CostFloors, flooredFactor, priceFactor } from "../../price/factor.ts";
import { requestShareOf } from "../../shard/joined_body.ts";
import { kindOf, type MeasuredBlock, modelOf, type RejectedLine } from "../../shard/measured.ts";
import { pickItems } from "../../shard/pick_items.ts";
import type { Item } from "../../work/item.ts";
import { objectId } from "../../work/object_id.ts";
import { agesOf } from "../answers/group_answers.ts";
import type { EngineCore } from "../core.ts";
import { goesWithBatches } from "../plans/batched_work.ts";
import { CountedWorks } from "../plans/counted_work.ts";
import type { Admits, AdmittedWork } from "./admitting.ts";
import type { NewPosted, PostBounds } from "./posted_groups.ts";
import { bodyOf, type PostedRecord, rowIdOf } from "./posted_record.ts";
import type { PostedWork } from "./posted_work.ts";

/** Counts and prices requests. */
type CountingCore = Pick<EngineCore, "storage" | "config" | "measurer" | "sending" | "atWork">;

/** The most lines and characters counted in one batch. */
const BATCH_LINES_MAX = 1_024;
const BATCH_CHARS_MAX = 512 * 1024;

/** Batches counted at once; later offers form the next one, which is larger under load. */
const COUNTING_MAX = 1;

/** Items of a posted task at most, and characters of what they ask. */
export const POSTED_ITEMS_MAX = 1_000;
export const POSTED_CHARS_MAX: number = 1024 * 1024;

/** Characters of what an item asks, its settings aside. */
export function questionChars(item: Item): number {
  const { input, contents, messages } = item;
  if (typeof input === "string") return input.length;
  const prompt = item.kind === "completion" ? item.prompt : undefined;
  return JSON.stringify(input ?? contents ?? messages ?? prompt ?? "").length;
}

/** The item's field that causes each rejection of a line. */
const FIELD_AT_FAULT: ReadonlyMap<FailureCode, string> = new Map([
  ["unknown_model", "model"],
  ["provider_missing", "model"],
  ["invalid_config", "generation_config"],
  ["unsupported_request", "generation_config"],
  ["invalid_contents", "input"],
  ["tokenizer_failed", "input"],
]);

/** A small task before it is accepted: inline items of one sla. */
export interface SmallTask
  extends Pick<NewPosted, "tap" | "check">,
    Pick<PostedRecord, "note" | "retentionDays" | "cacheTtl" | "endsWithCaller"> {
  /** A UUID that no other task has. */
  readonly id: string;
  readonly project: string;
  /** Of its items, made by `taskLines`. */
  readonly lines: readonly string[];
  readonly slaMinutes: number | null;
  readonly hasOutputFile: boolean;
}

/** The lines of the items of a small task. Throws `usage`. */
export function taskLines(id: string, items: readonly Item[]): readonly string[] {
  return items.map((item, index) => itemLine({ ...item, key: objectId(id, index + 1) }, `item ${index}`));
}

/** A task with its lines. */
interface Offered {
  readonly id: string;
  readonly task: SmallTask;
  readonly lines: readonly string[];
}

interface Offer<A> extends Offered {
  readonly chars: number;
  readonly resolve: (accepted: Accepted<A> | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** An accepted task with its reserved money and backlog share. */
export interface Accepted<A> {
  readonly task: PostedRecord;
  readonly admitted: A;
}

/** What was counted for an offer. */
interface Counted {
  /** Positions of its items in `measured`. */
  readonly at: number[];
  readonly measured: MeasuredBlock;
  readonly inputTokens: number[];
  readonly factors: number[];
  readonly works: CountedWorks;
}

interface CountedOffer {
  readonly offer: Offered;
  readonly counted: Counted;
}

interface Ready<A> extends CountedOffer {
  readonly offer: Offer<A>;
  readonly refundShare: number;
  readonly admitted: A;
}

/** Offers measured together, and their terms. */
interface Batch {
  readonly offers: readonly Offered[];
  readonly terms: ReadonlyMap<string, PostBounds>;
}

/** One for an owner of posted tasks. */
export class Acceptance<A extends AdmittedWork> {
  readonly #core: CountingCore;
  readonly #work: PostedWork;
  readonly #admission: Admits<A>;
  #offers: Offer<A>[] = [];
  #counting = 0;
  #isDue = false;

  constructor(core: CountingCore, work: PostedWork, admission: Admits<A>) {
    this.#core = core;
    this.#work = work;
    this.#admission = admission;
  }

  /**
   * Resolves when it is durable; with undefined for one that is to be a run, of which nothing is kept here. Throws `usage`
   * (`details.param`), `conflict` if the id is in use, `disk_full`, and what admission throws.
   */
  offer(task: SmallTask): Promise<Accepted<A> | undefined> {
    return new Promise((resolve, reject) => {
      const { id, lines } = task;
      const chars = lines.reduce((sum, line) => sum + line.length, 0);
      this.#offers.push({ id, task, lines, chars, resolve, reject });
      this.#wake();
    });
  }

  #wake(): void {
    if (this.#isDue || this.#counting === COUNTING_MAX || this.#offers.length === 0) return;
    this.#isDue = true;
    this.#core.storage.clock.soon(() => {
      this.#isDue = false;
      void this.#accept(this.#take());
      this.#wake();
    });
  }

  /** Takes as many offers as one batch counts. */
  #take(): Offer<A>[] {
    let lines = 0;
    let chars = 0;
    const end = this.#offers.findIndex((offer, index) => {
      lines += offer.lines.length;
      chars += offer.chars;
      return index > 0 && (lines > BATCH_LINES_MAX || chars > BATCH_CHARS_MAX);
    });
    return this.#offers.splice(0, end < 0 ? this.#offers.length : end);
  }

  /** Never rejects: each offer gets its own result. */
  async #accept(offers: readonly Offer<A>[]): Promise<void> {
    const expected = this.#work.expect();
    try {
      this.#counting += 1;
      const { counted, terms } = await this.#count(offers).finally(() => {
        this.#counting -= 1;
        this.#wake();
      });
      const admitted = await Promise.all(offers.map((offer, index) => this.#admit(offer, counted[index])));
      const groups = new Map<string, Ready<A>[]>();
      for (const ready of admitted) {
        if (ready === undefined) continue;
        const { project, slaMinutes } = ready.offer.task;
        const key = `${slaMinutes} ${project}`;
        const group = groups.get(key);
        if (group === undefined) groups.set(key, [ready]);
        else group.push(ready);
      }
      const createdWallMs = this.#core.storage.clock.wallMs();
      for (const ready of groups.values()) void this.#commit(ready, terms, createdWallMs); // one commit for all
    } catch (error) {
      for (const offer of offers) offer.reject(error);
    } finally {
      expected();
    }
  }

  /** Offers whose projects have the same settings are measured together. */
  async #count(
    offers: readonly Offer<A>[],
  ): Promise<Pick<Batch, "terms"> & { readonly counted: readonly (Counted | PerigeeError)[] }> {
    const terms = new Map<string, PostBounds>();
    for (const { task } of offers)
      if (!terms.has(task.project)) terms.set(task.project, await this.#work.groups.terms(task.project));
    const isCapped = ({ task }: Offer<A>): boolean => terms.get(task.project)?.options.cap !== undefined;
    const each = [offers.filter((offer) => !isCapped(offer)), offers.filter(isCapped)];
    const counted = new Map<Offer<A>, Counted | PerigeeError>();
    for (const alike of each) {
      if (alike.length === 0) continue;
      const found = await this.#measure({ offers: alike, terms });
      for (const [index, offer] of alike.entries())
        counted.set(offer, found[index] as Counted | PerigeeError);
    }
    return { terms, counted: offers.map((offer) => counted.get(offer) as Counted | PerigeeError) };
  }

  /** Undefined if it was refused or passed on, and its caller notified. */
  async #admit(offer: Offer<A>, counted: Counted | PerigeeError | undefined): Promise<Ready<A> | undefined> {
    try {
      if (counted === undefined || counted instanceof PerigeeError) throw counted;
      const { task, lines, chars } = offer;
      const amount = { items: lines.length, bytes: chars };
      const { slaMinutes } = task;
      const works = counted.works.all.map((work) => ({ ...work, slaMinutes, volumeTokens: 0 }));
      if (goesWithBatches(this.#core, task.project, works)) {
        offer.resolve(undefined);
        return undefined;
      }
      const promised = await this.#admission.promises?.(task.project, works, true);
      const admitted = await this.#admission.admit(task.project, works, amount);
      coverCosts(counted, promised?.costFloors);
      return { offer, counted, admitted, refundShare: promised?.refundShare ?? 0 };
    } catch (error) {
      offer.reject(error);
      return undefined;
    }
  }

  async #measure({ offers, terms }: Batch): Promise<readonly (Counted | PerigeeError)[]> {
    let text = "";
    let lineCount = 0;
    for (const { lines } of offers) {
      for (const line of lines) text += `${line}\n`;
      lineCount += lines.length;
    }
    const bytes = new Uint8Array(Buffer.byteLength(text));
    Buffer.from(bytes.buffer).write(text);
    const block = { bytes, offset: 0, firstLine: 1, lineCount };
    const options = terms.get(offers[0]?.task.project ?? "")?.options ?? { wantBodies: true };
    const measured = await this.#core.measurer.measure(block, options);
    return countedOf(measured, offers, this.#core);
  }

  /** Commits tasks of one project and one sla. Each offer gets its result. */
  async #commit(
    ready: readonly Ready<A>[],
    terms: ReadonlyMap<string, PostBounds>,
    createdWallMs: number,
  ): Promise<void> {
    const [{ offer, counted }] = ready as readonly [Ready<A>, ...Ready<A>[]];
    const { project, slaMinutes } = offer.task;
    const records = ready.map((each) => recordFor(each, createdWallMs));
    const tasks: NewPosted[] = ready.map(({ offer: { id, lines, task } }, index) => ({
      id: rowIdOf(id),
      items: lines.length,
      body: bodyOf(records[index] as PostedRecord),
      request: Buffer.from(lines.length === 1 ? (lines[0] ?? "") : lines.join("\n")),
      tap: task.tap,
      check: task.check,
    }));
    try {
      const numbers = await this.#work.accept({
        project,
        createdWallMs,
        deadlineWallMs: slaMinutes === null ? undefined : createdWallMs + slaMinutes * 60_000,
        tasks,
        measured: itemsOf(counted.measured, ready),
        factors: ready.flatMap(({ counted: { factors } }) => factors),
        cacheMs: agesOf(ready.map(({ offer: { task, lines } }) => ({ ...task, items: lines.length }))),
        terms: terms.get(project) as PostBounds,
      });
      for (const [index, { offer: own, admitted }] of ready.entries()) {
        const task = records[index] as { -readonly [part in keyof PostedRecord]: PostedRecord[part] };
        task.number = numbers[index] as number;
        own.resolve({ task, admitted });
      }
    } catch (error) {
      for (const { offer: own, admitted } of ready) {
        admitted.hold.release();
        admitted.room.release();
        own.reject(error);
      }
    }
  }
}

/** Its record, without a number yet. */
function recordFor(
  {
    offer,
    counted,
    admitted,
    refundShare,
  }: CountedOffer & Pick<Ready<AdmittedWork>, "admitted" | "refundShare">,
  createdWallMs: number,
): PostedRecord {
  const { id, task, lines } = offer;
  const [factor = 1] = counted.factors;
  const { estimatedUsd } = admitted;
  const works: [string, number, number][] = [];
  for (const { model, items, inputTokens } of counted.works.all) works.push([model, items, inputTokens]);
  return {
    id,
    totalItems: lines.length,
    slaMinutes: task.slaMinutes,
    hasOutputFile: task.hasOutputFile,
    ...{ note: task.note, retentionDays: task.retentionDays },
    ...{ cacheTtl: task.cacheTtl, endsWithCaller: task.endsWithCaller },
    inputTokens: counted.inputTokens,
    works,
    factors: counted.factors.every((each) => each === factor) ? factor : counted.factors,
    estimatedUsd: estimatedUsd > 0 ? estimatedUsd : undefined,
    refundShare: refundShare > 0 && task.slaMinutes !== null ? refundShare : undefined,
    number: 0,
    project: task.project,
    createdWallMs,
  };
}

/** No factor of an item with an sla is below its floor. */
function coverCosts({ at, measured, factors }: Counted, floors: CostFloors | undefined): void {
  if (floors === undefined) return;
  for (const [index, item] of at.entries())
    factors[index] = flooredFactor(modelOf(measured, item), factors[index] ?? 1, floors);
}

/** The measured items of these offers, as lines of a separate text, from 1. */
function itemsOf(all: MeasuredBlock, ready: readonly CountedOffer[]): MeasuredBlock {
  const kept = ready.flatMap(({ counted }) => counted.at);
  const isAll = kept.length === all.count && all.rejected.length === 0; // in batch order
  const measured = isAll ? all : pickItems(all, kept);
  let offset = 0;
  for (let item = 0; item < measured.count; item += 1) {
    measured.lines[item] = item + 1;
    measured.offsets[item] = offset;
    offset += (measured.lengths[item] as number) + 1;
  }
  return { ...measured, rejected: [] };
}

/** For each offer what was counted, or why it is refused. */
function countedOf(
  measured: MeasuredBlock,
  batch: readonly Offered[],
  { config, sending: { sender } }: Pick<EngineCore, "config" | "sending">,
): readonly (Counted | PerigeeError)[] {
  const rejected = new Map(measured.rejected.map((one) => [one.line, one]));
  const itemOf = new Map<number, number>();
  for (let item = 0; item < measured.count; item += 1) itemOf.set(measured.lines[item] as number, item);
  let line = 0;
  return batch.map(({ lines, task }) => {
    const works = new CountedWorks(sender.loads);
    const counted: Counted = { at: [], measured, inputTokens: [], factors: [], works };
    let refusal: PerigeeError | undefined;
    for (const index of lines.keys()) {
      line += 1;
      const item = itemOf.get(line);
      if (item === undefined) {
        refusal ??= refusalOf(index, rejected.get(line));
        continue;
      }
      const model = modelOf(measured, item);
      counted.at.push(item);
      const inputTokens = measured.inputTokens[item] as number;
      counted.inputTokens.push(inputTokens);
      const maxOutputTokens = measured.maxOutputTokens[item] as number;
      const requests = requestShareOf(measured, item);
      works.add({ model, kind: kindOf(measured, item), requests, inputTokens, maxOutputTokens });
      counted.factors.push(priceFactor(model, task.slaMinutes ?? undefined, 0, config.rateCard));
    }
    return refusal ?? counted;
  });
}

/** A rejection names the line; the caller only knows items. */
function refusalOf(index: number, rejected: RejectedLine | undefined): PerigeeError {
  const about = rejected?.message.replace(/^line \d+: /, "") ?? "it cannot be read";
  const field = rejected && (rejected.field ?? FIELD_AT_FAULT.get(rejected.code));
  const param = field === undefined ? String(index) : `${index}.${field}`;
  return new PerigeeError("usage", `item ${index}: ${about}`, { details: { param } });
}
