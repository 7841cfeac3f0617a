/**
 * The rows of a table with their answers, in the order of the rows.
 *
 * Answers whose keys belong to no row, which an update has kept, are left out. Memory is that of a batch of rows and of `AnswerLines`.
 */
import type { Disk } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import { afterString, markNumbers } from "../jsonl/numbers.ts";
import type { OutputLine } from "../work/item.ts";
import type { AnswerColumns, RowAnswer } from "./answer_columns.ts";
import { AnswerLines } from "./answer_lines.ts";
import type { Cell } from "./cell.ts";
import type { KeyOf } from "./requests.ts";
import type { RowChoice } from "./row_choice.ts";
import type { Table } from "./table.ts";

/** How a row finds its answer, and what of it becomes a cell. */
export interface Joining {
  readonly keyOf: KeyOf;
  readonly choice: RowChoice;
  readonly added: AnswerColumns;
  /** The file with the answers, in any order; about that of the rows is fast. */
  readonly answers: string;
}

/** Rows of all columns, and of those that were added. Throws `output_changed` when a row has no answer. */
export async function* joinedRows(
  disk: Pick<Disk, "open">,
  table: Table,
  { keyOf, choice, added, answers }: Joining,
): AsyncGenerator<readonly (readonly Cell[])[]> {
  const lines = await AnswerLines.open(disk, answers);
  try {
    for await (const { rows, firstRow } of table.batches()) {
      const joined: (readonly Cell[])[] = [];
      for (const [index, row] of rows.entries()) {
        const rowNumber = firstRow + index;
        if (!choice.takes(rowNumber)) continue;
        const key = keyOf(row, rowNumber);
        const line = lines.take(key) ?? (await lines.find(key));
        if (line === undefined)
          throw new PerigeeError(
            "output_changed",
            `${answers} has no answer for row ${rowNumber} of ${table.name} (key ${JSON.stringify(key.slice(0, 64))}): put that file back as the run left it, and run the same command again`,
          );
        joined.push([...row, ...added.cells(plainAnswer(line) ?? wholeAnswer(line))]);
      }
      if (joined.length > 0) yield joined;
      if (choice.isOver(firstRow + rows.length)) return;
    }
  } finally {
    await lines.close();
  }
}

const KEY = '{"key":"';
const TEXT = ',"output":{"type":"text","text":"';
const PARSED = ',"parsed":';

/**
 * Hot: the text of an answer that has one, without reading the rest of its line, which is four fifths of it. Undefined for any
 * other line.
 */
function plainAnswer(line: string): RowAnswer | undefined {
  if (!line.startsWith(KEY)) return undefined;
  const keyEnd = afterString(line, KEY.length);
  if (!line.startsWith(TEXT, keyEnd)) return undefined;
  const from = keyEnd + TEXT.length;
  const end = afterString(line, from);
  if (end === from + 1) return undefined; // an empty text: tool calls or a refusal may follow
  if (line.startsWith(PARSED, end + 1)) return undefined;
  const text = JSON.parse(line.slice(from - 1, end)) as string; // a string literal, by its quotes
  return { output: { type: "text", text } };
}

/** A checked value keeps all digits of its numbers. */
function wholeAnswer(line: string): RowAnswer {
  const json = line.includes(PARSED) ? markNumbers(line) : line;
  return JSON.parse(json) as OutputLine; // the engine wrote it
}
