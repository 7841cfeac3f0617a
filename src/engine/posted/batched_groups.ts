/**
 * Groups of posted tasks whose items go with batches: an owner that outlives its process.
 *
 *   read from the work log -> too few for a batch, or a batch has no time -> a group as others
 *                          -> recorded -> its items go to their lanes, which send them with batches -> all ended -> no record
 *   start: recorded, with batches -> the same lines again: what is with a batch stays there, the rest of those tasks is measured again;
 *                                    tasks without an item in a batch are parked
 *          recorded, without      -> no record, all its tasks are parked
 *
 * So after a crash at any step an item is either of a batch that is recorded, or in the work log alone.
 *
 * Limit: `BATCHED_ITEMS_MAX` items in such groups; further ones go as before.
 */
import { randomUUID } from "node:crypto";
import type { WorkKind } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { requestShareOf } from "../../shard/joined_body.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import { EVERY_PROJECT, type StoredRecord } from "../../store/records.ts";
import { LineSet } from "../../work/line_set.ts";
import type { EndpointKind } from "../../work/request.ts";
import { overAtMs } from "../../work/sla.ts";
import { type BatchRecord, linesIn } from "../batches/batch_record.ts";
import { batchRecords } from "../batches/batch_records.ts";
import type { EngineCore } from "../core.ts";
import { foreseesBatch } from "../plans/batched_work.ts";
import { type CountedWork, CountedWorks } from "../plans/counted_work.ts";
import type { PostedGroup, PostedGroups } from "./posted_groups.ts";
import { type PostedItems, type PostedTask, placeTasks } from "./posted_items.ts";
import { madeOf } from "./tried_items.ts";

/** The collection of records of groups. */
export const POSTED_GROUPS = "posted_group";

/** A task of a group: what its lines need. */
interface GroupTask {
  /** Its number in the work log. */
  readonly number: number;
  readonly items: number;
  /** Of its request in its row. */
  readonly requestBytes: number;
  /** Unix time of its deadline, by the clock that promised it. */
  readonly promisedWallMs: number;
}

/** The durable record of a group: which lines the items of its tasks are, because batches name lines of their owner. */
export interface GroupRecord {
  /** The owner's, which its batches name. */
  readonly id: string;
  readonly project: string;
  readonly kind: WorkKind;
  /** In the order of their lines, which begin at 1. */
  readonly tasks: readonly GroupTask[];
  /** Price factors, by line; one number for all of them. */
  readonly factors: number | readonly number[];
}

const BATCHED_ITEMS_MAX = 200_000;
/** How long it is known whether posts would go with a batch. */
const KNOWN_MS = 1_000;
const PAGE = 16;

type BatchingCore = Pick<EngineCore, "config" | "sending" | "storage">;

/** A group of an earlier process. */
export interface EarlierGroup {
  readonly record: GroupRecord;
  /** Lines that are with batches. */
  readonly lines: LineSet;
  readonly batches: readonly Pick<BatchRecord, "model" | "lines" | "mostUsd">[];
}

/** One for a kind of tasks of an engine. */
export class BatchedGroups {
  readonly #core: BatchingCore;
  readonly #log: WorkLog;
  readonly #kind: WorkKind;
  /** By project, model, what is asked of it, and window. */
  readonly #known = new Map<string, boolean>();
  #knownUntilMs = 0;

  constructor(core: BatchingCore, log: WorkLog, kind: WorkKind) {
    this.#core = core;
    this.#log = log;
    this.#kind = kind;
  }

  /** Whether anything goes with batches here. */
  get isPossible(): boolean {
    const { batch, deferred } = this.#core.sending.remoteWires;
    return batch.size + deferred.size > 0;
  }

