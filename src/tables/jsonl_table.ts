/**
 * JSON lines as a table: an object on each line, and the columns are the names of all their members, in the order in which they occur.
 *
 * The file is read once for its columns. A member that a line does not have is an empty cell; one that it has twice is refused, as a
 * column of a CSV file. Numbers keep their digits where a double would change them.
 */
import { PerigeeError } from "../errors.ts";
import { markNumbers } from "../jsonl/numbers.ts";
import { countMembers, repeatedMember, scanStructure } from "../jsonl/structure.ts";
import { type CellType, type Column, cellOfJson } from "./cell.ts";
import { fileText, headText } from "./file_text.ts";
import { columnNames, type RowBatch, type Table } from "./table.ts";

/** The longest line, in UTF-16 units. */
const LINE_CHARS_MAX = 16 * 1024 * 1024;
/** Objects and lists around a value, at most. */
const DEPTH_MAX = 64;

/** Throws as `openTable` does. */
export async function openJsonl(path: string): Promise<Table> {
  await headText(path);
  const types = new Map<string, CellType | undefined>();
  for await (const lines of objects(path))
    for (const { object } of lines)
      for (const [name, value] of Object.entries(object)) types.set(name, joined(types.get(name), value));
  if (types.size === 0)
    throw new PerigeeError("input_unreadable", `${path} has no rows: expected an object on each line`);
  const members = [...types.keys()];
  const names = columnNames(members, path);
  const columns: Column[] = names.map((name, index) => ({
    name,
    type: types.get(members[index] ?? "") ?? "text",
  }));
  return { name: path, format: "jsonl", columns, batches: () => batches(path, members) };
}

interface ObjectLine {
  readonly line: number;
  readonly object: Readonly<Record<string, unknown>>;
}

async function* batches(path: string, members: readonly string[]): AsyncGenerator<RowBatch> {
  let firstRow = 1;
  for await (const found of objects(path)) {
    if (found.length === 0) continue;
    const rows = found.map(({ object }) =>
      members.map((name) => (Object.hasOwn(object, name) ? cellOfJson(object[name]) : null)),
    );
    yield { firstRow, rows, lines: found.map(({ line }) => line) };
    firstRow += found.length;
  }
}

async function* objects(path: string): AsyncGenerator<readonly ObjectLine[]> {
  let rest = "";
  let line = 0;
  for await (const piece of fileText(path)) {
    const lines = `${rest}${piece}`.split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > LINE_CHARS_MAX)
      throw unreadable(path, line + lines.length + 1, `has more than ${LINE_CHARS_MAX} characters`);
    yield lines.flatMap((text) => objectOf(path, text, ++line));
  }
  yield objectOf(path, rest, line + 1);
}

function objectOf(path: string, text: string, line: number): ObjectLine[] {
  if (text.trim() === "") return [];
  const { isTooDeep, hasLongNumber, memberCount } = scanStructure(text, DEPTH_MAX);
  if (isTooDeep) throw unreadable(path, line, `is nested more than ${DEPTH_MAX} deep`);
  let object: unknown;
  try {
    object = JSON.parse(hasLongNumber ? markNumbers(text) : text);
  } catch (cause) {
    throw unreadable(path, line, "is not JSON", cause);
  }
  if (typeof object !== "object" || object === null || Array.isArray(object))
    throw unreadable(path, line, "is not an object: a row is an object with a member for each column");
  if (countMembers(object) < memberCount)
    throw unreadable(
      path,
      line,
      `has the member ${JSON.stringify(repeatedMember(text)?.path)} twice: rename or remove one of them`,
    );
  return [{ line, object: object as Record<string, unknown> }];
}

function unreadable(path: string, line: number, what: string, cause?: unknown): PerigeeError {
  return new PerigeeError("input_unreadable", `${path}: line ${line} ${what}`, { cause });
}

/** The type of a column that has this value as well. */
function joined(before: CellType | undefined, value: unknown): CellType | undefined {
  const type = typeOf(value);
  if (before === undefined || type === undefined || before === type) return type ?? before;
  const areNumbers = [before, type].every((each) => each === "integer" || each === "number");
  return areNumbers ? "number" : "text";
}

function typeOf(value: unknown): CellType | undefined {
  if (value === null) return undefined;
  if (typeof value === "number") return Number.isSafeInteger(value) ? "integer" : "number";
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "string") return "text"; // and numbers that a double does not hold
  return "json";
}
