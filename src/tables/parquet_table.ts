/**
 * A Parquet file as a table, read by hyparquet: row group by row group, and in slices of 65,536 rows where the file has offset indexes.
 *
 *   text, enum, UUID                a text            integers, floating point, decimals   numbers with all their digits
 *   bytes                           a text if they are UTF-8, else base64
 *   timestamps, dates               a text such as 2026-05-01T10:00:00.123456Z, 2026-05-01; NaN and infinities: a text
 *   lists, maps, structures, JSON   JSON
 *
 * Limits: encrypted files are refused. Memory is that of a row group, decoded; of a slice with offset indexes.
 */

import { isUtf8 } from "node:buffer";
import { open } from "node:fs/promises";
import type { AsyncBuffer, FileMetaData, SchemaElement } from "hyparquet";
import { PerigeeError } from "../errors.ts";
import type { Cell, CellType, Column } from "./cell.ts";
import { columnNames, type RowBatch, type Table } from "./table.ts";

const SLICE_ROWS = 65_536;
const ENCRYPTED_MAGIC = "PARE";
const DAY_MS = 86_400_000;

interface ParquetFile extends AsyncBuffer {
  close(): Promise<void>;
}

/** Throws as `openTable` does. */
export async function openParquet(path: string): Promise<Table> {
  const file = await openFile(path);
  try {
    const metadata = await metadataOf(file, path);
    const top = topElements(metadata);
    const names = columnNames(
      top.map(({ element }) => element.name),
      path,
    );
    const columns: Column[] = top.map(({ element, isNested }, index) => ({
      name: names[index] ?? "",
      type: isNested ? "json" : typeOf(element),
    }));
    const scales = top.map(({ element, isNested }) => (isNested ? undefined : withoutDecimal(element)));
    return { name: path, format: "parquet", columns, batches: () => batches(path, metadata, scales) };
  } finally {
    await file.close();
  }
}

async function* batches(
  path: string,
  metadata: FileMetaData,
  scales: readonly (number | undefined)[],
): AsyncGenerator<RowBatch> {
  const [{ parquetRead }, { compressors }] = await Promise.all([
    import("hyparquet"),
    import("hyparquet-compressors"),
  ]);
  const file = await openFile(path);
  try {
    let groupStart = 0;
    for (const { num_rows, columns } of metadata.row_groups) {
      const groupEnd = groupStart + Number(num_rows);
      const useOffsetIndex = columns.every(({ offset_index_offset }) => offset_index_offset !== undefined);
      const step = useOffsetIndex ? SLICE_ROWS : Number(num_rows);
      for (let rowStart = groupStart; rowStart < groupEnd; rowStart += step) {
        let found: unknown[][] = [];
        await parquetRead({
          ...{ file, metadata, compressors, useOffsetIndex, utf8: false, parsers: PARSERS },
          ...{ rowStart, rowEnd: Math.min(rowStart + step, groupEnd), rowFormat: "array" as const },
          onComplete: (rows: unknown[][]) => {
            found = rows;
          },
        }).catch((cause: unknown) => {
          throw unreadable(path, `row ${rowStart + 1} and the following cannot be read`, cause);
        });
        const rows = found.map((row) => scales.map((scale, index) => cellOf(row[index], scale)));
        if (rows.length > 0) yield { firstRow: rowStart + 1, rows };
      }
      groupStart = groupEnd;
    }
  } finally {
    await file.close();
  }
}

async function metadataOf(file: ParquetFile, path: string): Promise<FileMetaData> {
  const tail =
    file.byteLength < 4 ? "" : Buffer.from(await file.slice(file.byteLength - 4)).toString("latin1");
  if (tail === ENCRYPTED_MAGIC) throw encrypted(path);
  const { parquetMetadataAsync } = await import("hyparquet");
  const metadata = await parquetMetadataAsync(file).catch((cause: unknown) => {
    throw unreadable(path, "it is not a Parquet file, or it is cut", cause);
  });
  const isEncrypted = metadata.row_groups.some(({ columns }) =>
    columns.some(
      ({ meta_data, encrypted_column_metadata }) =>
        meta_data === undefined || encrypted_column_metadata !== undefined,
    ),
  );
  if (isEncrypted) throw encrypted(path);
  return metadata;
}

function encrypted(path: string): PerigeeError {
  return new PerigeeError(
    "unsupported_encoding",
    `${path} is encrypted, which is not supported: write it again without encryption`,
  );
}

function unreadable(path: string, why: string, cause: unknown): PerigeeError {
  const reason = cause instanceof Error ? `: ${cause.message}` : "";
  return new PerigeeError("input_unreadable", `${path}: ${why}${reason}`, { cause });
}

interface TopElement {
  readonly element: SchemaElement;
  readonly isNested: boolean;
}

