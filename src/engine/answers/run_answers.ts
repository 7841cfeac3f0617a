/**
 * The cache of answers in one run: which lines are answered without a request, which wait for another line, what is kept.
 *
 *   measured -> the same request is under way, and may be shared -> waits for its answer (waiting_twins.ts)
 *            -> its answer is in the cache ------------------------> settled: no limits, no money, no intent
 *            -> otherwise ------------------------------------------> to its lane; its answer is kept when it is durable
 *
 * Lines of one run share an answer if their requests leave nothing to chance (temperature 0), or the run coalesces all; otherwise each line
 * is asked for by itself, and only answers of other runs are used. A line that was sent in an earlier call of its run is not looked up.
 * A line's own outcome is recorded as that of any other: the cache changes which lines are sent, and nothing of what a restart does.
 */
import { projectKeys } from "../../shard/answers/request_key.ts";
import { keyJsonOf, type MeasuredBlock, metadataJsonOf, schemaJsonOf } from "../../shard/measured.ts";
import { Packer } from "../../shard/pack.ts";
import { pickItems } from "../../shard/pick_items.ts";
import type { AnswerCache } from "../../store/answers/answer_cache.ts";
import { ANSWER_KEY_BYTES } from "../../work/answer_key.ts";
import { type CacheOptions, resolvedCache } from "../config/cache_terms.ts";
import type { EngineCore } from "../core.ts";
import type { RunState, StateOfAnswers } from "../items/run_state.ts";
import { endMessage } from "../items/run_stopped.ts";
import type { CachedItem, EndedLine } from "../items/settle.ts";
import { checkFor, stillFits } from "../schemas/answer_fit.ts";
import { answerOf, keptText, readKept } from "./answer_form.ts";
import { AskedLines } from "./asked_lines.ts";
import { type FreedTwins, WaitingTwins } from "./waiting_twins.ts";

type Answer = CachedItem["answer"];

/** What of an engine it needs. */
type AnswersCore = Pick<EngineCore, "storage" | "sending">;

/** How a run uses its cache. */
interface AnswerTerms {
  /** How old an answer may be. */
  readonly ttlMs: number;
  /** Whether lines share answers that are left to chance. */
  readonly coalesces: boolean;
}

const NO_KEY = Buffer.alloc(ANSWER_KEY_BYTES).toString("latin1");

/** Close it when the run is over. */
export class RunAnswers implements StateOfAnswers {
  readonly #core: AnswersCore;
  readonly #state: RunState;
  readonly #cache: AnswerCache;
  readonly #terms: AnswerTerms;
  readonly #twins = new WaitingTwins();
  readonly #asked = new AskedLines();
  /** What the cache had for lines that are being settled, for those that wait for them. */
  readonly #found = new Map<number, Answer>();
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();

  private constructor(core: AnswersCore, state: RunState, cache: AnswerCache, terms: AnswerTerms) {
    this.#core = core;
    this.#state = state;
    this.#cache = cache;
    this.#terms = terms;
    state.answers = this;
  }

  /** Undefined without a cache. */
  static async open(
    core: AnswersCore,
    state: RunState,
    { cache, coalesce }: CacheOptions,
  ): Promise<RunAnswers | undefined> {
    if (cache === undefined) return undefined;
    const { dir, ttlMs, maxBytes } = resolvedCache(cache);
    const { openAnswers, clock, notice } = core.storage;
    const opened = await openAnswers({ dir, maxBytes, clock, onNotice: notice });
    return new RunAnswers(core, state, opened, { ttlMs, coalesces: coalesce === true });
  }

  /** Resolves when what was answered is kept. */
  async close(): Promise<void> {
    await this.#last;
    await this.#cache.close();
  }

