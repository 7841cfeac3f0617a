/**
 * How ended items were sent, and when: two sections of a step from version 6 on, for receipts. Absent where nobody states it.
 *
 *   as       the different statements of the step, a JSON list
 *   sent     25 bytes each: outcome of the step 0, statement 4, in time 8 (0 not known, 1 yes, 2 no), started 9, ended 17
 *
 * Times are Unix milliseconds, 0 when not known. Numbers are little-endian. Hot path: 0.2 us an outcome.
 */

/** The kinds of lanes, as `lanes: {allow, deny}` names them. */
export type SentLane = "realtime" | "flex" | "slow" | "batch" | "deferred" | "offpeak";

/** How an item was sent. Statements that are equal are to be one object: a step has each object once. */
export interface SentAs {
  /** `<provider>:<name>`; empty when it is not known. */
  readonly model: string;
  /** Null when nothing was sent. */
  readonly lane: SentLane | null;
  /** The tier that the request named; null: none. */
  readonly tierAsked: string | null;
  /** The tier that the provider says it used; null when it does not say. */
  readonly tier: string | null;
  /** The provider's id of its batch. */
  readonly batch: string | null;
  /** Unix time; null without one. */
  readonly deadlineWallMs: number | null;
}

/** What a receipt has besides the record of an outcome. */
export interface SentFacts {
  readonly as: SentAs;
  /** When its first request left, Unix time; undefined when that is not known, or none did. */
  readonly startedWallMs: number | undefined;
  readonly endedWallMs: number;
  /** Whether it ended by its deadline; undefined without one, and when that is not known. */
  readonly isMet: boolean | undefined;
}

const ROW_BYTES = 25;
const NOT_KNOWN = 0;
const MET = 1;
const MISSED = 2;

/** Collects the facts of one step. */
export class SentWriter {
  readonly #numbers = new Map<SentAs, number>();
  readonly #rows: SentFacts[] = [];
  readonly #outcomes: number[] = [];

  /** `outcome`: its index in the step. */
  add(outcome: number, facts: SentFacts): void {
    if (!this.#numbers.has(facts.as)) this.#numbers.set(facts.as, this.#numbers.size);
    this.#rows.push(facts);
    this.#outcomes.push(outcome);
  }

  /** Statements, rows. */
  sections(): readonly [Uint8Array, Uint8Array] {
    if (this.#rows.length === 0) return [new Uint8Array(), new Uint8Array()];
    const rows = Buffer.allocUnsafe(this.#rows.length * ROW_BYTES);
    this.#rows.forEach(({ as, startedWallMs = 0, endedWallMs, isMet }, index) => {
      const at = index * ROW_BYTES;
      rows.writeUInt32LE(this.#outcomes[index] as number, at);
      rows.writeUInt32LE(this.#numbers.get(as) as number, at + 4);
      rows.writeUInt8(isMet === undefined ? NOT_KNOWN : isMet ? MET : MISSED, at + 8);
      rows.writeDoubleLE(startedWallMs, at + 9);
      rows.writeDoubleLE(endedWallMs, at + 17);
    });
    return [Buffer.from(JSON.stringify([...this.#numbers.keys()])), rows];
  }
}

/** Calls back with each fact of a step, and the index of its outcome. */
export function eachSent(as: Buffer, rows: Buffer, found: (outcome: number, facts: SentFacts) => void): void {
  if (rows.byteLength === 0) return;
  const statements = JSON.parse(as.toString()) as SentAs[]; // written by `sections`, checked by the store's CRC
  for (let at = 0; at < rows.byteLength; at += ROW_BYTES) {
    const met = rows.readUInt8(at + 8);
    const startedWallMs = rows.readDoubleLE(at + 9);
    found(rows.readUInt32LE(at), {
      as: statements[rows.readUInt32LE(at + 4)] as SentAs,
      startedWallMs: startedWallMs === 0 ? undefined : startedWallMs,
      endedWallMs: rows.readDoubleLE(at + 17),
      isMet: met === NOT_KNOWN ? undefined : met === MET,
    });
  }
}
