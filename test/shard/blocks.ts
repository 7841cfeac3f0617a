/** Blocks, files and settings for tests of measuring. */
import type { DiskFile } from "../../src/disk.ts";
import type { Block, ReaderEvent } from "../../src/jsonl/block.ts";
import type { MeasureSettings } from "../../src/shard/measure.ts";

export const SETTINGS: MeasureSettings = {
  providers: [
    { name: "echo", protocol: "echo", baseUrl: "" },
    { name: "openai", protocol: "openai", baseUrl: "https://api.openai.com/v1" },
    { name: "mine", protocol: "openai", baseUrl: "http://mine.test/v1" },
    { name: "anthropic", protocol: "anthropic", baseUrl: "https://api.anthropic.com/v1" },
  ],
  lineBytesMax: 10 * 1024 * 1024,
  depthMax: 64,
  keyBytesMax: 512,
};

export function blockOf(
  text: string | Uint8Array,
  { offset = 0, firstLine = 1 }: { readonly offset?: number; readonly firstLine?: number } = {},
): Block {
  const bytes = new Uint8Array(Buffer.from(text));
  let lineCount = 0;
  for (const byte of bytes) if (byte === 0x0a) lineCount += 1;
  if (bytes.length > 0 && bytes[bytes.length - 1] !== 0x0a) lineCount += 1;
  return { bytes, offset, firstLine, lineCount };
}

/** A line of the interface's layout. */
export function lineOf(
  key: string,
  text: string,
  { model = "echo:a", system }: { readonly model?: string; readonly system?: string } = {},
): string {
  const request = {
    model,
    contents: [{ parts: [{ text }] }],
    ...(system === undefined ? {} : { system_instruction: { parts: [{ text: system }] } }),
  };
  return JSON.stringify({ key, request });
}

/** A file in memory that can be read. */
export function fileOf(text: string): Pick<DiskFile, "read"> {
  const bytes = Buffer.from(text);
  return {
    read: async (into, position) => {
      const part = bytes.subarray(position, position + into.byteLength);
      into.set(part);
      return part.length;
    },
  };
}

/** The blocks of a text, `blockLines` lines each. */
export async function* blocksOf(text: string, blockLines: number): AsyncGenerator<ReaderEvent> {
  const lines = text.split(/(?<=\n)/);
  let offset = 0;
  for (let from = 0; from < lines.length; from += blockLines) {
    const part = lines.slice(from, from + blockLines).join("");
    yield { kind: "block", block: blockOf(part, { offset, firstLine: from + 1 }) };
    offset += Buffer.byteLength(part);
  }
}
