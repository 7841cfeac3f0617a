/**
 * Embeddings cut out of an answer as its bytes, uncopied, without a number for each float: an answer of 2,048 inputs has 3 million of them.
 *
 *   {"data":[{"embedding":[0.1,...],"index":0}],...}  ->  {"data":[{"embedding":0,"index":0}],...} and ["[0.1,...]"]
 *
 * The values of one member, at any depth, are cut if they are lists of numbers or texts of base64; what is left is small and
 * read as JSON. Each value is checked, because it is written into lines as it is: a list is valid JSON without spaces, a text
 * has only characters of base64.
 *
 * The name with its quotes, not after a backslash, is a whole text wherever the bytes are JSON: inside a text its quotes are escaped.
 * Where they are not JSON, neither is what is left.
 *
 * Hot path: 0.8 to 0.9 ns a byte, where `JSON.parse` takes 5.6 (1.5 MB of 500 vectors); the whole job: bench/jobs/embeddings.ts.
 */
import { parseJson } from "../json.ts";
import { NumberLists } from "./number_list.ts";

/** What was cut, ASCII in the order of the bytes, and the rest, in which the value of each is its place in the list. */
export interface CutEmbeddings {
  readonly values: readonly Uint8Array[];
  readonly rest: unknown;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = 0x5b;
const CLOSE = 0x5d;
const COLON = 0x3a;
/** Of one vector; no model has one of a tenth of that, and what is not a plain list is checked as a text. */
const VALUE_BYTES_MAX = 1024 * 1024;
const SPACES: ReadonlySet<number> = new Set([0x20, 0x0a, 0x0d, 0x09]);

/** Undefined where the bytes are not JSON, or a value is neither. `member` names the values: ASCII, without quotes. */
export function cutEmbeddings(body: Uint8Array, member: string): CutEmbeddings | undefined {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const name = Buffer.from(`"${member}"`);
  const lists = new NumberLists(bytes);
  const values: Uint8Array[] = [];
  const rest: string[] = [];
  let kept = 0;
  for (let at = bytes.indexOf(name); at >= 0; ) {
    const end = at + name.length;
    const start = bytes[at - 1] === BACKSLASH ? undefined : valueStart(bytes, end);
    if (start === undefined) {
      at = bytes.indexOf(name, end);
      continue;
    }
    const value = valueAt(bytes, start, lists);
    if (value === undefined) return undefined;
    rest.push(bytes.toString("utf8", kept, start), `${values.length} `);
    values.push(value.bytes);
    kept = value.end;
    at = bytes.indexOf(name, kept);
  }
  rest.push(bytes.toString("utf8", kept));
  const read = parseJson(Buffer.from(rest.join("")));
  return read === undefined ? undefined : { values, rest: read };
}

/** Where the value of a member begins that is a list or a text; undefined if the text was not a name, or its value is neither. */
function valueStart(bytes: Buffer, from: number): number | undefined {
  const colon = afterSpace(bytes, from);
  if (bytes[colon] !== COLON) return undefined;
  const start = afterSpace(bytes, colon + 1);
  return bytes[start] === OPEN || bytes[start] === QUOTE ? start : undefined;
}

function afterSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (SPACES.has(bytes[at] ?? 0)) at += 1;
  return at;
}

interface CutValue {
  readonly bytes: Uint8Array;
  /** Where the answer continues. */
  readonly end: number;
}

function valueAt(bytes: Buffer, start: number, lists: NumberLists): CutValue | undefined {
  const isList = bytes[start] === OPEN;
  const close = bytes.indexOf(isList ? CLOSE : QUOTE, start + 1);
  if (close < 0 || close - start > VALUE_BYTES_MAX) return undefined;
  const end = close + 1;
  if (isList ? lists.has(start + 1, close) : BASE64.test(bytes.toString("latin1", start, end)))
    return { bytes: new Uint8Array(bytes.buffer, bytes.byteOffset + start, end - start), end };
  const json = isList ? bytes.toString("latin1", start, end) : "";
  if (!SPACED.test(json)) return undefined;
  return { bytes: Buffer.from(json.replace(/[ \n\r\t]+/g, "")), end };
}

// Lists with spaces, as few servers write them: numbers as in number_list.ts. An empty list has no number, and no provider answers one.
const NUMBER = "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?";
const SPACE = "[ \\n\\r\\t]*";
const SPACED = new RegExp(`^\\[${SPACE}${NUMBER}${SPACE}(?:,${SPACE}${NUMBER}${SPACE})*\\]$`);
const BASE64 = /^"[A-Za-z0-9+/=_-]*"$/;
