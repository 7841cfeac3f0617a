/**
 * The lots of a data folder: begins them, continues them after a restart, ends them, and finds them again.
 *
 *   open (always in memory) -> over (kept in memory while few and small; else read from the store again)
 *
 * A lot runs when its turn comes (lot_turns.ts). A lot without sla begins at once, as does one whose deadline has passed or whose task
 * was cancelled, to end its lines.
 *
 * The end of a lot: its run is over -> the listeners of its tasks have finished -> stored as over.
 */
import type { Timer } from "../../clock.ts";
import type { EngineCore } from "../../engine/core.ts";
import type { Engine } from "../../engine/engine.ts";
import { bodyOf } from "../../engine/files/moved_task.ts";
import { decodeBody } from "../../engine/files/task_body.ts";
import { countingEntries } from "../../engine/files/task_journal.ts";
import type { Summary } from "../../engine/items/progress.ts";
import { readStep, stampOf } from "../../engine/journal/journal.ts";
import type { Run } from "../../engine/runs/run.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import type { Cap } from "../../price/budget.ts";
import { Release } from "../../release.ts";
import { EVERY_PROJECT } from "../../store/records.ts";
import { LINE_FIELDS } from "../../work/line_layout.ts";
import type { TaskBacklog } from "../usage/backlog.ts";
import type { Spending } from "../usage/spending.ts";
import { LastLots } from "./last_lots.ts";
import { isLostInput, lostHold, lostNotice } from "./lost_input.ts";
import { Lot, type LotInput, type LotLines, type LotListeners, type TaskLines } from "./lot.ts";
import { acceptanceOf, deadlineMsOf, shownWallMs } from "./lot_deadline.ts";
import { LOTS, type LotRecord, lotRunName, lotToRecord, OPEN_LOTS, recordToLot } from "./lot_record.ts";
import { isCancelled, LotTurns } from "./lot_turns.ts";
import { OverLots } from "./over_lots.ts";
import { RateCards } from "./rate_cards.ts";
import { CANCELS } from "./task_record.ts";
import { UnreadLots } from "./unread_lots.ts";
import { HELD_WAIT_MS } from "./until_final.ts";

/** Lots read at a time: a shared lot names up to 4,096 tasks. */
const PAGE = 16;
const RETRY_MS = 60_000;

export interface LotsOptions {
  readonly engine: Engine;
  readonly core: Pick<EngineCore, "storage" | "config" | "sending">;
  readonly backlog: TaskBacklog;
  readonly spending: Pick<Spending, "capOf" | "onMonth" | "open">;
  readonly lines: LotLines;
  readonly listeners: LotListeners;
}

/** One for a store; each lot has one run at a time. */
export class Lots {
  readonly hasPosted: LotLines["hasPosted"];
  readonly #options: LotsOptions;
  readonly cards: RateCards;
  readonly #open = new Map<string, Lot>();
  readonly #over = new OverLots();
  readonly #last = new LastLots();
  readonly #turns = new LotTurns();
  readonly #unread: UnreadLots;
  #timer: Timer | undefined;
  /** Once it is closed, nothing begins any more. */
  readonly #release: Release;

  constructor(options: LotsOptions) {
    this.#options = options;
    this.hasPosted = options.lines.hasPosted;
    options.spending.onMonth(() => options.core.sending.holds.wake("cap_reached"));
    this.cards = new RateCards(options.core.storage, options.core.config.rateCard);
    this.#unread = new UnreadLots(options.core.storage.clock);
    this.#release = new Release(options.core.storage.clock, () => this.#endIdle());
    options.core.sending.backlog.countUnread((project, deadlineMs) => this.unreadItems(project, deadlineMs));
  }

  /** Open lots of earlier processes, in the order of creation. */
  async *stored(): AsyncGenerator<LotRecord> {
    const { store } = this.#options.core.storage;
    for (let after: string | undefined; ; ) {
      const query = { collection: OPEN_LOTS, limit: PAGE, ...(after === undefined ? {} : { after }) };
      const page = await store.records(EVERY_PROJECT, query);
      for (const record of page) yield recordToLot(record);
      after = page.at(-1)?.id;
      if (page.length < PAGE) return;
    }
  }

