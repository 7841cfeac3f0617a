/**
 * What an answer adds to its row: `output`, or the fields of a schema, then `error`.
 *
 *   answered, no schema      output = its text; the JSON of tool calls or a refusal where it has no text
 *   answered, with a schema  a cell for each field of the object that was checked, or that the text is; without one, error = schema_unmet
 *   ended in an error        error = "<code>: <message>"
 */
import { PerigeeError } from "../errors.ts";
import { markNumbers } from "../jsonl/numbers.ts";
import type { OutputLine } from "../work/item.ts";
import { isObject } from "../work/json.ts";
import { type Cell, type Column, cellOfJson } from "./cell.ts";
import type { Table } from "./table.ts";

/** Characters of an answer that an error shows. */
const SHOWN_CHARS_MAX = 80;

/** What answers add to a table. */
export interface AnswerColumns {
  readonly columns: readonly Column[];
  /** A cell for each of them. */
  cells(line: RowAnswer): Cell[];
}

/** As much of an output line as is read here. Numbers of `parsed` that a double cannot hold are marked. */
export type RowAnswer = Pick<OutputLine, "output" | "parsed" | "error" | "tool_calls" | "refusal">;

/**
 * `fields` are those of a schema, undefined without one; `prefix` is put before each name, those of `output` and `error` included.
 * Throws `usage` for a name that the table has, and for a field named `error`.
 */
export function answerColumns(
  table: Pick<Table, "name" | "columns">,
  fields: readonly Column[] | undefined,
  prefix = "",
): AnswerColumns {
  const added: readonly Column[] = [
    ...(fields ?? [{ name: "output", type: "text" }]),
    { name: "error", type: "text" },
  ];
  const columns = added.map(({ name, type }) => ({ name: `${prefix}${name}`, type }));
  const ofTable = new Set(table.columns.map(({ name }) => name));
  const taken = columns.find(({ name }) => ofTable.has(name));
  if (taken !== undefined)
    throw new PerigeeError(
      "usage",
      `${table.name} already has a column ${JSON.stringify(taken.name)}, which is the name of a column of the answers: add --prefix with a text before their names, such as --prefix ${prefix}answer_`,
    );
  if (fields?.some(({ name }) => name === "error") === true)
    throw new PerigeeError(
      "usage",
      'the schema has a property "error", which is the name of the column for errors: name it otherwise in the schema',
    );
  return { columns, cells: fields === undefined ? textCells : (line) => fieldCells(line, fields) };
}

function textCells({ output, error, tool_calls, refusal }: RowAnswer): Cell[] {
  if (error !== undefined && error !== null) return [null, `${error.code}: ${error.message}`];
  if (output !== null && output.text !== "") return [output.text, null];
  if (tool_calls !== undefined) return [{ json: JSON.stringify(tool_calls) }, null];
  return [refusal ?? "", null];
}

function fieldCells(answer: RowAnswer, fields: readonly Column[]): Cell[] {
  const { output, parsed, error } = answer;
  const none = fields.map(() => null);
  if (error !== undefined && error !== null) return [...none, `${error.code}: ${error.message}`];
  const text = output?.text ?? "";
  const object = parsed === undefined ? objectOf(text) : isObject(parsed) ? parsed : undefined;
  if (object === undefined) return [...none, `schema_unmet: the answer is not a JSON object: ${cut(text)}`];
  return [...fields.map(({ name }) => (Object.hasOwn(object, name) ? cellOfJson(object[name]) : null)), null];
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(markNumbers(text));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function cut(text: string): string {
  return text.length <= SHOWN_CHARS_MAX ? text : `${text.slice(0, SHOWN_CHARS_MAX)}...`;
}
