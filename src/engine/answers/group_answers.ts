/**
 * The cache of answers for posted items: which are answered without a request, and what is kept.
 *
 *   accepted with an age -> its answer is in the cache, and no older --> ended: no request, no money
 *                        -> otherwise ------------------------------> sent; its answer is kept when it is durable
 *
 * The operator names the folder, and the caller of each task how old an answer may be; tasks whose callers do not are neither looked up
 * nor kept. Projects never share an answer: the keys are those of the project. An item that was sent before is not looked up, and equal
 * items that are under way at the same time are each sent.
 */
import { projectKeys } from "../../shard/answers/request_key.ts";
import {
  keyJsonOf,
  type MeasuredBlock,
  metadataJsonOf,
  modelOf,
  schemaJsonOf,
} from "../../shard/measured.ts";
import { pickItems } from "../../shard/pick_items.ts";
import type { AnswerCache } from "../../store/answers/answer_cache.ts";
import { ANSWER_KEY_BYTES } from "../../work/answer_key.ts";
import type { Outcome } from "../../work/outcome.ts";
import { parseDurationMs } from "../../work/sla.ts";
import type { ResolvedCache } from "../config/cache_terms.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { CachedItem } from "../items/settle.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { checkFor, stillFits } from "../schemas/answer_fit.ts";
import { answerOf, keptText, readKept } from "./answer_form.ts";
import { AskedLines } from "./asked_lines.ts";

type Answer = CachedItem["answer"];

/** Of its owner, what it needs. */
interface AnsweredGroup extends Pick<ItemOwner, "isOpen" | "items" | "settings" | "skips"> {
  readonly records: { cached(item: CachedItem): void };
}

/** One for an engine that has a cache for posted items. Close it when nothing is answered any more. */
export class PostedAnswers {
  readonly #storage: Pick<EngineStorage, "clock" | "openAnswers" | "notice">;
  readonly #terms: ResolvedCache;
  #opened: Promise<AnswerCache> | undefined;

  constructor(storage: Pick<EngineStorage, "clock" | "openAnswers" | "notice">, terms: ResolvedCache) {
    this.#storage = storage;
    this.#terms = terms;
  }

  /** Opened by the first task that wants it. */
  cache(): Promise<AnswerCache> {
    const { openAnswers, clock, notice } = this.#storage;
    const { dir, maxBytes } = this.#terms;
    this.#opened ??= openAnswers({ dir, maxBytes, clock, onNotice: notice });
    return this.#opened;
  }

