/**
 * Groups of posted tasks on their way into memory: measured when they were accepted, or read and measured again.
 *
 *   accepted (measured) ------------------\
 *   read from the work log -> measured ----+-> owner with its tasks -> packed -> on their way to their lanes
 */
import type { AnswerTap } from "../../dispatch/answer_tap.ts";
import { Budget, type Cap } from "../../price/budget.ts";
import type { MeasureOptions } from "../../shard/measure.ts";
import { keyJsonOf, type MeasuredBlock, metadataJsonOf, modelOf } from "../../shard/measured.ts";
import { Packer } from "../../shard/pack.ts";
import { pickItems } from "../../shard/pick_items.ts";
import { lineLayout } from "../../work/line_layout.ts";
import { agesOf, PostedAnswers } from "../answers/group_answers.ts";
import { laneRules } from "../config/lane_rules.ts";
import type { EngineCore } from "../core.ts";
import type { OwnerTerms } from "../items/item_owner.ts";
import { PriceTable } from "../journal/price_table.ts";
import { type CappedWork, lacksMoney } from "../lanes/money_forecast.ts";
import { mediaFolder } from "../media/media_files.ts";
import { capOptions } from "../runs/run_budget.ts";
import { DOUBTED } from "../runs/run_reader.ts";
import type { OwnCheck } from "../schemas/answer_fit.ts";
import { ownSchemas } from "../schemas/run_schema.ts";
import type { ParkedTask } from "./parked_tasks.ts";
import { PostedItems, type PostedTask, placeTasks } from "./posted_items.ts";
import type { PostedLog } from "./posted_log.ts";
import { PostedRecords, type PostedTerms } from "./posted_records.ts";
import { madeOf } from "./tried_items.ts";

/** The terms of a task in its row. */
export interface PostedFacts {
  readonly slaMinutes: number | null;
  /** When its window began, if not at its creation. */
  readonly sinceWallMs?: number;
  /** For each item, or one number for all. */
  readonly factors?: number | readonly number[];
  /** How old a cached answer may be, such as `1h`; absent: its items are not answered from the cache. */
  readonly cacheTtl?: string | undefined;
}

/** The limits on a project's posts, and the resulting options for measuring them. */
export interface PostBounds {
  readonly caps: readonly Cap[];
  readonly options: MeasureOptions;
}

/** Tasks of one project and one deadline. */
export interface PostedGroup {
  readonly project: string;
  /** Monotonic; Infinity without a deadline. */
  readonly deadlineMs: number;
  readonly tasks: readonly PostedTask[];
  readonly measured: MeasuredBlock;
  /** Price factors, by line from 1. */
  readonly factors: readonly number[];
  readonly terms: PostBounds;
  /** How old cached answers may be, by line from 1, in milliseconds; 0 and absent: none. */
  readonly cacheMs?: readonly number[] | undefined;
  /** The id of its record, if it has batches (`batched_groups.ts`). */
  readonly batchedAs?: string | undefined;
}

/** A task that is being posted. */
export interface NewPosted {
  /** No other task has this id. */
  readonly id: string;
  readonly items: number;
  /** JSON without texts; see `PostedFacts`. */
  readonly body: string;
  /** Its lines, without the last line end. */
  readonly request: Uint8Array;
  /** Who reads the answer of its only item while it arrives; while it stays in this process. */
  readonly tap?: AnswerTap | undefined;
  /** Checks the answers of its items that have its JSON Schema; while it stays in this process. */
  readonly check?: OwnCheck | undefined;
}

/** Tasks of one project that arrived together. */
export interface NewGroup
  extends Pick<PostedGroup, "project" | "measured" | "factors" | "terms" | "cacheMs"> {
  readonly createdWallMs: number;
  /** Unix time; undefined without an sla. */
  readonly deadlineWallMs: number | undefined;
  /** Their lines are numbered from 1 in `measured`, in this order. */
  readonly tasks: readonly NewPosted[];
}

export interface PostedGroupsOptions {
  readonly core: EngineCore;
  readonly log: PostedLog;
  /** Caps on a project's posts. */
  readonly capsOf: (project: string) => Promise<readonly Cap[]>;
  /** Whether the acceptance of a task in memory is not durable yet. */
  readonly isEntering: PostedTerms["isEntering"];
  readonly onTried: PostedTerms["onTried"];
  readonly onEnded: PostedTerms["onEnded"];
  readonly onChange: (owner: PostedItems) => void;
}

