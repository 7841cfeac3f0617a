/** Measured blocks from plain items, for tests of what comes after measuring. */
import type { MeasuredBlock, MeasuredGroup } from "../../src/shard/measured.ts";

export interface PlainItem {
  readonly line: number;
  readonly model?: string;
  /** A number that identifies a system instruction; 0 without one. */
  readonly prefix?: number;
  readonly tokens?: number;
  readonly maxOutputTokens?: number;
  readonly body?: string;
}

export function measuredBlock(items: readonly PlainItem[]): MeasuredBlock {
  const groups: MeasuredGroup[] = [];
  const groupOf = items.map(({ model = "echo:a", prefix = 0 }) => {
    const found = groups.findIndex((group) => group.model === model && group.prefixHash === prefix);
    if (found !== -1) return found;
    return groups.push({ model, prefixHash: prefix, prefixTokens: prefix, isEstimated: false }) - 1;
  });
  const keys = items.map((item) => Buffer.from(keyOf(item.line)));
  const bodies = items.map((item) => Buffer.from(bodyOf(item)));
  return {
    count: items.length,
    lines: Uint32Array.from(items, (item) => item.line),
    offsets: Float64Array.from(items, (item) => item.line * 1000),
    lengths: Uint32Array.from(items, (item) => 100 + (item.line % 10)),
    inputTokens: Uint32Array.from(items, (item) => item.tokens ?? 10),
    maxOutputTokens: Uint32Array.from(items, (item) => item.maxOutputTokens ?? 0),
    most: Uint32Array.from(
      items.flatMap((item) => [(item.tokens ?? 10) + item.line, (item.maxOutputTokens ?? 0) + 2 * item.line]),
    ),
    groupOf: Uint16Array.from(groupOf),
    warnings: Uint16Array.from(items, (item) => item.line % 2),
    warningLists: [WARNED],
    keys: new Uint8Array(Buffer.concat(keys)),
    keyEnds: endsOf(keys),
    bodies: new Uint8Array(Buffer.concat(bodies)),
    bodyEnds: endsOf(bodies),
    groups,
    rejected: [],
    blankLines: 0,
  };
}

/** The warnings of items with odd lines. */
export const WARNED = '[{"code":"text_replaced"}]';

export function keyOf(line: number): string {
  return `"key ${line}"`;
}

export function bodyOf(item: PlainItem): string {
  return item.body ?? `{"line":${item.line}}`;
}

function endsOf(parts: readonly Uint8Array[]): Uint32Array<ArrayBuffer> {
  let end = 0;
  return Uint32Array.from(parts, (part) => {
    end += part.length;
    return end;
  });
}
