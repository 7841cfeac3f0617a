/**
 * Text on a terminal: how wide it is, what is cut off, and what a stream can show.
 */
import { styleText } from "node:util";

/** What a stream shows. */
export interface Screen {
  /** Whether lines can be drawn again: a terminal that is not dumb, on which nobody debugs. */
  readonly isLive: boolean;
  /** Cells of a row, and rows. */
  readonly columns: number;
  readonly rows: number;
  /** Whether it shows more than ASCII. */
  readonly isUnicode: boolean;
}

/** Text with the style in which it is shown. */
export interface ShownPart {
  readonly text: string;
  readonly style?: "cyan" | "yellow" | "red" | "green" | "dim";
}

const COLUMNS = 80;
const COLUMNS_MIN = 20;
const ROWS = 24;
/** Control characters, and those that change the direction of text. */
const CONTROLS = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
/** Wide in fonts of terminals: East Asian and emoji (Unicode TR 11, simplified to ranges). */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}]|[\u{20000}-\u{3fffd}]/u;
const PLAIN = /^[ -~]*$/;
const COMBINING = /\p{Mn}|\p{Me}|\u200b|\u200c|\u200d/u;

/** Read anew for each drawing, because a terminal changes its size. */
export function screenOf(
  stream: Pick<NodeJS.WriteStream, "isTTY" | "columns" | "rows">,
  env: Readonly<Record<string, string | undefined>>,
): Screen {
  const locale = env["LC_ALL"] || env["LC_CTYPE"] || env["LANG"] || "";
  return {
    isLive: stream.isTTY === true && env["TERM"] !== "dumb" && !env["PERIGEE_DEBUG"],
    columns: Math.max(COLUMNS_MIN, stream.columns || COLUMNS),
    rows: Math.max(2, stream.rows || ROWS),
    isUnicode: /utf-?8/i.test(locale),
  };
}

/** Without anything that a terminal would obey: names of models and messages are other people's text. */
export function shownText(text: string): string {
  return text.replace(CONTROLS, " ");
}

/** Cells that a text takes. */
export function cells(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let sum = 0;
  for (const character of text) sum += cellsOf(character);
  return sum;
}

/** As much of a text as fits, with a mark where some is cut off. */
export function cut(text: string, cellsMax: number, { isUnicode }: Pick<Screen, "isUnicode">): string {
  if (cells(text) <= cellsMax) return text;
  const mark = isUnicode ? "…" : "~";
  let [kept, sum] = ["", 0];
  for (const character of text) {
    sum += cellsOf(character);
    if (sum > cellsMax - 1) break;
    kept += character;
  }
  return `${kept}${mark}`;
}

/** A text in rows, broken at blanks where there are any; the last of `rowsMax` rows is cut. */
export function wrapped(
  text: string,
  cellsMax: number,
  rowsMax: number,
  screen: Pick<Screen, "isUnicode">,
): string[] {
  const rows: string[] = [];
  let rest = text;
  while (cells(rest) > cellsMax && rows.length < rowsMax - 1) {
    const head = [...rest].slice(0, headLength(rest, cellsMax)).join("");
    const blank = head.lastIndexOf(" ");
    const end = blank > cellsMax / 3 ? blank : head.length;
    rows.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).trimStart();
  }
  return [...rows, cut(rest, cellsMax, screen)];
}

/** The first parts that fit beside each other, two blanks between them; the first one is cut if it does not fit by itself. */
export function fitted(parts: readonly ShownPart[], screen: Screen): readonly ShownPart[] {
  const cellsMax = screen.columns - 1; // in the last column some terminals begin the next row
  const kept: ShownPart[] = [];
  let sum = 0;
  for (const part of parts) {
    const width = cells(part.text) + (kept.length === 0 ? 0 : 2);
    if (sum + width > cellsMax) break;
    kept.push(part);
    sum += width;
  }
  const [first] = parts;
  if (kept.length > 0 || first === undefined) return kept;
  return [{ ...first, text: cut(first.text, cellsMax, screen) }];
}

/** Parts in as many rows as they need, at most `rowsMax`; what does not fit there is left out. */
export function flowed(
  parts: readonly ShownPart[],
  rowsMax: number,
  screen: Screen,
): readonly (readonly ShownPart[])[] {
  const rows: (readonly ShownPart[])[] = [];
  let rest = parts;
  while (rest.length > 0 && rows.length < rowsMax) {
    const row = fitted(rest, screen);
    rows.push(row);
    rest = rest.slice(row.length);
  }
  return rows;
}

/** A row with its colours, if the stream shows any. */
export function painted(parts: readonly ShownPart[], stream: NodeJS.WriteStream): string {
  return parts
    .map(({ text, style }) => (style === undefined ? text : styleText(style, text, { stream })))
    .join("  ");
}

/** A bar of so many cells; `share` from 0 to 1. */
export function bar(share: number, width: number, { isUnicode }: Pick<Screen, "isUnicode">): string {
  const full = Math.floor(Math.min(1, Math.max(0, share)) * width);
  if (isUnicode) return `${"█".repeat(full)}${"░".repeat(width - full)}`;
  return `[${"#".repeat(Math.max(0, full - 2))}${".".repeat(width - 2 - Math.max(0, full - 2))}]`;
}

function cellsOf(character: string): number {
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** How many characters from the start fit. */
function headLength(text: string, cellsMax: number): number {
  let [count, sum] = [0, 0];
  for (const character of text) {
    sum += cellsOf(character);
    if (sum > cellsMax) break;
    count += 1;
  }
  return Math.max(1, count);
}
