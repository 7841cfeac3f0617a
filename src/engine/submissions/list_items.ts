/**
 * The items of a submitted list: checked, in one group for each different sla, and as lines.
 */
import { createHash } from "node:crypto";
import { PerigeeError } from "../../errors.ts";
import { itemLine } from "../../jsonl/items.ts";
import type { Item } from "../../work/item.ts";
import { objectId } from "../../work/object_id.ts";
import { parseSlaMinutes } from "../../work/sla.ts";
import { POSTED_CHARS_MAX, POSTED_ITEMS_MAX, questionChars } from "../posted/acceptance.ts";

/** Different slas in one list at most: each is a run of its own. */
const SLAS_MAX = 64;
const SPOOL_CHUNK_CHARS = 1024 * 1024;

/** One part for each different sla with its lines, and the part of each item. */
export interface ListGroups {
  readonly parts: readonly { readonly sla: number | null; readonly items: number }[];
  readonly partOf: readonly number[];
  /** Of each part, about a megabyte in each chunk. */
  readonly lines: readonly (readonly Uint8Array[])[];
}

/** One part for each different sla, in the order of their first items. */
export function groupBySla(items: readonly Item[]): ListGroups {
  const numbers = new Map<number | null, number>();
  const parts: { sla: number | null; items: number }[] = [];
  const lines: PartLines[] = [];
  // Unlike `map`, this visits the holes of an array, and refuses them.
  const partOf = Array.from(items, (item, index) => {
    const sla = parseSlaMinutes(checked(item, index).sla, `item ${index}`) ?? null;
    const part = numbers.get(sla) ?? numbers.size;
    if (part === SLAS_MAX)
      throw new PerigeeError(
        "usage",
        `a task has at most ${SLAS_MAX} different slas, item ${index} has one more`,
      );
    numbers.set(sla, part);
    const group = parts[part] ?? { sla, items: 0 };
    group.items += 1;
    parts[part] = group;
    lines[part] ??= new PartLines();
    lines[part].add(lineOf(item, index));
    return part;
  });
  return { parts, partOf, lines: lines.map((each) => each.chunks()) };
}

/** SHA-256 of the items with their slas and the list's schema, in hexadecimal: the same for the same items in the same order. */
export function checksumOf({ parts, partOf, lines }: ListGroups, schema: string | undefined): string {
  const hash = createHash("sha256");
  if (schema !== undefined) hash.update(`${schema}\n`);
  hash.update(JSON.stringify([parts, parts.length === 1 ? [] : partOf]));
  for (const chunks of lines) for (const bytes of chunks) hash.update(bytes);
  return hash.digest("hex");
}

/** Whether a posted task may have these items. */
export function isFew(items: readonly Item[]): boolean {
  if (items.length > POSTED_ITEMS_MAX) return false;
  return items.reduce((chars, item) => chars + questionChars(item), 0) <= POSTED_CHARS_MAX;
}

/**
 * The lines of a list of one sla as those of a posted task, with the schema in each chat that has none; undefined if one of them is not
 * a line of `lineOf`, or the schemas are too long.
 */
export function postedLines(
  { lines }: Pick<ListGroups, "lines">,
  id: string,
  schema: string | undefined,
): readonly string[] | undefined {
  const each = Buffer.concat(lines[0] ?? [])
    .toString()
    .trimEnd()
    .split("\n");
  if (each.length * (schema?.length ?? 0) > POSTED_CHARS_MAX) return undefined;
  const posted: string[] = [];
  for (const [index, line] of each.entries()) {
    const start = `{"key":"${index}","request":{`;
    if (!line.startsWith(start)) return undefined;
    const added = schema === undefined || hasOwnSchema(line) ? "" : `"schema":${schema},`;
    posted.push(`{"key":"${objectId(id, index + 1)}","request":{${added}${line.slice(start.length)}`);
  }
  return posted;
}

/** Whether a line says what its answer must fit, or is not a chat. */
function hasOwnSchema(line: string): boolean {
  if (!line.includes('"schema"') && !line.includes('"kind"')) return false;
  const { request } = JSON.parse(line) as {
    readonly request: Pick<Item, "kind"> & { readonly schema?: unknown };
  };
  return request.schema !== undefined || (request.kind !== undefined && request.kind !== "chat");
}

/** The lines of one part, about a megabyte in each chunk. */
class PartLines {
  readonly #chunks: Uint8Array[] = [];
  #text = "";

  add(line: string): void {
    this.#text += line;
    if (this.#text.length >= SPOOL_CHUNK_CHARS) this.#cut();
  }

  chunks(): readonly Uint8Array[] {
    if (this.#text !== "") this.#cut();
    return this.#chunks;
  }

  #cut(): void {
    this.#chunks.push(Buffer.from(this.#text));
    this.#text = "";
  }
}

function lineOf(item: Item, index: number): string {
  return `${itemLine({ ...item, key: String(index) }, `item ${index}`)}\n`;
}

function checked(item: Item, index: number): Item {
  const isObject = typeof item === "object" && item !== null;
  const { input, contents, messages } = isObject ? item : ({} as Partial<Item>);
  const isKind = isObject && item.kind !== undefined && item.kind !== "chat"; // its members are checked as it is read
  const isPrompt = typeof input === "string" && contents === undefined && messages === undefined;
  const isItem = isPrompt || (input === undefined && Array.isArray(contents) !== Array.isArray(messages));
  if ((isItem || isKind) && typeof item.model === "string") return item;
  throw new PerigeeError(
    "usage",
    `item ${index} must have a model, which is a text, and one of input (a text), contents and messages (lists)`,
  );
}