  /** The items of a block that are to be sent; the others are answered, or wait. None wait of those that `areAlone`. */
  async take(block: MeasuredBlock, areAlone: boolean = false): Promise<MeasuredBlock> {
    const { count } = block;
    if (block.requests === undefined || count === 0) return block;
    const { project } = this.#state.settings;
    const requests = { ...block.requests, keys: projectKeys(project, block.requests.keys) };
    const measured = { ...block, requests };
    const keys = textOf(requests.keys);
    const own: number[] = [];
    for (let item = 0; item < count; item += 1) {
      const key = keys.slice(ANSWER_KEY_BYTES * item, ANSWER_KEY_BYTES * (item + 1));
      const isShared = !areAlone && (this.#terms.coalesces || requests.areCertain[item] === 1);
      if (key === NO_KEY || !this.#waits(measured, item, { key, isShared })) own.push(item);
    }
    const asked = own.filter((item) => this.#mayBeCached(measured.lines[item] as number));
    const answers = await this.#find(measured, asked);
    if (!this.#state.isOpen) return pickItems(measured, []);
    const settled = new Set(asked.filter((item, index) => this.#settles(measured, item, answers[index])));
    const kept = own.filter((item) => !settled.has(item));
    return kept.length === count ? block : pickItems(block, kept);
  }

  /** Whether an item waits for the answer to the same request. */
  #waits(
    measured: MeasuredBlock,
    item: number,
    { key, isShared }: { readonly key: string; readonly isShared: boolean },
  ): boolean {
    const line = measured.lines[item] as number;
    const { items } = this.#state;
    if (items.done.has(line)) return false;
    const { model } = measured.groups[measured.groupOf[item] as number] as MeasuredBlock["groups"][number];
    if (!items.isOpen(line)) {
      this.#asked.add(line, keyBytesOf(measured, item), { model, isShared }); // by an earlier call: a batch has it
      if (isShared) this.#twins.leads(key, line);
      return false;
    }
    if (isShared && this.#twins.waits(key, placeOf(measured, item))) {
      items.waitingItems += 1;
      this.#waiting += 1;
      return true;
    }
    this.#asked.add(line, keyBytesOf(measured, item), { model, isShared });
    return false;
  }

  /** Whether an item may be answered with an earlier answer: one that was sent before is, perhaps, answered by itself. */
  #mayBeCached(line: number): boolean {
    const { items } = this.#state;
    return this.#asked.has(line) && items.isOpen(line) && !items.made.has(line);
  }

  async #find(measured: MeasuredBlock, items: readonly number[]): Promise<readonly (string | undefined)[]> {
    if (items.length === 0) return [];
    const keys = new Uint8Array(ANSWER_KEY_BYTES * items.length);
    for (const [index, item] of items.entries())
      keys.set(keyBytesOf(measured, item), ANSWER_KEY_BYTES * index);
    const wallMs = this.#core.storage.clock.wallMs();
    const found = await this.#cache.find(keys, { wallMs, sinceWallMs: wallMs - this.#terms.ttlMs });
    return found.map((each, index) => {
      const isShared = this.#asked.isShared(measured.lines[items[index] as number] as number);
      return each === undefined || (each.origin === this.#state.id && !isShared) ? undefined : each.answer;
    });
  }

  /** Settles an item with an answer, where there is one. */
  #settles(measured: MeasuredBlock, item: number, kept: string | undefined): boolean {
    const { settings } = this.#state;
    const answer = kept === undefined ? undefined : readKept(kept, settings.keepsBody);
    if (answer === undefined || !this.#fits(measured, item, answer)) return false;
    this.#found.set(measured.lines[item] as number, answer);
    this.#settle(measured, item, answer);
    return true;
  }

  /** The schema is in the key, and a function that checks besides is not. */
  #fits(measured: MeasuredBlock, item: number, { parsed }: Answer): boolean {
    const { settings } = this.#state;
    const check = checkFor(settings.fit, schemaJsonOf(measured, item), measured.lines[item] as number);
    return stillFits(check, parsed);
  }

  #settle(measured: MeasuredBlock, item: number, answer: Answer): void {
    const { items, records } = this.#state;
    const line = measured.lines[item] as number;
    if (!items.isOpen(line)) return;
    const { model } = measured.groups[measured.groupOf[item] as number] as MeasuredBlock["groups"][number];
    const [keyJson, metadata] = [keyJsonOf(measured, item), metadataJsonOf(measured, item)];
    items.claimed.add(line);
    if (this.#state.skips(line)) {
      const status = "cancelled";
      records.unsent(line, keyJson, { status, code: status, message: endMessage(status), metadata, model });
      return;
    }
    const warnings = measured.warningLists[(measured.warnings[item] as number) - 1] ?? "";
    records.cached({ line, keyJson, model, metadata, warnings, answer });
  }

  get waiting(): number {
    return this.#waiting;
  }

  readAgain(): void {
    this.#twins.clear();
    this.#waiting = 0;
  }

  /** Keeps the answer of a line that was asked for, and continues with the lines that wait for it. */
  ended({ line, sent }: EndedLine): void {
    const asked = this.#asked.take(line);
    if (asked === undefined) return;
    const { key, model } = asked;
    const isOwn = sent !== undefined && sent.model === model; // else by another model than it was measured for
    const fresh = isOwn ? answerOf(sent.outcome) : undefined;
    const text = fresh === undefined ? undefined : keptText(fresh);
    const { clock } = this.#core.storage;
    if (text !== undefined) this.#cache.keep({ key, answer: text, origin: this.#state.id }, clock.wallMs());
    const answer = fresh ?? this.#found.get(line);
    this.#found.delete(line);
    const freed = this.#twins.ended(key, line, answer !== undefined);
    if (freed !== undefined && this.#state.isOpen) this.#lookAgain(freed, answer);
  }

  /** One after the other; a run whose input cannot be read any more fails. */
  #lookAgain({ places, areAlone }: FreedTwins, answer: Answer | undefined): void {
    this.#last = this.#last.then(async () => {
      const state = this.#state;
      const packer = new Packer();
      try {
        for await (const measured of state.measureAgain(places)) {
          if (!state.isOpen) return;
          if (answer !== undefined) this.#settleAll(measured, answer);
          else await this.#send(packer, measured, areAlone);
        }
        if (!state.isOpen) return;
        await this.#core.sending.shardFeed.add(state, packer.flush());
        state.items.waitingItems = Math.max(0, state.items.waitingItems - places.lines.length);
        this.#waiting -= places.lines.length;
      } catch (error) {
        if (state.isOpen) state.fail(error as Error); // measuring throws nothing else
      } finally {
        state.changed();
      }
    });
  }

  #settleAll(measured: MeasuredBlock, answer: Answer): void {
    for (let item = 0; item < measured.count; item += 1) this.#settle(measured, item, answer);
  }

  async #send(packer: Packer, measured: MeasuredBlock, areAlone: boolean): Promise<void> {
    const left = await this.take(measured, areAlone);
    if (this.#state.isOpen) await this.#core.sending.shardFeed.add(this.#state, packer.add(left));
  }
}

/** Keys as a text, one byte a character. */
function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
}

function keyBytesOf({ requests }: MeasuredBlock, item: number): Uint8Array {
  const { keys } = requests as NonNullable<MeasuredBlock["requests"]>; // only of blocks that have them
  return keys.subarray(ANSWER_KEY_BYTES * item, ANSWER_KEY_BYTES * (item + 1));
}

function placeOf({ lines, offsets, lengths }: MeasuredBlock, item: number) {
  const [line, offset, length] = [lines[item] as number, offsets[item] as number, lengths[item] as number];
  return { line, offset, length };
}