  /** Whether posts of this window (Infinity without an sla) would go with a batch, if enough came together. Hot: asked four times a second and window. */
  isWorthWaiting(project: string, windowMs: number, measured: MeasuredBlock): boolean {
    if (windowMs === Number.POSITIVE_INFINITY || !this.isPossible) return false;
    const nowMs = this.#core.storage.clock.nowMs();
    if (nowMs >= this.#knownUntilMs) this.#known.clear();
    if (this.#known.size === 0) this.#knownUntilMs = nowMs + KNOWN_MS;
    const { minItems } = this.#core.config.lanes;
    for (const { model, ...load } of loadsOf(measured, this.#core)) {
      const key = `${windowMs} ${load.endpoints.join()} ${model} ${project}`;
      const share = minItems / load.items;
      const [inputTokens, outputTokens] = [load.inputTokens * share, load.outputTokens * share];
      const { endpoints } = load;
      const deadlineMs = nowMs + windowMs;
      const coming = { model, endpoints, items: minItems, inputTokens, outputTokens, deadlineMs };
      const isKnown = this.#known.get(key) ?? foreseesBatch(this.#core, project, coming);
      this.#known.set(key, isKnown);
      if (isKnown) return true;
    }
    return false;
  }

  /**
   * The group as it is, or with a record that is durable. `batchedItems`: those of other groups. Resolves in any case: what cannot be recorded
   * has no batch.
   */
  async begun(group: PostedGroup, batchedItems: number): Promise<PostedGroup> {
    const { project, deadlineMs, measured } = group;
    const isFull = batchedItems + measured.count > BATCHED_ITEMS_MAX;
    if (deadlineMs === Number.POSITIVE_INFINITY || isFull || !this.isPossible) return group;
    const { config, storage } = this.#core;
    const isBatched = loadsOf(measured, this.#core).some(
      (load) =>
        load.items >= config.lanes.minItems && foreseesBatch(this.#core, project, { ...load, deadlineMs }),
    );
    if (!isBatched) return group;
    const record = this.#recordOf(group);
    const { clock, store } = storage;
    try {
      await store.change([{ kind: "insert", record: storedGroup(record, clock.wallMs()) }]);
      return { ...group, batchedAs: record.id };
    } catch {
      return group;
    }
  }

  /** Models of which it has too few items for a batch get none. */
  limit({ items, models }: PostedItems): void {
    const counts = new Map<string, number>();
    for (const model of models) counts.set(model, (counts.get(model) ?? 0) + 1);
    for (const [index, model] of models.entries())
      if ((counts.get(model) ?? 0) < this.#core.config.lanes.minItems) items.notBatched.add(index + 1);
  }

  /** Groups of earlier processes that have batches; removes the records of others. */
  async earlier(): Promise<EarlierGroup[]> {
    const { store } = this.#core.storage;
    const found: EarlierGroup[] = [];
    const over: string[] = [];
    for (let after: string | undefined; ; ) {
      const query = { collection: POSTED_GROUPS, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const page = await store.records(EVERY_PROJECT, query);
      for (const record of page.map(readGroup)) {
        if (record.kind !== this.#kind) continue;
        const group = await this.#withLines(record);
        if (group === undefined) over.push(record.id);
        else found.push(group);
      }
      after = page.at(-1)?.id;
      if (page.length < PAGE) break;
    }
    for (const id of over) await this.#remove(id).catch(() => undefined); // at the next start, then
    return found;
  }

  /** Undefined if it has no batches. */
  async find(id: string): Promise<EarlierGroup | undefined> {
    const stored = await this.#core.storage.store.record(EVERY_PROJECT, POSTED_GROUPS, id);
    return stored === undefined ? undefined : this.#withLines(readGroup(stored));
  }

  /** Its owner, whose items are with batches or fresh; tasks without an item in a batch are done for it. */
  async restored({ record, lines, batches }: EarlierGroup, groups: PostedGroups): Promise<PostedItems> {
    const { clock } = this.#core.storage;
    const { project, id: batchedAs } = record;
    let deadlineMs = Number.POSITIVE_INFINITY;
    const placed = record.tasks.map(({ number, items, requestBytes, promisedWallMs }) => {
      const open = this.#log.task(number);
      const dueMs = open === undefined ? clock.nowMs() : overAtMs(clock, open.deadlineMs);
      return { number, items, requestBytes, wallOffsetMs: promisedWallMs - dueMs, dueMs };
    });
    const tasks = placeTasks(placed);
    for (const [index, task] of tasks.entries())
      if (this.#log.has(task.number) && hasLine(lines, task))
        deadlineMs = Math.min(deadlineMs, placed[index]?.dueMs ?? deadlineMs);
    if (deadlineMs === Number.POSITIVE_INFINITY) deadlineMs = clock.nowMs();
    const count = tasks.reduce((sum, { items }) => sum + items, 0);
    const { factors: own } = record;
    const factors = typeof own === "number" ? new Array<number>(count).fill(own) : own;
    const terms = await groups.terms(project);
    const group = { project, deadlineMs, tasks, measured: NOTHING_MEASURED, factors, terms, batchedAs };
    const owner = groups.open(group);
    for (const task of tasks) this.#restoreTask(owner, task, lines);
    for (const batch of batches)
      for (const line of linesIn(batch.lines)) owner.models[line - 1] = batch.model;
    return owner;
  }

  /** An owner has left: once nothing is left of its batches, its record goes. */
  async left(owner: PostedItems): Promise<void> {
    const { batches } = this.#core.sending;
    await batches.stored(owner);
    await batches.over(owner);
    if ((await this.find(owner.id)) === undefined) await this.#remove(owner.id);
  }

  /** Items of a task that are with batches are under way from here on: they do not end with the rest of their task. */
  holdBatched(owner: PostedItems, { number, firstLine, items }: PostedTask): void {
    const tried = this.#log.triedItems(number);
    for (const line of this.#core.sending.batches.linesOf(owner)) {
      const item = line - firstLine;
      if (item < 0 || item >= items || !this.#log.isOpen(number, item)) continue;
      if ((tried.get(item)?.intents.length ?? 0) > 0) continue;
      const attempt = (owner.items.made.get(line)?.attempts ?? 0) + 1;
      owner.records.intentAgain({ ...NOTHING_MEANT, line, attempt }); // its batch says what it may cost
    }
  }

  #restoreTask(owner: PostedItems, task: PostedTask, lines: LineSet): void {
    const { number, firstLine, items } = task;
    const isHere = this.#log.has(number) && hasLine(lines, task);
    const tried = this.#log.triedItems(number);
    task.isCancelled = (this.#log.task(number)?.restStatus ?? 0) !== 0;
    for (let item = 0; item < items; item += 1) {
      const line = firstLine + item;
      if (!isHere || !this.#log.isOpen(number, item)) owner.items.done.add(line);
      const made = tried.get(item);
      if (made === undefined || owner.items.done.has(line)) continue;
      const intents = lines.has(line) ? [] : made.intents;
      if (made.ended !== undefined || intents.length > 0)
        owner.items.made.set(line, madeOf({ ...made, intents }));
    }
  }

  #recordOf({ project, tasks, factors }: PostedGroup): GroupRecord {
    const { clock } = this.#core.storage;
    const [factor = 1] = factors;
    return {
      id: `posted-${randomUUID()}`,
      ...{ project, kind: this.#kind },
      tasks: tasks.map(({ number, items, requestBytes, wallOffsetMs }) => {
        const deadlineMs = overAtMs(clock, this.#log.task(number)?.deadlineMs ?? clock.wallMs());
        return { number, items, requestBytes, promisedWallMs: Math.round(wallOffsetMs + deadlineMs) };
      }),
      factors: factors.every((each) => each === factor) ? factor : factors,
    };
  }

  async #withLines(record: GroupRecord): Promise<EarlierGroup | undefined> {
    const lines = new LineSet(0);
    const batches: EarlierGroup["batches"][number][] = [];
    for await (const batch of batchRecords(this.#core.storage.store, record.id)) {
      batches.push({ model: batch.model, lines: batch.lines, mostUsd: batch.mostUsd });
      for (const line of linesIn(batch.lines)) lines.add(line);
    }
    return batches.length === 0 ? undefined : { record, lines, batches };
  }

  #remove(id: string): Promise<void> {
    return this.#core.storage.store.change([{ kind: "delete", collection: POSTED_GROUPS, id }]);
  }
}

/** Whether an item of a task is with a batch. */
export function hasLine(
  lines: LineSet,
  { firstLine, items }: Pick<PostedTask, "firstLine" | "items">,
): boolean {
  return lines.countWithin(firstLine, firstLine + items - 1) > 0;
}

/** What its items take: of each model, and of each endpoint of a model, since a batch has one. */
function loadsOf(
  measured: MeasuredBlock,
  { sending: { sender } }: Pick<BatchingCore, "sending">,
): readonly CountedWork[] {
  const { count, groups, groupOf, inputTokens, maxOutputTokens } = measured;
  const works = new Map<EndpointKind | undefined, CountedWorks>();
  for (let item = 0; item < count; item += 1) {
    const { model = "", endpoint: kind } = groups[groupOf[item] as number] ?? {};
    const own = works.get(kind) ?? new CountedWorks(sender.loads);
    works.set(kind, own);
    own.add({
      ...{ model, kind, requests: requestShareOf(measured, item) },
      inputTokens: inputTokens[item] as number,
      maxOutputTokens: maxOutputTokens[item] as number,
    });
  }
  return [...works.values()].flatMap(({ all }) => all);
}

const NOTHING_MEANT = {
  ...{ offset: 0, lengthBytes: 0, ambiguousAttempts: 0 },
  ...{ inputTokens: 0, outputTokens: 0, mostUsd: 0 },
};

const NOTHING_MEASURED: MeasuredBlock = {
  ...{ count: 0, groups: [], rejected: [], warningLists: [], blankLines: 0 },
  ...{ lines: new Uint32Array(), offsets: new Float64Array(), lengths: new Uint32Array() },
  ...{ inputTokens: new Uint32Array(), maxOutputTokens: new Uint32Array(), most: new Uint32Array() },
  ...{ groupOf: new Uint16Array(), warnings: new Uint16Array() },
  ...{ keys: new Uint8Array(), keyEnds: new Uint32Array() },
  ...{ bodies: new Uint8Array(), bodyEnds: new Uint32Array() },
};

type TaskRow = readonly [number: number, items: number, requestBytes: number, promisedWallMs: number];

/** As it is stored. */
function storedGroup(
  { id, project, kind, tasks, factors }: GroupRecord,
  createdWallMs: number,
): StoredRecord {
  const rows = tasks.map(
    ({ number, items, requestBytes, promisedWallMs }): TaskRow => [
      number,
      items,
      requestBytes,
      promisedWallMs,
    ],
  );
  const body = JSON.stringify({ kind, tasks: rows, factors });
  return { collection: POSTED_GROUPS, id, project, parent: "", createdWallMs, body };
}

/** What `storedGroup` has stored. */
function readGroup({ id, project, body }: StoredRecord): GroupRecord {
  const { kind, tasks, factors } = JSON.parse(body) as Pick<GroupRecord, "kind" | "factors"> & {
    readonly tasks: readonly TaskRow[];
  }; // written by `storedGroup` only
  const all = tasks.map(([number, items, requestBytes, promisedWallMs]) => {
    return { number, items, requestBytes, promisedWallMs };
  });
  return { id, project, kind, tasks: all, factors };
}
