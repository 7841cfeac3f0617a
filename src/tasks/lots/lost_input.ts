/**
 * A replacement for lines of a lot that were lost or changed on the disk, so that its items can end.
 *
 *   inline items      the keys that were assigned when they were accepted
 *   an uploaded file  what is left of it, then lines with the key `line-<n>`
 *
 * The replacement is never sent: its run skips every line (`skip`), so that each ends as expired or cancelled.
 */

import { join } from "node:path";
import { type Disk, type DiskFile, errorCodeOf } from "../../disk.ts";
import type { Hold } from "../../engine/items/holds.ts";
import type { EngineStorage } from "../../engine/journal/storage.ts";
import { hasCode } from "../../errors.ts";
import { itemLine } from "../../jsonl/items.ts";
import { objectId } from "../../work/object_id.ts";
import type { Files } from "../files/files.ts";
import { baseOf } from "../shapes/ids.ts";
import { unpackLines } from "./line_bits.ts";
import type { Lot } from "./lot.ts";

const READ_BYTES = 1024 * 1024;
const LINE_END = 0x0a;

/** Whether a run failed because its lines are missing or differ from what was accepted. */
export function isLostInput(error: unknown): boolean {
  return (
    hasCode(error, "input_changed") ||
    hasCode(error, "input_unreadable") ||
    hasCode(error, "file_damaged") ||
    errorCodeOf(error) === "ENOENT"
  );
}

/** Names the lines of a lot for the operator: logged faults have no text. */
export function lostNotice(lot: Lot): string {
  return `${lostText(lot)}: put them back, or their items expire at their deadline`;
}

/** What callers see until they are put back; they are read again after `nextMs`. */
export function lostHold(lot: Lot, wallMs: number, nextMs: number): Hold {
  return {
    reason: "file_damaged",
    since: lot.lost?.since ?? new Date(wallMs).toISOString(),
    next_try: new Date(wallMs + nextMs).toISOString(),
    items: 0,
    message: lostText(lot),
  };
}

function lostText(lot: Lot): string {
  return `the lines of ${fileOf(lot)} are missing or changed`;
}

/** In the data folder. */
function fileOf({ record: { id, fileId } }: Lot): string {
  return fileId === undefined ? `lots/${id}.jsonl` : `files/${fileId}`;
}

interface LostLines {
  /** The path of the lines that are left; undefined if their keys are known without it. */
  readonly left: string | undefined;
  readonly count: number;
  /** From 1; undefined for a blank line. */
  readonly keyOf: (line: number) => string | undefined;
}

export interface LinesOptions {
  readonly storage: Pick<EngineStorage, "disk" | "clock" | "notice">;
  readonly files: Pick<Files, "assertWhole">;
  /** Folder of the lots' own lines. */
  readonly folder: string;
}

/**
 * The path of the lines that a lot runs on. Lines that its last run found to be lost end at their deadline like any others; without a
 * deadline they end at once. Throws `file_damaged`.
 */
export async function linesOf({ storage, files, folder }: LinesOptions, lot: Lot): Promise<string> {
  const { project, fileId, slaMinutes } = lot.record;
  const isOverdue = slaMinutes === null || lot.deadlineMs <= storage.clock.nowMs();
  if (lot.lost !== undefined && isOverdue) return writeStandIn(storage, folder, lot);
  if (fileId !== undefined) await files.assertWhole(project, fileId);
  return lot.path;
}

/** Writes the replacement of a lot's lines; returns its path. */
async function writeStandIn(
  { disk, notice }: Pick<EngineStorage, "disk" | "notice">,
  folder: string,
  lot: Lot,
): Promise<string> {
  const { fileId, lines, again } = lot.record;
  const asked = again === undefined ? undefined : unpackLines(again.lines);
  const left = fileId === undefined ? undefined : lot.path;
  const path = standInPath(folder, lot);
  const keyOf = (line: number): string | undefined =>
    asked === undefined || asked.has(line) ? keyIn(lot, line) : undefined;
  await writeLines(disk, path, { left, count: lines, keyOf });
  notice(`the lines of ${fileOf(lot)} are lost: their items end`);
  return path;
}

/** Call it once the lot is over; a file that cannot be removed is a leftover. */
export async function removeStandIn(
  { disk }: Pick<EngineStorage, "disk">,
  folder: string,
  lot: Lot,
): Promise<void> {
  await disk.remove(standInPath(folder, lot)).catch(() => undefined);
}

function standInPath(folder: string, { record }: Lot): string {
  return join(folder, `${record.id}.lost.jsonl`);
}

/** The key of an inline item, as at its acceptance. */
function keyIn(lot: Lot, line: number): string {
  const { id, fileId, taskId, again } = lot.record;
  if ((fileId ?? again?.fileId) !== undefined) return `line-${line}`;
  const part = again?.part ?? Number(id.slice(id.lastIndexOf("-") + 1));
  if (taskId !== undefined) return objectId(taskId, baseOf(part) + line);
  const member = lot.memberAt(line);
  return member === undefined ? `line-${line}` : objectId(member.taskId, line - member.firstLine + 1);
}

async function writeLines(disk: Disk, path: string, lines: LostLines): Promise<void> {
  await disk.remove(path);
  const file = await disk.open(path, "write");
  try {
    const kept = lines.left === undefined ? NOTHING : await copyLines(disk, lines.left, file, lines.count);
    let position = kept.bytes;
    let text = "";
    for (let line = kept.lines + 1; line <= lines.count; line += 1) {
      const key = lines.keyOf(line);
      if (key !== undefined) text += itemLine({ key, model: "echo:lost", input: "lost" }, `line ${line}`);
      text += "\n";
      if (text.length < READ_BYTES && line < lines.count) continue;
      await file.write(Buffer.from(text), position);
      position += Buffer.byteLength(text);
      text = "";
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

interface Copied {
  readonly bytes: number;
  readonly lines: number;
}

const NOTHING: Copied = { bytes: 0, lines: 0 };

/** Copies complete lines, at most `linesMax`. */
async function copyLines(disk: Disk, from: string, to: DiskFile, linesMax: number): Promise<Copied> {
  if ((await disk.stat(from)) === undefined) return NOTHING;
  const file = await disk.open(from, "read");
  try {
    const chunk = new Uint8Array(READ_BYTES);
    let lines = 0;
    let end = 0; // after the last complete line
    for (let position = 0; lines < linesMax; ) {
      const length = await file.read(chunk, position);
      if (length === 0) break;
      let taken = 0;
      for (let at = chunk.indexOf(LINE_END); at >= 0 && at < length && lines < linesMax; ) {
        lines += 1;
        taken = at + 1;
        end = position + taken;
        at = chunk.indexOf(LINE_END, taken);
      }
      await to.write(chunk.subarray(0, lines < linesMax ? length : taken), position);
      position += length;
    }
    await to.truncate(end);
    return { bytes: end, lines };
  } finally {
    await file.close();
  }
}
