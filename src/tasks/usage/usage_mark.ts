/**
 * Which posted tasks are in the sums of usage: all that are final in the work log up to an entry, and some after it. Stored with the
 * sums in one transaction, so after a crash each final task counts once.
 *
 *   final (log) -> noted -> stored with the sums -> forgotten by the log, once all that were final before it are stored
 */
import type { EndedTasks } from "../../log/ended_tasks.ts";
import type { RecordChange, RecordStore } from "../../store/records.ts";
import { takenUsd } from "./project_usage.ts";
import type { UnwrittenBatch } from "./unwritten_usage.ts";

/** A mark that is about to be stored. */
export interface NextMark {
  readonly change: RecordChange;
  /** The mark is durable. */
  taken(): void;
}

/** The posted tasks of a log. */
interface EndedLog {
  readonly ended: EndedTasks;
}

const MARK = { collection: "usage_mark", id: "posted", project: "", parent: "", createdWallMs: 0 } as const;

interface StoredMark {
  readonly upTo: number;
  /** Tasks that became final in later entries, with these entries. */
  readonly beyond: readonly (readonly [task: number, sequence: number])[];
  /** Money that noted tasks took under a cap of the engine, in USD, by the cap's name. */
  readonly takenUsd?: Readonly<Record<string, number>>;
}

const NOTHING: StoredMark = { upTo: 0, beyond: [] };

/** One for a store. */
export class UsageMark {
  readonly #log: EndedLog;
  #upTo: number;
  #beyond: ReadonlyMap<number, number>;
  readonly #cap: string | undefined;
  #takenUsd: Readonly<Record<string, number>>;

  private constructor(log: EndedLog, { upTo, beyond, takenUsd = {} }: StoredMark, cap: string | undefined) {
    this.#log = log;
    this.#cap = cap;
    this.#takenUsd = takenUsd;
    this.#upTo = upTo;
    this.#beyond = new Map(beyond);
  }

  /** Reads the mark of the last process. `cap`: the name of the engine's cap. */
  static async open(log: EndedLog, store: RecordStore, cap?: string): Promise<UsageMark> {
    const record = await store.record(MARK.project, MARK.collection, MARK.id);
    const stored = record === undefined ? NOTHING : (JSON.parse(record.body) as StoredMark); // written below
    log.ended.forget(stored.upTo);
    return new UsageMark(log, stored, cap);
  }

  /** Money that all tasks ever noted under the cap took, including removed ones, in USD. */
  get takenUsd(): number {
    return this.#cap === undefined ? 0 : (this.#takenUsd[this.#cap] ?? 0);
  }

  /** Final tasks that are not in the sums. */
  unnoted(): number[] {
    const tasks: number[] = [];
    for (const [task, sequence] of this.#log.ended) if (this.#beyond.get(task) !== sequence) tasks.push(task);
    return tasks;
  }

  /** The mark with these tasks, and what they took. */
  next({ tasks, days }: UnwrittenBatch): NextMark {
    const { ended } = this.#log;
    let last = this.#upTo;
    let firstOpen = Number.POSITIVE_INFINITY; // the first entry with a task that is not noted
    for (const [task, sequence] of ended) {
      const isNoted = tasks.has(task) || this.#beyond.get(task) === sequence;
      if (!isNoted) firstOpen = sequence;
      if (!isNoted) break;
      last = sequence;
    }
    const upTo = Math.max(this.#upTo, Math.min(last, firstOpen - 1));
    const beyond = new Map<number, number>();
    if (firstOpen !== Number.POSITIVE_INFINITY)
      for (const task of [...this.#beyond.keys(), ...tasks]) {
        const sequence = ended.get(task) ?? 0; // 0: opened again; its later use is noted later
        const isNoted = tasks.has(task) || this.#beyond.get(task) === sequence;
        if (isNoted && sequence > upTo) beyond.set(task, sequence);
      }
    const used = [...days.values()].flatMap((each) => [...each.values()]);
    const usd = used.reduce((sum, usage) => sum + takenUsd(usage), this.takenUsd);
    const takenBy = this.#cap === undefined ? this.#takenUsd : { ...this.#takenUsd, [this.#cap]: usd };
    const body = JSON.stringify({ upTo, beyond: [...beyond], takenUsd: takenBy } satisfies StoredMark);
    return {
      change: { kind: "put", record: { ...MARK, body } },
      taken: () => {
        this.#upTo = upTo;
        this.#beyond = beyond;
        this.#takenUsd = takenBy;
        this.#log.ended.forget(upTo);
      },
    };
  }
}
