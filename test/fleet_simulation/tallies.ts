/** What a simulation counts from the end of its warm-up on. */

export class Tallies {
  answered = 0;
  requests = 0;
  commits = 0;
  committedRecords = 0;
  readonly commitMs: Waits = new Waits();
  readonly drawMs: Waits = new Waits();
  readonly postMs: Waits = new Waits();
  /** How much later than a second after the one before a heartbeat ended. */
  readonly beatLagMs: Waits = new Waits();

  sent(_nowMs: number): void {
    this.requests += 1;
  }

  committed(records: number, ms: number): void {
    this.commits += 1;
    this.committedRecords += records;
    this.commitMs.add(ms);
  }

  /** Begins to count. */
  reset(): void {
    this.answered = this.requests = this.commits = this.committedRecords = 0;
    for (const waits of [this.commitMs, this.drawMs, this.postMs, this.beatLagMs]) waits.reset();
  }
}

/** Quantiles of waits. */
export class Waits {
  #all: number[] = [];

  add(ms: number): void {
    this.#all.push(ms);
  }

  reset(): void {
    this.#all = [];
  }

  get count(): number {
    return this.#all.length;
  }

  /** The wait that so great a share is not longer than; 0 without any. */
  at(share: number): number {
    const sorted = this.#all.toSorted((one, other) => one - other);
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  }
}
