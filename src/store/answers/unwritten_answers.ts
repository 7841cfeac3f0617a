/**
 * Answers of a cache that its database does not have yet: those that wait, and those that are being written.
 *
 *   added -> waiting -> taken as one group -> being written -> written
 *
 * They are found here meanwhile. Limits: 16 MiB together; what does not fit is not kept. A group is due when 1,024 answers or 1 MiB wait:
 * a commit takes as long as it takes to sync the disk, whether it has 30 answers or 1,000 (20,000 answers in groups of 30: 1.6 s of
 * processor time, in groups of 1,000: 0.3 s).
 */
import type { CachedAnswer, KeptAnswers, NewAnswer } from "./answers_requests.ts";

const UNWRITTEN_BYTES_MAX = 16 << 20;
const GROUP_BYTES = 1 << 20;
const GROUP_ANSWERS = 1_024;

interface Unwritten extends CachedAnswer {
  readonly wallMs: number;
}

/** Answers by their keys as texts, the newest of each. */
interface Group {
  readonly answers: Map<string, Unwritten>;
  bytes: number;
}

/** One for an open cache. */
export class UnwrittenAnswers {
  #waiting: Group = emptyGroup();
  #writing: Group = emptyGroup();

  get isEmpty(): boolean {
    return this.#waiting.answers.size === 0;
  }

  /** Whether half of the room is taken: who would ask for more answers waits. */
  get isHalfFull(): boolean {
    return this.#waiting.bytes + this.#writing.bytes > UNWRITTEN_BYTES_MAX / 2;
  }

  /** Whether enough of them wait to be written at once. */
  get isDue(): boolean {
    const { answers, bytes } = this.#waiting;
    return answers.size >= GROUP_ANSWERS || bytes >= GROUP_BYTES;
  }

  /** False for one that does not fit. */
  add({ key, answer, origin }: NewAnswer, wallMs: number): boolean {
    const bytes = answer.length;
    if (this.#waiting.bytes + this.#writing.bytes + bytes > UNWRITTEN_BYTES_MAX) return false;
    this.#waiting.answers.set(key, { answer, origin, wallMs });
    this.#waiting.bytes += bytes;
    return true;
  }

  /** The newest answer to a request, if it was kept at `sinceWallMs` (Unix time) or later. */
  find(key: string, sinceWallMs: number): CachedAnswer | undefined {
    const found = this.#waiting.answers.get(key) ?? this.#writing.answers.get(key);
    if (found === undefined || found.wallMs < sinceWallMs) return undefined;
    const { answer, origin } = found;
    return { answer, origin };
  }

  /** What waits, which is being written from now on. */
  take(): KeptAnswers {
    this.#writing = this.#waiting;
    this.#waiting = emptyGroup();
    const all = [...this.#writing.answers.values()];
    return {
      keys: Buffer.from([...this.#writing.answers.keys()].join(""), "latin1"),
      answers: all.map(({ answer }) => answer),
      origins: all.map(({ origin }) => origin),
      wallMs: Float64Array.from(all, ({ wallMs }) => wallMs),
    };
  }

  /** What was taken is in the database, or never will be. */
  written(): void {
    this.#writing = emptyGroup();
  }
}

function emptyGroup(): Group {
  return { answers: new Map(), bytes: 0 };
}