  /** For a group whose items have these ages: how old the answer to each line may be, from line 1, in milliseconds; 0: not from the cache. */
  ofGroup(agesMs: readonly number[]): GroupAnswers | undefined {
    if (!agesMs.some((ageMs) => ageMs > 0)) return undefined;
    return new GroupAnswers(
      this,
      this.#storage.clock,
      agesMs.map((ageMs) => Math.min(ageMs, this.#terms.ttlMs)),
    );
  }

  /** Resolves when what was answered is kept. */
  async close(): Promise<void> {
    await (await this.#opened)?.close();
  }
}

/** How old cached answers to the items of these tasks may be, by line, in milliseconds; empty where none wants them. */
export function agesOf(
  tasks: readonly { readonly items: number; readonly cacheTtl?: string | undefined }[],
): readonly number[] {
  if (tasks.every(({ cacheTtl }) => cacheTtl === undefined)) return [];
  return tasks.flatMap(({ items, cacheTtl }) => {
    const ageMs = cacheTtl === undefined ? 0 : (parseDurationMs(cacheTtl) ?? 0);
    return new Array<number>(items).fill(ageMs);
  });
}

/** One for a group. */
export class GroupAnswers {
  readonly #answers: PostedAnswers;
  readonly #clock: EngineStorage["clock"];
  readonly #agesMs: readonly number[];
  readonly #asked = new AskedLines();

  constructor(answers: PostedAnswers, clock: EngineStorage["clock"], agesMs: readonly number[]) {
    this.#answers = answers;
    this.#clock = clock;
    this.#agesMs = agesMs;
  }

  /** The items that are to be sent; the others are answered. */
  async take(owner: AnsweredGroup, measured: MeasuredBlock): Promise<MeasuredBlock> {
    const { requests, count } = measured;
    if (requests === undefined || count === 0) return measured;
    const keys = projectKeys(owner.settings.project, requests.keys);
    const asked: number[] = [];
    for (let item = 0; item < count; item += 1) {
      const line = measured.lines[item] as number;
      const key = keys.subarray(ANSWER_KEY_BYTES * item, ANSWER_KEY_BYTES * (item + 1));
      if (this.#ageOf(line) === 0 || key.every((byte) => byte === 0)) continue;
      this.#asked.add(line, key, { model: modelOf(measured, item), isShared: true });
      if (!owner.items.made.has(line)) asked.push(item);
    }
    const cache = await this.#answers.cache();
    const settled = new Set<number>();
    for (const [age, items] of this.#byAge(measured, asked)) {
      const wanted = new Uint8Array(ANSWER_KEY_BYTES * items.length);
      for (const [index, item] of items.entries())
        wanted.set(
          keys.subarray(ANSWER_KEY_BYTES * item, ANSWER_KEY_BYTES * (item + 1)),
          ANSWER_KEY_BYTES * index,
        );
      const wallMs = this.#clock.wallMs();
      const found = await cache.find(wanted, { wallMs, sinceWallMs: wallMs - age });
      for (const [index, item] of items.entries())
        if (settles(owner, measured, item, found[index]?.answer)) settled.add(item);
    }
    if (settled.size === 0) return measured;
    return pickItems(
      measured,
      Array.from({ length: count }, (_, item) => item).filter((item) => !settled.has(item)),
    );
  }

  /** An item was answered by a model, or ended without an answer, durably: what others may have is kept. */
  async ended(owner: { readonly id: string }, line: number, model: string, outcome: Outcome): Promise<void> {
    const asked = this.#asked.take(line);
    const answer = asked?.model === model ? answerOf(outcome) : undefined; // else by another model than it was measured for
    const text = answer === undefined ? undefined : keptText(answer);
    if (asked === undefined || text === undefined) return;
    const wallMs = this.#clock.wallMs();
    (await this.#answers.cache()).keep({ key: asked.key, answer: text, origin: owner.id }, wallMs);
  }

  #ageOf(line: number): number {
    return this.#agesMs[line - 1] ?? 0;
  }

  #byAge(measured: MeasuredBlock, items: readonly number[]): Map<number, number[]> {
    const ages = new Map<number, number[]>();
    for (const item of items) {
      const age = this.#ageOf(measured.lines[item] as number);
      const alike = ages.get(age);
      if (alike === undefined) ages.set(age, [item]);
      else alike.push(item);
    }
    return ages;
  }
}

/** Ends an item with a kept answer, where there is one that it may have. */
function settles(
  owner: AnsweredGroup,
  measured: MeasuredBlock,
  item: number,
  kept: string | undefined,
): boolean {
  const { items, settings, records } = owner;
  const line = measured.lines[item] as number;
  const answer = kept === undefined ? undefined : readKept(kept, settings.keepsBody);
  if (answer === undefined || !owner.isOpen || !items.isOpen(line) || owner.skips(line)) return false;
  if (!fits(owner, measured, item, answer)) return false;
  items.claimed.add(line);
  const warnings = measured.warningLists[(measured.warnings[item] as number) - 1] ?? "";
  const [keyJson, metadata] = [keyJsonOf(measured, item), metadataJsonOf(measured, item)];
  records.cached({ line, keyJson, model: modelOf(measured, item), metadata, warnings, answer });
  return true;
}

function fits(
  { settings }: AnsweredGroup,
  measured: MeasuredBlock,
  item: number,
  { parsed }: Answer,
): boolean {
  const check = checkFor(settings.fit, schemaJsonOf(measured, item), measured.lines[item] as number);
  return stillFits(check, parsed);
}
