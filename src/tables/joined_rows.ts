/**
 * The rows of a table with their answers: both are read from front to back once, because the answers are in the order of the rows.
 *
 * Answers whose keys belong to no row, which an update has kept, are passed over. Memory is that of a batch of rows and a piece of the answers.
 */
import { PerigeeError } from "../errors.ts";
import { afterString, markNumbers } from "../jsonl/numbers.ts";
import type { OutputLine } from "../work/item.ts";
import type { AnswerColumns, RowAnswer } from "./answer_columns.ts";
import type { Cell } from "./cell.ts";
import { fileText } from "./file_text.ts";
import type { KeyOf } from "./requests.ts";
import type { RowChoice } from "./row_choice.ts";
import type { Table } from "./table.ts";

/** How a row finds its answer, and what of it becomes a cell. */
export interface Joining {
  readonly keyOf: KeyOf;
  readonly choice: RowChoice;
  readonly added: AnswerColumns;
  /** The file with the answers, in the order of the rows. */
  readonly answers: string;
}

/** Rows of all columns, and of those that were added. Throws `output_changed` when a row has no answer. */
export async function* joinedRows(
  table: Table,
  { keyOf, choice, added, answers }: Joining,
): AsyncGenerator<readonly (readonly Cell[])[]> {
  const lines = new AnswerLines(answers);
  try {
    for await (const { rows, firstRow } of table.batches()) {
      const joined: (readonly Cell[])[] = [];
      for (const [index, row] of rows.entries()) {
        const rowNumber = firstRow + index;
        if (!choice.takes(rowNumber)) continue;
        const key = keyOf(row, rowNumber);
        let answer = lines.next() ?? (await lines.more());
        while (answer !== undefined && answer.key !== key) answer = lines.next() ?? (await lines.more());
        if (answer === undefined)
          throw new PerigeeError(
            "output_changed",
            `${answers} has no answer for row ${rowNumber} of ${table.name} (key ${JSON.stringify(key.slice(0, 64))}): put that file back as the run left it, and run the same command again`,
          );
        joined.push([...row, ...added.cells(answer)]);
      }
      if (joined.length > 0) yield joined;
      if (choice.isOver(firstRow + rows.length)) return;
    }
  } finally {
    await lines.close();
  }
}

type KeyedAnswer = RowAnswer & Pick<OutputLine, "key">;

const KEY = '{"key":"';
const TEXT = ',"output":{"type":"text","text":"';
const PARSED = ',"parsed":';

/**
 * Hot: key and text of an answer that has a text, without reading the rest of its line, which is four fifths of it. Undefined for any
 * other line.
 */
function plainAnswer(line: string): KeyedAnswer | undefined {
  if (!line.startsWith(KEY)) return undefined;
  const keyEnd = afterString(line, KEY.length);
  if (!line.startsWith(TEXT, keyEnd)) return undefined;
  const from = keyEnd + TEXT.length;
  const end = afterString(line, from);
  if (end === from + 1) return undefined; // an empty text: tool calls or a refusal may follow
  if (line.startsWith(PARSED, end + 1)) return undefined;
  const key = JSON.parse(line.slice(KEY.length - 1, keyEnd)) as string; // string literals, by their quotes
  const text = JSON.parse(line.slice(from - 1, end)) as string;
  return { key, output: { type: "text", text } };
}

/** A checked value keeps all digits of its numbers. */
function wholeAnswer(line: string): KeyedAnswer {
  const json = line.includes(PARSED) ? markNumbers(line) : line;
  return JSON.parse(json) as OutputLine; // the engine wrote it
}

/** Lines of a file of answers. */
class AnswerLines {
  readonly #pieces: AsyncGenerator<string>;
  #lines: readonly string[] = [];
  #at = 0;
  #rest = "";

  constructor(path: string) {
    this.#pieces = fileText(path);
  }

  /** The next one that has been read; undefined when more must be read. */
  next(): KeyedAnswer | undefined {
    const line = this.#lines[this.#at];
    if (line === undefined) return undefined;
    this.#at += 1;
    return plainAnswer(line) ?? wholeAnswer(line);
  }

  /** The next one; undefined at the end of the file. */
  async more(): Promise<KeyedAnswer | undefined> {
    while (this.#at >= this.#lines.length) {
      const piece = await this.#pieces.next();
      if (piece.done === true) return undefined;
      const lines = `${this.#rest}${piece.value}`.split("\n");
      this.#rest = lines.pop() ?? "";
      this.#lines = lines;
      this.#at = 0;
    }
    return this.next();
  }

  async close(): Promise<void> {
    await this.#pieces.return(undefined);
  }
}
