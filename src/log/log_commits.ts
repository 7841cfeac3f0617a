/**
 * The commits of the work log, one at a time: what is staged while one is under way makes the next.
 *
 *   idle -> due -> under way -> idle      due: when the events of this turn have been handled
 *   any -> failed                         a sync or the store failed
 *   any -> closed                         once nothing is staged any more
 *
 * Limit: 256 MiB of records and texts are staged at most; a caller above it is refused with `too_large`.
 */
import type { Clock, Timer } from "../clock.ts";
import { hasCode, PerigeeError } from "../errors.ts";
import { outputFailureOf } from "../store/outputs.ts";
import type { Store } from "../store/store.ts";
import type { LogCut, Restated } from "./log_cut.ts";
import type { LogNames } from "./log_names.ts";
import { LogOutputs } from "./log_outputs.ts";
import type { OpenWork, TaskSums } from "./open_work.ts";
import type { LogPlace, ReadLog } from "./read_log.ts";
import { bytesOfRecord, eachRecord, LogRecords, SUMS_ITEM, writeEntry } from "./records.ts";
import { StagedCommit } from "./staged_commit.ts";

const STAGED_BYTES_MAX = 256 << 20;
const EXPECTED_MS = 5;
/** Until finals that a full disk refused are staged again: nobody else does. */
const FINALS_AGAIN_MS = 1_000;
const NO_TEXT = new Uint8Array();

export interface LogCommitsOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** A task of several items is final, durably. */
  readonly onFinal?: ((task: number, sums: TaskSums) => void) | undefined;
  /** The output of a task takes no bytes (`outputs.ts` says why); its lines become answers until `release`. */
  readonly onHeldOutput?: ((task: number, error: unknown) => void) | undefined;
}

/** An entry that was committed. */
interface Committed {
  readonly entry: Uint8Array;
  readonly restated: Restated;
  readonly names: number;
}

export class LogCommits {
  readonly outputs: LogOutputs = new LogOutputs();
  readonly place: LogPlace;
  /** Called for each task of several items that is final, as `onFinal`. */
  readonly finalListeners: Set<(task: number, kind: number) => void> = new Set();
  readonly #options: LogCommitsOptions;
  readonly #work: OpenWork;
  readonly #names: LogNames;
  readonly #cut: LogCut;
  #staged: StagedCommit = new StagedCommit();
  #underWay: StagedCommit | undefined;
  #isDue = false;
  /** Callers that are about to stage more, and the end of the wait for them. */
  #expected = 0;
  #wait: Timer | undefined;
  #finalsAgain: Timer | undefined;
  /** What every later call is refused with. */
  #ended: PerigeeError | undefined;

  constructor(options: LogCommitsOptions, { work, names, cut, place }: ReadLog) {
    this.#options = options;
    this.#work = work;
    this.#names = names;
    this.#cut = cut;
    this.place = place;
    this.#stageFinals();
    this.#arm();
  }