/** Name under which all posts of an engine share its cap. */
const POSTED = "posted";

/** One for an engine. */
export class PostedGroups {
  readonly #options: PostedGroupsOptions;
  readonly #prices = new PriceTable();
  /** The caps that all work of the engine takes from. */
  #engineCaps: Promise<readonly Cap[]> | undefined;
  /** Accepted work under caps that has not entered its group. */
  readonly #accepted = new Map<number, CappedWork>();
  /** Of open tasks whose answers are read while they arrive. */
  readonly #taps = new Map<number, AnswerTap>();
  /** Of open tasks whose answers a program checks itself. */
  readonly #checks = new Map<number, OwnCheck>();
  readonly #answers: PostedAnswers | undefined;
  #made = 0;

  constructor(options: PostedGroupsOptions) {
    this.#options = options;
    const { config, storage } = options.core;
    this.#answers = config.cache === undefined ? undefined : new PostedAnswers(storage, config.cache);
  }

  /** Resolves when what was answered is in the cache. */
  async close(): Promise<void> {
    await this.#answers?.close();
  }

  /** Counts what earlier processes spent on posted tasks in the engine's cap; call it before anything is sent. */
  async countSpent(usd: number): Promise<void> {
    for (const cap of await this.#joined()) cap.count(usd);
  }

  /** Counts what batches of a project may cost in its caps. Returns how to end that, once their group holds it. */
  async countHeld(project: string, usd: number): Promise<() => void> {
    const { caps } = await this.terms(project);
    for (const cap of caps) cap.count(usd);
    return () => {
      for (const cap of caps) cap.forget(usd);
    };
  }

  /** The limits on posts of a project, and how they are measured. */
  async terms(project: string): Promise<PostBounds> {
    const { capsOf } = this.#options;
    const caps = [...(await this.#joined()), ...(await capsOf(project))];
    const cap = capOptions({}, new Budget(caps));
    const wantsKeys = this.#answers !== undefined;
    return { caps, options: { wantBodies: true, wantsKeys, cap } };
  }

  /** Tasks were accepted, in the order of their numbers, and will enter later. */
  accepted(
    { tasks, measured, terms: { caps } }: NewGroup,
    numbers: readonly number[],
    deadlineMs: number,
  ): void {
    for (const [index, { tap, check }] of tasks.entries()) {
      if (tap !== undefined) this.#taps.set(numbers[index] as number, tap);
      if (check !== undefined) this.#checks.set(numbers[index] as number, check);
    }
    if (caps.length === 0) return;
    const { money } = this.#options.core.sending.sender;
    const modelOfItem = (item: number): string => modelOf(measured, item);
    let from = 0; // no line was rejected
    for (const [index, { items: count }] of tasks.entries()) {
      const budget = new Budget(caps);
      const { inputTokens, maxOutputTokens, most } = measured;
      money.expect(budget, { inputTokens, maxOutputTokens, most, from, count }, modelOfItem);
      this.#accepted.set(numbers[index] as number, { settings: { budget, deadlineMs }, openItems: count });
      from += count;
    }
  }

  /** A task is final. */
  ended(number: number): void {
    this.#taps.delete(number);
    this.#checks.delete(number);
  }

  entered(numbers: readonly number[]): void {
    for (const number of numbers) this.#accepted.delete(number);
  }

  /** Whether caps will hold some items of a task, or of its group; false while it is parked. */
  lacksMoney(number: number, owner: PostedItems | undefined): boolean {
    const work = owner ?? this.#accepted.get(number);
    return work !== undefined && lacksMoney(work, this.#options.core.sending.lanes.all());
  }

  /** The caps that all work of the engine takes from. */
  #joined(): Promise<readonly Cap[]> {
    const { caps, storage } = this.#options.core;
    this.#engineCaps ??= Promise.all(
      caps.termsOf(undefined).map((terms) => storage.room.waitFor(() => caps.join(terms, POSTED))),
    ).then((shared) => shared.map((capOf) => capOf()));
    return this.#engineCaps;
  }

  /** The owner of a group that is not in any lane yet. */
  open({
    project,
    deadlineMs,
    tasks,
    measured,
    factors,
    terms: { caps, options },
    cacheMs = [],
    batchedAs,
  }: PostedGroup): PostedItems {
    const { core, log, isEntering, onTried, onEnded, onChange } = this.#options;
    this.#made += 1;
    const settings: OwnerTerms = {
      deadlineMs,
      startedMs: core.storage.clock.nowMs(),
      budget: new Budget(caps),
      allowsUnbounded: false,
      isHedged: core.config.isHedged,
      ...laneRules(core.config.lanes, { project }),
      fit: {
        ...ownSchemas(),
        ownOf: (line) => (this.#checks.size === 0 ? undefined : this.#checks.get(owner.taskAt(line).number)),
      },
      project,
      weight: 1,
      keepsBody: false,
      mediaFolder: mediaFolder(core.storage, undefined),
      factorOf: (_model, line) => (line === undefined ? 1 : (factors[line - 1] ?? 1)), // what was promised for the item, also if another model answers
      prices: this.#prices,
    };
    const recorded = {
      ...{ log, isEntering, onTried, onEnded, prices: this.#prices },
      taskId: "",
      layout: lineLayout({}),
      namesLines: false,
      observer: core.recording.observer,
      clock: core.storage.clock,
    };
    const requestOf = async (number: number): Promise<Uint8Array | undefined> =>
      (await log.log.rows.loggedTask(number))?.request;
    const isBatched = batchedAs !== undefined;
    const tapOf = (number: number): AnswerTap | undefined => this.#taps.get(number);
    const texts = { requestOf, tapOf, measurer: core.measurer, measureOptions: options, isBatched };
    const owner: PostedItems = new PostedItems(batchedAs ?? `posted-${this.#made}`, settings, tasks, texts, {
      recordsOf: (its) => new PostedRecords(recorded, its),
      isOpen: (task, item) => isEntering(task) || log.log.isOpen(task, item),
      onChange,
      answers: this.#answers?.ofGroup(cacheMs),
    });
    for (let item = 0; item < measured.count; item += 1)
      owner.models[(measured.lines[item] as number) - 1] = modelOf(measured, item);
    return owner;
  }

  /** Sends the open items of a group to its lanes. */
  async send(owner: PostedItems, measured: MeasuredBlock): Promise<void> {
    const { sending, storage } = this.#options.core;
    for (const { line, key, code, message, provider } of measured.rejected) {
      if (!owner.items.isOpen(line)) continue;
      if (code === "provider_missing") {
        owner.items.hold(
          { reason: code, ...(provider === undefined ? {} : { provider }), message },
          1,
          storage.clock.nowMs(),
        );
        continue;
      }
      owner.items.claimed.add(line);
      const keyJson = key === null ? null : JSON.stringify(key);
      owner.records.unsent(line, keyJson, { status: "failed", code, message });
    }
    const packer = new Packer();
    const open = this.#openItems(owner, measured);
    const unanswered = (await owner.answers?.take(owner, open)) ?? open;
    const shards = packer.add(unanswered);
    await sending.shardFeed.add(owner, [...shards, ...packer.flush()]);
    owner.changed();
  }

  /** Parked tasks as a group; undefined if all of them have ended meanwhile. */
  async read(project: string, parked: readonly ParkedTask[]): Promise<PostedGroup | undefined> {
    const { core, log } = this.#options;
    const read: Omit<PostedTask, "firstLine" | "start" | "isCancelled">[] = [];
    const texts: Uint8Array[] = [];
    const facts: PostedFacts[] = [];
    for (const { number, deadlineMs } of parked) {
      const row = !log.log.has(number) ? undefined : await log.log.rows.loggedTask(number);
      const open = log.log.task(number);
      if (row?.request === undefined || open === undefined) continue;
      const { byteLength } = row.request;
      const body = JSON.parse(row.body) as PostedFacts; // written with the row
      const { slaMinutes, sinceWallMs = row.createdWallMs } = body;
      const nowWallMs = core.storage.clock.wallMs() - core.storage.clock.nowMs();
      const wallOffsetMs = slaMinutes === null ? nowWallMs : sinceWallMs + slaMinutes * 60_000 - deadlineMs;
      read.push({ number, items: open.items, requestBytes: byteLength, wallOffsetMs });
      texts.push(row.request);
      facts.push(body);
    }
    if (read.length === 0) return undefined;
    const tasks = placeTasks(read);
    const last = tasks.at(-1) as PostedTask; // there is one
    const bytes = new Uint8Array(last.start + last.requestBytes + 1).fill(0x0a);
    for (const [index, task] of tasks.entries()) bytes.set(texts[index] as Uint8Array, task.start);
    const block = { bytes, offset: 0, firstLine: 1, lineCount: last.firstLine + last.items - 1 };
    const terms = await this.terms(project);
    const measured = await core.measurer.measure(block, terms.options);
    const deadlineMs = Math.min(...parked.map((task) => task.deadlineMs));
    const cacheMs = agesOf(tasks.map(({ items }, index) => ({ items, cacheTtl: facts[index]?.cacheTtl })));
    return { project, deadlineMs, tasks, measured, factors: factorsOf(tasks, facts), terms, cacheMs };
  }

  /** Sends reopened items of a task of the group, numbered from 0. */
  async sendAgain(owner: PostedItems, task: PostedTask, items: readonly number[]): Promise<void> {
    const { log, core } = this.#options;
    const row = await log.log.rows.loggedTask(task.number);
    const { options } = await this.terms(owner.settings.project);
    const bytes = new Uint8Array(task.requestBytes + 1).fill(0x0a);
    bytes.set(row?.request ?? new Uint8Array());
    const block = { bytes, offset: task.start, firstLine: task.firstLine, lineCount: task.items };
    const measured = await core.measurer.measure(block, options);
    const lines = new Set(items.map((item) => task.firstLine + item));
    const tried = log.log.triedItems(task.number);
    for (const item of items) {
      const [line, made] = [task.firstLine + item, tried.get(item)];
      owner.items.done.delete(line);
      owner.items.made.delete(line);
      if (made !== undefined) owner.items.made.set(line, madeOf(made));
    }
    const kept: number[] = [];
    for (let item = 0; item < measured.count; item += 1)
      if (lines.has(measured.lines[item] as number)) kept.push(item);
    const rejected = measured.rejected.filter(({ line }) => lines.has(line));
    await this.send(owner, { ...pickItems(measured, kept), rejected });
  }

  /** Restores a group's items from the work log: ended items are done, and tried items keep their attempts. */
  restore(owner: PostedItems): void {
    const { log } = this.#options.log;
    for (const { number, items, firstLine } of owner.tasks) {
      const tried = log.triedItems(number);
      for (let item = 0; item < items; item += 1) {
        if (!log.isOpen(number, item)) owner.items.done.add(firstLine + item);
        const made = tried.get(item);
        if (made !== undefined) owner.items.made.set(firstLine + item, madeOf(made));
      }
    }
  }

  /** Under at_most_once, ends items whose request may have been answered. */
  #openItems(owner: PostedItems, measured: MeasuredBlock): MeasuredBlock {
    const { done, made } = owner.items;
    if (done.size === 0 && made.size === 0) return measured;
    const kept: number[] = [];
    for (let item = 0; item < measured.count; item += 1) {
      const line = measured.lines[item] as number;
      if (!owner.items.isOpen(line)) continue;
      if (this.#options.core.config.isAtMostOnce && made.get(line)?.isInDoubt === true) {
        owner.items.claimed.add(line);
        const end = { status: "failed", code: "ambiguous", message: DOUBTED } as const;
        owner.records.unsent(line, keyJsonOf(measured, item), {
          ...end,
          metadata: metadataJsonOf(measured, item),
        });
        continue;
      }
      kept.push(item);
    }
    return kept.length === measured.count ? measured : pickItems(measured, kept);
  }
}

function factorsOf(tasks: readonly PostedTask[], facts: readonly PostedFacts[]): readonly number[] {
  const factors: number[] = [];
  for (const [index, { items }] of tasks.entries()) {
    const { factors: own = 1 } = facts[index] ?? {};
    for (let item = 0; item < items; item += 1)
      factors.push(typeof own === "number" ? own : (own[item] ?? 1));
  }
  return factors;
}