  /** Those of earlier processes are read: from now on lots run. */
  start(): void {
    this.#turns.start();
    this.#begin();
  }

  /** Adds an open lot; `sealed` begins it. `isRestored`: an earlier process may have worked on it. */
  add(record: LotRecord, isRestored = false): Lot {
    const lot = new Lot(record, this.pathOf(record));
    lot.isRestored = isRestored;
    lot.deadlineMs = deadlineMsOf(record, this.#options.core.storage.clock);
    lot.share = this.#options.backlog.share(record.project);
    if (this.#release.isForNothing) lot.endWait();
    this.#open.set(record.id, lot);
    this.#unread.add(lot);
    return lot;
  }

  /** The path of its lines. */
  pathOf(record: LotRecord): string {
    return this.#options.lines.pathOf(record);
  }

  /** A task waits for lines of a lot that has not begun. */
  join(lot: Lot, member: TaskLines): void {
    lot.add(member);
    this.#last.opened(lot, member);
  }

  /** Its lines are on the disk and stored: it runs as soon as its turn comes. */
  sealed(lot: Lot): void {
    this.#turns.add(lot);
    this.#begin();
  }

  /** Reports why a lot cannot continue, and repeats the step a minute later. */
  tryAgain(lot: Lot, error: unknown, step: () => void): void {
    if (this.#release.isClosed) return;
    this.#options.listeners.onFault(error, lot.record.id);
    const again = (): void => {
      if (!this.#release.isClosed) step();
    };
    const { clock } = this.#options.core.storage;
    const leftMs = lot.deadlineMs - clock.nowMs();
    const delayMs = leftMs > 0 ? Math.min(RETRY_MS, leftMs) : lot.lost !== undefined ? 0 : RETRY_MS;
    clock.timer(delayMs, again, { keepsAlive: false });
  }

  /** If a task's own lot waits for its turn, it begins at once, to end its lines. */
  cancelled(lot: Lot): void {
    if (this.#turns.isWaiting(lot)) this.#begin();
  }

  /** Its lines never became durable. */
  drop(lot: Lot): void {
    this.#open.delete(lot.record.id);
    lot.share?.release();
  }

  get openLots(): Iterable<Lot> {
    return this.#open.values();
  }

  /** The stored record of a lot, without reading how its lines ended. */
  async recordOf(id: string): Promise<LotRecord> {
    const open = this.#open.get(id);
    if (open !== undefined) return open.record;
    const known = this.#over.get(id);
    return known === undefined ? this.#readRecord(id) : (await known).record;
  }

  /** Throws `store_failed` if the lot does not exist, because a task names it. */
  async find(id: string): Promise<Lot> {
    const open = this.#open.get(id);
    if (open !== undefined) return this.#restored(open);
    const known = this.#over.get(id);
    if (known !== undefined) return known;
    const record = await this.#readRecord(id);
    const again = this.#over.get(id);
    if (again !== undefined) return again;
    const loading = this.#load(record);
    this.#over.keep(id, loading, record.lines);
    return loading;
  }

  /** The lot was erased. */
  forget(id: string): void {
    this.#over.forget(id);
  }

  /** Accepted items that no run has read yet, in lots with a deadline (monotonic) up to this one. */
  unreadItems(project: string, deadlineMs: number): number {
    return this.#unread.items(project, deadlineMs, this.#open.values());
  }

  /** Nothing is sent any more: nobody waits for lots of which nothing is in flight. May be called twice. */
  release(): void {
    this.#release.release();
  }

  /** Nobody waits for any lot from now on. May be called twice, and without `release`. */
  releaseAll(): void {
    if (this.#release.isClosed) return;
    this.#release.releaseAll();
    for (const lot of this.#open.values()) lot.endWait();
  }

  close(): void {
    this.#release.close();
    this.#timer?.cancel();
  }

  #endIdle(): void {
    for (const lot of this.#open.values()) if ((lot.run?.look().inFlight ?? 0) === 0) lot.endWait();
  }

  #begin(): void {
    this.#timer?.cancel();
    if (this.#release.isClosed) return;
    const nowMs = this.#options.core.storage.clock.nowMs();
    const { lots, nextMs } = this.#turns.take(nowMs);
    for (const lot of lots) void this.#answer(lot).finally(() => this.#ended(lot));
    if (nextMs < Number.POSITIVE_INFINITY)
      this.#timer = this.#options.core.storage.clock.timer(nextMs - nowMs, () => this.#begin(), {
        keepsAlive: false,
      });
  }

  #ended(lot: Lot): void {
    this.#turns.ended(lot);
    this.#begin();
  }

  /** Never rejects: failed steps are repeated, by the next process at the latest. */
  async #answer(lot: Lot): Promise<void> {
    try {
      const isAnswered = await this.#isAnswered(lot);
      const input = await this.#options.lines.inputOf(lot);
      const run = this.#run(lot, input, await this.#options.spending.capOf(lot.record.project));
      lot.begin(run);
      if (isAnswered) await this.#replay(lot); // a run that is over does not repeat its steps
      lot.out = (await run.opened).out;
      if (input.path === lot.path) lot.lost = undefined; // its lines are back
      const summary = await this.#follow(lot, run);
      lot.endWait();
      if (summary.status !== "completed") return; // the engine closes
      await this.#end(lot, summary);
    } catch (error) {
      lot.endWait();
      if (this.#release.isClosed || hasCode(error, "closed")) return;
      lot.leave();
      const { clock, notice } = this.#options.core.storage;
      const isLost = isLostInput(error);
      if (isLost && lot.lost === undefined) notice(lostNotice(lot));
      lot.lost = isLost ? lostHold(lot, clock.wallMs(), RETRY_MS) : undefined;
      lot.version += 1;
      this.tryAgain(lot, error, () => this.sealed(lot));
    } finally {
      lot.end();
    }
  }

  /** Whether a crash occurred after its run was over and before the lot was. */
  async #isAnswered({ record }: Lot): Promise<boolean> {
    const task = await this.#options.core.storage.store.taskByName(lotRunName(record.id));
    return task !== undefined && decodeBody(task.body).status === "completed";
  }

  #run(lot: Lot, { path, ...input }: LotInput, cap: Cap | undefined): Run {
    const { engine } = this.#options;
    const { id, project, slaMinutes, volumeTokens, maxCostUsd, taskId, keepsBodies, schema, cacheTtl } =
      lot.record;
    const { cache } = this.#options.core.config;
    return engine.run(path, {
      ...input,
      id: `lot:${id}`,
      accepted: acceptanceOf(lot.record),
      volumeTokens,
      ...(slaMinutes === null ? { waitMs: HELD_WAIT_MS } : { sla: slaMinutes }), // the callers stop waiting; the items continue
      ...(maxCostUsd === undefined ? {} : { maxCostUsd }),
      ...(cap === undefined ? {} : { caps: [cap] }),
      rateCard: this.cards.of(lot.record),
      project,
      ...(taskId === undefined ? { skip: (line: number) => lot.isSkipped(line) } : {}),
      ...(keepsBodies === true ? { fields: LINE_FIELDS } : {}),
      ...(schema === undefined ? {} : { schema }),
      ...(cacheTtl === undefined || cache === undefined
        ? {}
        : { cache: { dir: cache.dir, ttl: cacheTtl, maxBytes: cache.maxBytes } }),
      keepsDamage: true,
      ...(path === lot.path || lot.lost === undefined ? {} : { skip: () => true, standIn: lot.lost }),
      onHeld: () => lot.endWait(),
      onStep: (sequence, step, at) => {
        this.#tell(lot, lot.apply(sequence, step, at));
        if (lot.isLive) lot.share?.settle(step.outcomes.length);
        if (lot.isLive) lot.count(this.#options.spending.open);
      },
    });
  }

  async #follow(lot: Lot, run: Run): Promise<Summary> {
    const itemsOf = (member: TaskLines): number =>
      lot.record.taskId === undefined ? member.lines : lot.record.items;
    this.#tell(lot, lot.goLive(itemsOf));
    lot.count(this.#options.spending.open);
    lot.share?.setItems(lot.members.reduce((sum, { open }) => sum + open, 0));
    if (isCancelled(lot)) void run.cancel();
    return run.finished;
  }

  /** Also for a task that was cancelled: its unsent objects are final although its run continues. */
  finished(lot: Lot, members: readonly TaskLines[]): void {
    this.#tell(lot, members);
  }

  #tell(lot: Lot, members: readonly TaskLines[]): void {
    for (const member of members) {
      member.whenFinal?.();
      if (member.isTold === true) continue;
      if (member.isTold === undefined && !this.#last.isLast(lot, member, (id) => this.#open.get(id)))
        continue;
      member.isTold = true;
      const { project } = lot.record;
      const told = this.#options.listeners.onFinished({ project, taskId: member.taskId }, lot);
      told.catch(() => {
        member.isTold = false; // the lot does not end now, and notifies again on its next try
      });
      lot.telling.push(told);
    }
  }

  async #end(lot: Lot, summary: Summary): Promise<void> {
    const { core } = this.#options;
    this.#tell(lot, lot.members);
    const told = await Promise.allSettled(lot.telling.splice(0));
    for (const one of told) if (one.status === "rejected") throw one.reason;
    const { usage, cost } = summary;
    const { completed, failed, expired, cancelled } = summary.counts;
    const over = {
      finishedWallMs: lot.times.last ?? shownWallMs(lot.record, core.storage.clock.moment()),
      runTaskId: summary.task_id,
      counts: { completed, failed, expired, cancelled },
      unreadable: lot.unreadable,
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      listUsd: cost.list_usd,
      usd: cost.usd,
      billedUsd: cost.billed_usd,
      ambiguousUsd: cost.ambiguous_usd,
    };
    await this.#options.listeners.onUsed(lot, over, completed + failed + expired + cancelled);
    const { works = [], ...rest } = lot.record;
    const record = { ...rest, ...(rest.taskId === undefined ? {} : { works }), over };
    await core.storage.room.waitFor(() =>
      core.storage.store.change([
        { kind: "delete", collection: OPEN_LOTS, id: record.id },
        { kind: "deleteOf", collection: CANCELS, parent: record.id },
        { kind: "put", record: lotToRecord(record) },
      ]),
    );
    lot.record = record;
    lot.version += 1;
    this.#open.delete(record.id);
    lot.share?.release();
    this.#over.keep(record.id, Promise.resolve(lot), record.lines);
    await this.#options.listeners.onOver(lot);
  }

  async #readRecord(id: string): Promise<LotRecord> {
    const found = await this.#options.core.storage.store.record(EVERY_PROJECT, LOTS, id);
    if (found === undefined) throw new PerigeeError("store_failed", `lot ${id} is missing`);
    return recordToLot(found);
  }

  async #load(record: LotRecord): Promise<Lot> {
    const lot = new Lot(record, this.pathOf(record));
    await this.#replay(lot);
    return lot;
  }

  /** Applies earlier steps first, so that no result that an earlier run reported is withdrawn. */
  async #restored(lot: Lot): Promise<Lot> {
    while (lot.isRestored) {
      const { run } = lot;
      if (run === undefined) lot.reading ??= this.#replay(lot);
      await (run === undefined ? lot.reading : lot.live);
      if (lot.run === run) break; // else it began or failed meanwhile
    }
    return lot;
  }

  async #replay(lot: Lot): Promise<void> {
    const { store } = this.#options.core.storage;
    const { reads } = lot;
    const task = await store.taskByName(lotRunName(lot.record.id));
    if (task === undefined) return;
    for await (const entry of countingEntries(store, task.id, decodeBody(task.body))) {
      if (lot.reads !== reads) return; // begun meanwhile: the run repeats the same steps
      lot.apply(entry.sequence, readStep(entry.records), stampOf(entry));
    }
    lot.out = bodyOf(this.#options.core.storage, task).out;
  }
}
