/**
 * A modelled database server: statements wait for their locks, then for a core; commits wait for the log on the disk.
 *
 *   statement: sent -> locks taken in their order -> on a core -> (outside a transaction: committed) -> answered
 *   commit:    sent -> on a core -> with the next sync of the log, together with all that wait for it -> locks freed -> answered
 *
 * All locks are exclusive and fair. Of the network there is a delay, of the caller a wait until its event loop turns.
 */
import type { VirtualTime } from "./virtual_time.ts";

export interface ServerTerms {
  readonly cores: number;
  /** From a caller to the server and back. */
  readonly roundTripMs: number;
  /** The mean time until a caller takes an answer in. */
  readonly callerMs: number;
  readonly syncMs: number;
  readonly sessionsMax: number;
}

export interface ModelledStatement {
  readonly cpuMs: number;
  /** Rows, in the order in which they are locked. */
  readonly locks?: readonly string[];
  readonly isWrite?: boolean;
}

/** Time for which something was busy or held. */
export class BusyTimes {
  readonly #busyMs = new Map<string, number>();

  add(name: string, ms: number): void {
    this.#busyMs.set(name, (this.#busyMs.get(name) ?? 0) + ms);
  }

  of(name: string): number {
    return this.#busyMs.get(name) ?? 0;
  }

  /** The busiest of those whose name begins so. */
  busiest(prefix: string): number {
    let most = 0;
    for (const [name, ms] of this.#busyMs) if (name.startsWith(prefix)) most = Math.max(most, ms);
    return most;
  }
}

interface Lock {
  heldSinceMs: number;
  readonly waiting: (() => void)[];
}

export class ModelledServer {
  readonly time: VirtualTime;
  readonly terms: ServerTerms;
  readonly locked: BusyTimes = new BusyTimes();
  /** Milliseconds of cores, by kind of work. */
  readonly cpu: BusyTimes = new BusyTimes();
  sessions = 0;
  refusedSessions = 0;
  commits = 0;
  syncs = 0;
  #freeCores: number;
  readonly #forCore: (() => void)[] = [];
  readonly #locks = new Map<string, Lock>();
  #forSync: (() => void)[] = [];
  #isSyncing = false;

  constructor(time: VirtualTime, terms: ServerTerms) {
    this.time = time;
    this.terms = terms;
    this.#freeCores = terms.cores;
  }

  /** Throws as PostgreSQL does when it has no session left. */
  connect(): ModelledSession {
    if (this.sessions >= this.terms.sessionsMax) {
      this.refusedSessions += 1;
      throw Object.assign(new Error("sorry, too many clients already"), { code: "53300" });
    }
    this.sessions += 1;
    return new ModelledSession(this);
  }

  onCore(kind: string, cpuMs: number, done: () => void): void {
    const run = (): void => {
      this.cpu.add(kind, cpuMs);
      this.cpu.add("", cpuMs);
      this.time.after(cpuMs, () => {
        const next = this.#forCore.shift();
        if (next === undefined) this.#freeCores += 1;
        else next();
        done();
      });
    };
    if (this.#freeCores === 0) this.#forCore.push(run);
    else {
      this.#freeCores -= 1;
      run();
    }
  }

  lock(name: string, taken: () => void): void {
    const lock = this.#locks.get(name);
    if (lock !== undefined) {
      lock.waiting.push(taken);
      return;
    }
    this.#locks.set(name, { heldSinceMs: this.time.nowMs, waiting: [] });
    taken();
  }

  unlock(name: string): void {
    const lock = this.#locks.get(name);
    if (lock === undefined) return;
    this.locked.add(name, this.time.nowMs - lock.heldSinceMs);
    const next = lock.waiting.shift();
    if (next === undefined) this.#locks.delete(name);
    else {
      lock.heldSinceMs = this.time.nowMs;
      next();
    }
  }

  /** Calls back when the log is on the disk. */
  synced(done: () => void): void {
    this.commits += 1;
    this.#forSync.push(done);
    if (!this.#isSyncing) this.#sync();
  }

  #sync(): void {
    const group = this.#forSync;
    this.#forSync = [];
    this.#isSyncing = group.length > 0;
    if (!this.#isSyncing) return;
    this.syncs += 1;
    this.time.after(this.terms.syncMs, () => {
      for (const done of group) done();
      this.#sync();
    });
  }
}

/** One statement after another. */
export class ModelledSession {
  readonly #server: ModelledServer;
  readonly #held = new Set<string>();
  #isOpen = false;
  #hasWritten = false;

  constructor(server: ModelledServer) {
    this.#server = server;
  }

  get isInTransaction(): boolean {
    return this.#isOpen;
  }

  begin(): void {
    this.#isOpen = true;
  }

  /** `effect` is called when the statement has its locks and its time on a core; `done` when the caller has the answer. */
  run(kind: string, statement: ModelledStatement, effect: () => void, done: () => void): void {
    const { cpuMs, locks = [], isWrite = false } = statement;
    this.#hasWritten ||= isWrite;
    this.#sent(() =>
      this.#lock(locks, 0, () =>
        this.#server.onCore(kind, cpuMs, () => {
          effect();
          if (this.#isOpen) this.#answer(done);
          else this.#ended(done);
        }),
      ),
    );
  }

  commit(kind: string, cpuMs: number, done: () => void): void {
    this.#sent(() =>
      this.#server.onCore(kind, cpuMs, () => {
        this.#isOpen = false;
        this.#ended(done);
      }),
    );
  }

  #ended(done: () => void): void {
    const end = (): void => {
      this.#hasWritten = false;
      for (const name of this.#held) this.#server.unlock(name);
      this.#held.clear();
      this.#answer(done);
    };
    if (this.#hasWritten) this.#server.synced(end);
    else end();
  }

  #lock(locks: readonly string[], index: number, taken: () => void): void {
    const name = locks[index];
    if (name === undefined) taken();
    else if (this.#held.has(name)) this.#lock(locks, index + 1, taken);
    else
      this.#server.lock(name, () => {
        this.#held.add(name);
        this.#lock(locks, index + 1, taken);
      });
  }

  #sent(done: () => void): void {
    this.#server.time.after(this.#server.terms.roundTripMs / 2, done);
  }

  #answer(done: () => void): void {
    const { time, terms } = this.#server;
    time.after(terms.roundTripMs / 2 + time.drawn(terms.callerMs), done);
  }
}
