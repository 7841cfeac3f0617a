/**
 * What submitted lists took under the cap of their engine: one sum for each name of a cap, which outlives the lists.
 *
 *   final (work log) -> counted: its money is in the sum, and the sum says up to which entry of the log -> forgotten by the log
 *   final -> the process is killed -> counted by the next one, before anything is sent
 *   counted -> run again: from then on only what it takes more is counted
 *
 * So every list counts once, under the cap that its engine had when it ended, whatever the next engine has. Lists that end in an engine without a
 * cap are not counted.
 */
import type { Timer } from "../../clock.ts";
import { WORK_KINDS } from "../../log/work_kinds.ts";
import type { WorkLog } from "../../log/work_log.ts";
import type { RecordChange } from "../../store/records.ts";
import type { EngineCore } from "../core.ts";
import { type PostedRecord, rowToPosted } from "../posted/posted_record.ts";

const RECORD = { project: "", collection: "list_money", id: "lists", parent: "", createdWallMs: 0 };
/** Until lists that have ended are written together, and until they are written again after a failure. */
const WRITE_MS = 250;
const AGAIN_MS = 1_000;

/** The sums. */
interface StoredSums {
  /** Lists that became final up to this entry of the log are in them, or need not be. */
  readonly upTo: number;
  /** The cap of the engine that wrote it, under which later lists count; absent: it had none. */
  readonly cap?: string | undefined;
  /** In USD, by the name of the cap. */
  readonly takenUsd: Readonly<Record<string, number>>;
}

type MoneyCore = Pick<EngineCore, "config" | "storage">;

/** One for the lists of an engine. */
export class ListMoney {
  readonly #core: MoneyCore;
  readonly #log: WorkLog;
  readonly #cap: string | undefined;
  #sums: StoredSums;
  #writing: Promise<void> | undefined;
  #timer: Timer | undefined;

  private constructor(core: MoneyCore, log: WorkLog, sums: StoredSums) {
    this.#core = core;
    this.#log = log;
    this.#cap = core.config.cap?.name;
    this.#sums = sums;
  }

  /** Counts what earlier processes left; call it before anything is sent. */
  static async open(core: MoneyCore, log: WorkLog): Promise<ListMoney> {
    const record = await core.storage.store.record(RECORD.project, RECORD.collection, RECORD.id);
    const stored = record === undefined ? undefined : (JSON.parse(record.body) as StoredSums); // written below
    const money = new ListMoney(core, log, stored ?? { upTo: 0, takenUsd: {} });
    await money.#open(stored === undefined);
    return money;
  }

  /** In USD: what all lists took that ended under the engine's cap, removed ones included, and open ones so far, with requests in doubt. */
  async takenUsd(): Promise<number> {
    if (this.#cap === undefined) return 0;
    let usd = this.#sums.takenUsd[this.#cap] ?? 0;
    for (const { number, kind } of [...this.#log.openTasks()]) {
      if (kind !== WORK_KINDS.list) continue;
      const taken = this.#log.takenOf(number);
      usd += taken.billedUsd + taken.ambiguousUsd + (await this.#newUsdOf(number));
      for (const { intents } of this.#log.triedItems(number).values())
        for (const { mostUsd } of intents) usd += mostUsd;
    }
    return usd;
  }

  /** A list is final, durably. */
  ended(number: number): void {
    if (this.#cap === undefined) this.#log.ended.lists.delete(number);
    else this.#later(WRITE_MS);
  }

  /** Resolves when a final list is counted; rejects as the store does. Before it is run again or removed. */
  async counted(number: number): Promise<void> {
    while (this.#cap !== undefined && this.#log.ended.lists.get(number) !== undefined) await this.#write();
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** `isFirst`: no process has written sums, as those of earlier versions did not. */
  async #open(isFirst: boolean): Promise<void> {
    const { lists } = this.#log.ended;
    const { upTo, cap } = this.#sums;
    lists.forget(upTo);
    const [, last = upTo] = [...lists].at(-1) ?? [];
    if (cap !== undefined) await this.#write();
    lists.forget(last); // without a cap, nothing of them counts
    if (cap === this.#cap && !(isFirst && this.#cap !== undefined)) return;
    const takenUsd = { ...this.#sums.takenUsd };
    if (isFirst && this.#cap !== undefined) takenUsd[this.#cap] = await this.#notedUsd();
    await this.#store({ upTo: Math.max(this.#sums.upTo, last), cap: this.#cap, takenUsd });
  }

  /** What open lists took before they were run again: an earlier version counted all of an open list. */
  async #notedUsd(): Promise<number> {
    let usd = 0;
    for (const { number, kind } of [...this.#log.openTasks()])
      if (kind === WORK_KINDS.list) usd += notedUsdOf(await this.#recordOf(number));
    return usd;
  }

  /** What its ended items took since it was last run again, in USD. */
  async #newUsdOf(number: number): Promise<number> {
    const sums = await this.#log.sumsOf(number);
    const usd = (sums?.billedUsd ?? 0) + (sums?.ambiguousUsd ?? 0);
    return usd === 0 ? 0 : Math.max(0, usd - notedUsdOf(await this.#recordOf(number)));
  }

  async #recordOf(number: number): Promise<PostedRecord | undefined> {
    const row = await this.#log.rows.loggedTask(number);
    return row === undefined ? undefined : rowToPosted(this.#log, row);
  }

  #later(delayMs: number): void {
    this.#timer ??= this.#core.storage.clock.timer(
      delayMs,
      () => {
        this.#timer = undefined;
        this.#write().catch(() => this.#later(AGAIN_MS));
      },
      { keepsAlive: false },
    );
  }

  /** Counts all lists that are final by now. One write at a time. */
  async #write(): Promise<void> {
    if (this.#writing !== undefined) return this.#writing;
    this.#writing = this.#writeEnded().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeEnded(): Promise<void> {
    const { cap, takenUsd } = this.#sums;
    const ended = [...this.#log.ended.lists]; // all of an entry become final in one turn
    const [, last] = ended.at(-1) ?? [];
    if (cap === undefined || last === undefined) return;
    let usd = takenUsd[cap] ?? 0;
    for (const [number] of ended) usd += await this.#newUsdOf(number);
    await this.#store({ upTo: last, cap, takenUsd: { ...takenUsd, [cap]: usd } });
    this.#log.ended.lists.forget(last);
  }

  async #store(sums: StoredSums): Promise<void> {
    const { store, room } = this.#core.storage;
    const change: RecordChange = { kind: "put", record: { ...RECORD, body: JSON.stringify(sums) } };
    await room.answerFor(() => store.change([change]));
    this.#sums = sums;
  }
}

function notedUsdOf(record: PostedRecord | undefined): number {
  const { billedUsd = 0, ambiguousUsd = 0 } = record?.noted ?? {};
  return billedUsd + ambiguousUsd;
}
