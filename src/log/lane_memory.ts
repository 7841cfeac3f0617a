/**
 * What the log remembers of lanes: the last fact of each kind, and what was sent in the last minute, for the limiter of the next
 * process.
 *
 *   time of the log = sum of the least time that passed between each two entries (`work/moment.ts`): no jump of a wall clock makes
 *                     anything older than it is, over a restart of the machine either
 *
 * What is sent is summed by lane and second, as of the last one. A sum never holds requests of entries that are about to be cut
 * together with later ones: `divide` begins new sums.
 */
import type { Moment } from "../clock.ts";
import { leastMsBetween } from "../work/moment.ts";
import type { FieldsOf, LogRecords } from "./records.ts";

/** Limits count requests of so long. */
const SENT_KEPT_MS = 60_000;
const SUM_MS = 1_000;

/** The last fact of a lane. */
export interface KeptFact {
  readonly lane: number;
  readonly fact: number;
  readonly value: number;
  readonly forMs: number;
  /** Never more than it really is. */
  readonly ageMs: number;
}

/** What was sent on a lane within a second. */
export interface SentSum {
  readonly lane: number;
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Never more than it really is. */
  readonly ageMs: number;
}

interface MutableSum {
  readonly lane: number;
  readonly part: number;
  requests: number;
  inputTokens: number;
  outputTokens: number;
  atMs: number;
}

export class LaneMemory {
  /** By lane and fact. */
  readonly #facts = new Map<string, { readonly fields: FieldsOf<"laneFact">; readonly atMs: number }>();
  /** By lane, the oldest first. */
  readonly #sums = new Map<number, MutableSum[]>();
  #part = 0;
  #nowMs = 0;
  #moment: Moment | undefined;

  /** The time of the entry whose records are next. */
  advance(moment: Moment): void {
    this.#nowMs = this.#at(moment);
    this.#moment = moment;
  }

  learn(fields: FieldsOf<"laneFact">): void {
    this.#facts.set(`${fields.lane} ${fields.fact}`, { fields, atMs: this.#nowMs - fields.ageMs });
  }

  sent(sent: Omit<SentSum, "ageMs"> & { readonly ageMs?: number }): void {
    const { lane } = sent;
    if (lane === 0) return;
    const atMs = this.#nowMs - (sent.ageMs ?? 0);
    const sums = this.#sums.get(lane) ?? [];
    this.#sums.set(lane, sums);
    let last = sums.at(-1);
    if (last === undefined || last.part !== this.#part || second(last.atMs) !== second(atMs)) {
      last = { lane, part: this.#part, requests: 0, inputTokens: 0, outputTokens: 0, atMs };
      sums.push(last);
    }
    last.requests += sent.requests;
    last.inputTokens += sent.inputTokens;
    last.outputTokens += sent.outputTokens;
    last.atMs = Math.max(last.atMs, atMs);
    while (sums[0] !== undefined && this.#nowMs - sums[0].atMs > SENT_KEPT_MS) sums.shift();
  }

  /** What is sent from now on is kept apart from what was sent before. */
  divide(): void {
    this.#part += 1;
  }

  /** States all facts, and what was sent before the last `divide`, for an entry of this moment. */
  state(records: LogRecords, moment: Moment): void {
    for (const fact of this.facts(moment)) records.add("laneFact", fact);
    const nowMs = this.#at(moment);
    for (const { part, atMs, ...sum } of [...this.#sums.values()].flat())
      if (part < this.#part && nowMs - atMs <= SENT_KEPT_MS)
        records.add("sent", { ...sum, ageMs: nowMs - atMs });
  }

  /** What was stated is known from the statement. */
  forgetStated(): void {
    for (const [lane, sums] of this.#sums)
      this.#sums.set(
        lane,
        sums.filter(({ part }) => part >= this.#part),
      );
  }

  facts(moment: Moment): KeptFact[] {
    const nowMs = this.#at(moment);
    return [...this.#facts.values()].map(({ fields: { lane, fact, value, forMs }, atMs }) => ({
      ...{ lane, fact, value, forMs },
      ageMs: nowMs - atMs,
    }));
  }

  /** Of the last minute, by lane, the oldest first. */
  recent(moment: Moment): SentSum[] {
    const nowMs = this.#at(moment);
    return [...this.#sums.values()].flat().flatMap(({ part: _part, atMs, ...sum }) => {
      const ageMs = nowMs - atMs;
      return ageMs > SENT_KEPT_MS ? [] : [{ ...sum, ageMs }];
    });
  }

  #at(moment: Moment): number {
    return this.#moment === undefined ? this.#nowMs : this.#nowMs + leastMsBetween(this.#moment, moment);
  }
}

function second(ms: number): number {
  return Math.floor(ms / SUM_MS);
}
