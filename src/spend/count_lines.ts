/**
 * Counts the lines of a log, or of a part of it, into a ledger.
 *
 * Memory is one chunk, one block and one line (`jsonl/read.ts`), for any size of log. Blank lines are nothing.
 * Hot path: 4 us for a line of 440 bytes, of which `JSON.parse` takes 3 (`bench/jobs/audit.ts`).
 */
import type { DiskFile } from "../disk.ts";
import type { Block } from "../jsonl/block.ts";
import { type ReadOptions, readBlocks } from "../jsonl/read.ts";
import { Ledger, type LedgerState } from "./ledger.ts";
import { readLogLine } from "./log_line.ts";
import type { LedgerTerms } from "./model_tallies.ts";

/** A line that was not understood. */
export interface WrongLine {
  /** From 1. */
  readonly line: number;
  readonly reason: string;
}

/** What a log, or a part of it, holds. Plain data. */
export interface CountedLines {
  /** Blank ones included. */
  readonly lines: number;
  readonly blankLines: number;
  readonly wrongLines: number;
  /** The first ones. */
  readonly firstWrong: readonly WrongLine[];
  readonly ledger: LedgerState;
}

/** How many lines that were not understood are named. */
const NAMED_MAX = 5;
const REASON_CHARS_MAX = 200;
const LINES_OF_BLOCK = 4_096;

/** Rejects as `readBlocks` does, and with `too_many` beyond the limits of a ledger. */
export async function countLines(
  file: Pick<DiskFile, "read">,
  terms: LedgerTerms,
  options: ReadOptions = {},
): Promise<CountedLines> {
  const count = new LineCount(terms);
  for await (const event of readBlocks(file, { blockLinesMax: LINES_OF_BLOCK, ...options })) {
    if (event.kind === "block") count.block(event.block);
    else count.refused(event.refused.lengthBytes);
  }
  return count.counted;
}

/** A log of two parts, the second behind the first. */
export function addCounted(first: CountedLines, second: CountedLines, ledger: LedgerState): CountedLines {
  const behind = second.firstWrong.map(({ line, reason }) => ({ line: line + first.lines, reason }));
  return {
    lines: first.lines + second.lines,
    blankLines: first.blankLines + second.blankLines,
    wrongLines: first.wrongLines + second.wrongLines,
    firstWrong: [...first.firstWrong, ...behind].slice(0, NAMED_MAX),
    ledger,
  };
}

class LineCount {
  readonly #ledger: Ledger;
  readonly #firstWrong: WrongLine[] = [];
  #lines = 0;
  #blankLines = 0;
  #wrongLines = 0;

  constructor(terms: LedgerTerms) {
    this.#ledger = new Ledger(terms);
  }

  get counted(): CountedLines {
    return {
      lines: this.#lines,
      blankLines: this.#blankLines,
      wrongLines: this.#wrongLines,
      firstWrong: this.#firstWrong,
      ledger: this.#ledger.state,
    };
  }

  /** Bytes become one text: lines of it are slices, which `JSON.parse` reads without a copy. */
  block({ bytes }: Block): void {
    const text = Buffer.from(bytes.buffer).toString("utf8");
    for (let start = 0; start < text.length; ) {
      const newline = text.indexOf("\n", start);
      const end = newline < 0 ? text.length : newline;
      this.#line(text.slice(start, end));
      start = end + 1;
    }
  }

  refused(lengthBytes: number): void {
    this.#lines += 1;
    this.#wrong(`${lengthBytes} bytes, more than a line may have`);
  }

  #line(text: string): void {
    this.#lines += 1;
    if (text.charCodeAt(0) !== 0x7b && text.trim() === "") {
      this.#blankLines += 1;
      return;
    }
    const wrong = readLogLine(text, this.#ledger);
    if (wrong !== undefined) this.#wrong(wrong);
  }

  #wrong(reason: string): void {
    this.#wrongLines += 1;
    if (this.#firstWrong.length < NAMED_MAX)
      this.#firstWrong.push({ line: this.#lines, reason: reason.slice(0, REASON_CHARS_MAX) });
  }
}