  /** What is written in the next commit, which is due from now on; what is urgent waits for nothing that is expected. Throws `closed`, `store_failed`, `too_large`. */
  stage(isUrgent = false): StagedCommit {
    if (this.#ended !== undefined) throw this.#ended;
    if (this.#underWay !== undefined) this.#options.store.poll?.();
    if (this.#staged.byteLength > STAGED_BYTES_MAX)
      throw new PerigeeError("too_large", `more than ${STAGED_BYTES_MAX} bytes wait to be committed`);
    this.#staged.ask(isUrgent);
    if (isUrgent) this.#hurry();
    this.#arm();
    return this.#staged;
  }

  /** As `nextRow` of the work log. */
  get nextRow(): { readonly number: number; readonly createdWallMs: number } {
    return this.#staged.first ?? { number: this.place.nextTask, createdWallMs: Number.POSITIVE_INFINITY };
  }

  /** Whether an accepted task that is not committed yet has the id. */
  hasId(id: string): boolean {
    return this.#staged.hasId(id) || this.#underWay?.hasId(id) === true;
  }

  /** Whether it is about to be final. */
  isEnding(task: number): boolean {
    return this.#staged.finals.has(task) || this.#underWay?.finals.has(task) === true;
  }

  /** Resolves when a task whose end is being written has ended; also when that fails because the disk is full, as it is repeated later. */
  async untilEnded(task: number): Promise<void> {
    while (this.isEnding(task)) await this.stage().durable;
  }

  /** Resolves when all that was staged has been committed or refused. */
  async close(): Promise<void> {
    this.#ended ??= new PerigeeError("closed", "the work log is closed");
    this.#finalsAgain?.cancel();
    for (;;) {
      const last = this.#underWay ?? this.#staged;
      if (last.isEmpty || this.#hasFailed) return;
      if (this.#underWay === undefined) this.#arm();
      await last.durable.catch(() => undefined);
    }
  }

  /** More is about to be staged: a commit that is not urgent waits for it, for `EXPECTED_MS` at most. Returns how to end that, once. */
  expect(): () => void {
    this.#expected += 1;
    return () => {
      this.#expected -= 1;
      if (this.#expected === 0) this.#hurry();
    };
  }

  #arm(): void {
    if (this.#isDue || this.#underWay !== undefined) return;
    if (this.#staged.isEmpty && !this.#cut.isRestating) return;
    this.#isDue = true;
    this.#soon();
  }

  /** A turn later, so that who reacts to the last commit can say what to expect. */
  #soon(): void {
    const { clock } = this.#options;
    clock.soon(() => {
      if (this.#staged.isUrgent) this.#begin();
      else clock.soon(() => this.#beginOrWait());
    });
  }

  #beginOrWait(): void {
    if (this.#expected === 0 || this.#staged.isUrgent) this.#begin();
    else
      this.#wait = this.#options.clock.timer(EXPECTED_MS, () => {
        this.#wait = undefined;
        this.#begin();
      });
  }

  /** Nothing more is waited for. */
  #hurry(): void {
    if (this.#wait === undefined) return;
    this.#wait.cancel();
    this.#wait = undefined;
    this.#soon();
  }

  #begin(): void {
    this.#isDue = false;
    if (this.#hasFailed) return;
    this.#underWay = this.#staged;
    this.#staged = new StagedCommit();
    void this.#commit(this.#underWay); // it never rejects: it rejects the promises of its waiters
  }

  get #hasFailed(): boolean {
    return this.#ended !== undefined && !hasCode(this.#ended, "closed");
  }

  async #commit(staged: StagedCommit): Promise<void> {
    try {
      this.#take(await this.#write(staged));
    } catch (error) {
      this.#underWay = undefined;
      this.#refuse(staged, error);
      if (hasCode(error, "disk_full")) this.#stageFinalsLater();
      else this.#stageFinals();
      if (!this.#staged.isEmpty) this.#arm(); // not for what is only restated: the disk may be full
      return;
    }
    this.#underWay = undefined;
    this.#stageFinals();
    this.#arm();
    staged.committed();
    for (const [task, { sums, kind }] of staged.finals) {
      this.#options.onFinal?.(task, sums);
      for (const listener of this.finalListeners) listener(task, kind);
    }
  }

  /** Tries again without the lines of tasks whose output cannot be written. */
  async #write(staged: StagedCommit): Promise<Committed> {
    const { store, clock, onHeldOutput } = this.#options;
    const moment = clock.moment();
    const { sequence: lastSequence, firstSequence } = this.place;
    const restated = this.#cut.plan(this.#work, staged.records.byteLength, lastSequence, moment);
    const { cutTo } = restated;
    for (;;) {
      const wrote = new LogRecords(0);
      const outputs = staged.outputs((task) => this.#outputOf(task), wrote);
      const header = {
        firstSequence: cutTo > 0 ? cutTo + 1 : firstSequence,
        nextTask: this.place.nextTask,
        names: this.#names.count,
        moment,
      };
      const entry = writeEntry(header, [restated.records, staged.records, wrote]);
      const names = this.#names.unstored();
      const sequence = lastSequence + 1;
      try {
        await store.commitLog({ ...staged.rows(), outputs, names, sequence, records: entry.slice(), cutTo });
        this.#work.advance(moment);
        return { entry, restated, names: names.length };
      } catch (error) {
        const failure = outputFailureOf(error);
        if (failure?.operation !== "write") throw error;
        const task = Number(failure.taskId);
        this.outputs.hold(task);
        staged.holdLines(task);
        onHeldOutput?.(task, error);
      }
    }
  }

  #outputOf(task: number): { readonly file: ReturnType<LogOutputs["fileOf"]>; readonly position: number } {
    return { file: this.outputs.fileOf(task), position: this.#work.sumsOf(task).outBytes };
  }

  #take({ entry, restated: { cutTo }, names }: Committed): void {
    const { place } = this;
    place.sequence += 1;
    if (cutTo > 0) place.firstSequence = cutTo + 1;
    this.#names.stored(names);
    eachRecord(entry, (record) => this.#work.apply(record, place.sequence));
    this.#cut.committed(this.#work, entry.byteLength, cutTo);
  }

  /**
   * A task whose last item has ended is final in the next commit: its sums are known only now. Items that were tried and ended with the
   * rest get an answer without a text, which says what they took.
   */
  #stageFinals(): void {
    for (const task of this.#work.finished) {
      if (this.isEnding(task) || this.#staged.reopened.has(task)) continue;
      const sums = this.#work.sumsOf(task);
      this.#staged.records.add("final", { task });
      this.#staged.answer(task, SUMS_ITEM, bytesOfRecord("sums", { task, ...sums }), NO_TEXT);
      for (const [item, { ended }] of this.#work.triedItems(task))
        if (ended !== undefined)
          this.#staged.answer(task, item, bytesOfRecord("attemptEnded", ended), NO_TEXT);
      this.#staged.finals.set(task, { sums, kind: this.#work.tasks.get(task)?.kind ?? 0 });
    }
  }

  #stageFinalsLater(): void {
    if (this.#work.finished.size === 0) return;
    const again = (): void => {
      this.#finalsAgain = undefined;
      if (this.#ended !== undefined) return; // the next process does
      this.#stageFinals();
      this.#arm();
    };
    this.#finalsAgain ??= this.#options.clock.timer(FINALS_AGAIN_MS, again, { keepsAlive: false });
  }

  #refuse(staged: StagedCommit, error: unknown): void {
    const isOver = hasCode(error, "disk_full") || hasCode(error, "conflict") || hasCode(error, "usage");
    if (isOver) {
      staged.refuse(error);
      return;
    }
    const failure =
      error instanceof PerigeeError && outputFailureOf(error) === undefined
        ? error
        : new PerigeeError("store_failed", "a commit of the work log failed in an unknown state", {
            cause: error,
          });
    if (!this.#hasFailed) this.#ended = failure;
    staged.refuse(failure);
    this.#staged.refuse(failure);
  }
}