/** The columns; what is below them is left out. */
function topElements({ schema }: FileMetaData): TopElement[] {
  const found: TopElement[] = [];
  let at = 1; // the root
  const skip = (): void => {
    const { num_children = 0 } = schema[at++] ?? {};
    for (let child = 0; child < num_children; child += 1) skip();
  };
  while (at < schema.length) {
    const element = schema[at] as SchemaElement; // within the list
    found.push({
      element,
      isNested: (element.num_children ?? 0) > 0 || element.repetition_type === "REPEATED",
    });
    skip();
  }
  return found;
}

function typeOf({ type, converted_type, logical_type }: SchemaElement): CellType {
  if (converted_type === "JSON") return "json";
  const isPlain = logical_type === undefined || logical_type.type === "INTEGER";
  if (type === "BOOLEAN") return "boolean";
  if ((type === "INT32" || type === "INT64") && isPlain)
    return converted_type === undefined || /^U?INT_(8|16|32)$|^INT_64$/.test(converted_type)
      ? "integer"
      : "text";
  if (type === "FLOAT" || type === "DOUBLE") return "number";
  return "text";
}

/**
 * The scale of a decimal, which is then read as the whole number that it is stored as: hyparquet would divide it as a double. Undefined
 * for other types.
 */
function withoutDecimal(element: SchemaElement): number | undefined {
  if (element.converted_type !== "DECIMAL" && element.logical_type?.type !== "DECIMAL") return undefined;
  const logical = element.logical_type as { readonly scale?: number } | undefined;
  const scale = element.scale ?? logical?.scale ?? 0;
  delete element.converted_type;
  delete element.logical_type;
  return scale;
}

const PARSERS = {
  timestampFromMilliseconds: (millis: bigint) => timestamp(BigInt(millis), 1_000n),
  timestampFromMicroseconds: (micros: bigint) => timestamp(BigInt(micros), 1_000_000n),
  timestampFromNanoseconds: (nanos: bigint) => timestamp(BigInt(nanos), 1_000_000_000n),
  dateFromDays: (days: number) => isoDate(days * DAY_MS)?.slice(0, 10) ?? `day ${days}`,
} as unknown as Record<string, never>; // what they return is a cell, not the date that the package's types expect

/** With as many digits of the second as the unit has, but for zeros at the end. */
function timestamp(value: bigint, unitsPerSecond: bigint): string {
  const fraction = ((value % unitsPerSecond) + unitsPerSecond) % unitsPerSecond;
  const seconds = (value - fraction) / unitsPerSecond;
  const text = isoDate(Number(seconds) * 1_000)?.slice(0, 19);
  if (text === undefined) return `${value}/${unitsPerSecond} s`;
  const digits = String(fraction)
    .padStart(String(unitsPerSecond).length - 1, "0")
    .replace(/0+$/, "");
  return `${text}${digits === "" ? "" : `.${digits}`}Z`;
}

/** Undefined for what no calendar of JavaScript reaches. */
function isoDate(ms: number): string | undefined {
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : undefined;
}

function cellOf(value: unknown, scale: number | undefined): Cell {
  if (value === null || value === undefined) return null;
  if (scale !== undefined) return { json: decimal(value, scale) };
  if (typeof value === "string") return value;
  if (typeof value === "bigint" || typeof value === "boolean") return { json: String(value) };
  if (typeof value === "number")
    return Number.isFinite(value) ? { json: JSON.stringify(value) } : String(value);
  if (value instanceof Uint8Array) return textOfBytes(value);
  return { json: jsonText(value) };
}

function textOfBytes(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString(isUtf8(bytes) ? "utf8" : "base64");
}

function jsonText(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  if (value instanceof Uint8Array) return JSON.stringify(textOfBytes(value));
  if (value instanceof Date) return JSON.stringify(value);
  if (Array.isArray(value) || ArrayBuffer.isView(value))
    return `[${Array.from(value as ArrayLike<unknown>, jsonText).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`,
  );
  return `{${members.join(",")}}`;
}

/** A whole number of units of 10^-scale, as a JSON number with all its digits. */
function decimal(stored: unknown, scale: number): string {
  const units = stored instanceof Uint8Array ? signed(stored) : BigInt(stored as number | bigint);
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, "0");
  const whole = digits.slice(0, digits.length - scale);
  return `${units < 0n ? "-" : ""}${whole}${scale === 0 ? "" : `.${digits.slice(-scale)}`}`;
}

/** Two's complement, the highest byte first. */
function signed(bytes: Uint8Array): bigint {
  if (bytes.length === 0) return 0n;
  return BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString("hex")}`));
}

async function openFile(path: string): Promise<ParquetFile> {
  const handle = await open(path, "r").catch((cause: unknown) => {
    throw new PerigeeError("input_unreadable", `${path} cannot be opened`, { cause });
  });
  const { size } = await handle.stat();
  return {
    byteLength: size,
    async slice(start, end = size) {
      const from = start < 0 ? size + start : start;
      const bytes = new Uint8Array(end - from);
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, from);
      return bytes.buffer.slice(0, bytesRead);
    },
    close: () => handle.close(),
  };
}
