/**
 * A replacement for lines of a lot that were lost or changed on the disk, so that its items can end.
 *
 *   inline items      the keys that were assigned when they were accepted
 *   an uploaded file  the lines that can still be read; each other line has its key, or `line-<n>` if that is lost too
 *
 * The replacement is never sent: its run skips every line (`skip`), so that each ends as expired or cancelled.
 */

import { join } from "node:path";
import { type DiskFile, errorCodeOf } from "../../disk.ts";
import type { EngineCore } from "../../engine/core.ts";
import type { Hold } from "../../engine/items/holds.ts";
import type { EngineStorage } from "../../engine/journal/storage.ts";
import { hasCode } from "../../errors.ts";
import { type Block, lastLineOf } from "../../jsonl/block.ts";
import { itemLine } from "../../jsonl/items.ts";
import { eachLine, isBlank } from "../../jsonl/lines.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import type { Measurer } from "../../shard/pool.ts";
import { LineSet } from "../../work/line_set.ts";
import { objectId } from "../../work/object_id.ts";
import type { Files } from "../files/files.ts";
import { baseOf } from "../shapes/ids.ts";
import { itemLinesIn, itemsUpTo } from "./item_lines.ts";
import { unpackLines } from "./line_bits.ts";
import type { Lot } from "./lot.ts";

const WRITE_BYTES = 1024 * 1024;

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

export interface LinesOptions {
  readonly core: Pick<EngineCore, "storage" | "measurer">;
  readonly files: Pick<Files, "assertWhole">;
  /** Folder of the lots' own lines. */
  readonly folder: string;
  /** Reads how lines of a lot have ended in earlier runs. */
  readonly replay: (lot: Lot) => Promise<unknown>;
}

/**
 * The path of the lines that a lot runs on. Lines that its last run found to be lost end at their deadline like any others; without a
 * deadline they end at once. Throws `file_damaged`.
 */
export async function linesOf(options: LinesOptions, lot: Lot): Promise<string> {
  const { project, fileId, slaMinutes } = lot.record;
  const isOverdue = slaMinutes === null || lot.deadlineMs <= options.core.storage.clock.nowMs();
  if (lot.lost !== undefined && isOverdue) {
    await options.replay(lot);
    return writeStandIn(options, lot);
  }
  if (fileId !== undefined) await options.files.assertWhole(project, fileId);
  return lot.path;
}

/** Writes the replacement of a lot's lines; returns its path. */
async function writeStandIn(options: Pick<LinesOptions, "core" | "folder">, lot: Lot): Promise<string> {
  const path = standInPath(options.folder, lot);
  await writeLines(options.core, path, lot);
  options.core.storage.notice(`the lines of ${fileOf(lot)} are lost: their items end`);
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

/** What was written of the lines that are left. */
interface Left {
  readonly bytes: number;
  readonly lines: number;
  /** Those that are not blank. */
  readonly items: number;
}

const NOTHING: Left = { bytes: 0, lines: 0, items: 0 };

async function writeLines(core: LinesOptions["core"], path: string, lot: Lot): Promise<void> {
  const { disk } = core.storage;
  const { fileId, lines } = lot.record;
  await disk.remove(path);
  const file = await disk.open(path, "write");
  try {
    const left = fileId === undefined ? NOTHING : await writeLeft(core, lot, file);
    const items = itemsAfter(lot, left);
    let position = left.bytes;
    let text = "";
    for (let line = left.lines + 1; line <= lines; line += 1) {
      text += items.has(line) ? standInLine(keyIn(lot, line), line) : "\n";
      if (text.length < WRITE_BYTES && line < lines) continue;
      await file.write(Buffer.from(text), position);
      position += Buffer.byteLength(text);
      text = "";
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The lines after those that are left which are items. */
function itemsAfter(lot: Lot, left: Left): LineSet {
  const { record } = lot;
  if (record.again !== undefined) return unpackLines(record.again.lines);
  const items = new LineSet();
  const steps = Math.max(1, record.itemLines.length);
  let before = left.items;
  for (let step = 0; step < steps; step += 1) {
    const upTo = step === steps - 1 ? record.items : itemsUpTo(record, step);
    const lines = itemLinesIn(lot, step, upTo - before, left.lines + 1);
    for (const line of lines) items.add(line);
    before = Math.max(before, upTo);
  }
  return items;
}

function standInLine(key: string, line: number): string {
  return `${itemLine({ key, model: "echo:lost", input: "lost" }, `line ${line}`)}\n`;
}

/** Copies the lines that can be read, and writes a replacement for each other one: its damage must not say how it ends. */
async function writeLeft(
  { storage: { disk }, measurer }: LinesOptions["core"],
  lot: Lot,
  to: DiskFile,
): Promise<Left> {
  if ((await disk.stat(lot.path)) === undefined) return NOTHING;
  const file = await disk.open(lot.path, "read");
  const linesMax = lot.record.lines;
  let bytes = 0;
  let lines = 0;
  let items = 0;
  try {
    for await (const event of readBlocks(file, { lineBytesMax: LINE_BYTES_MAX })) {
      const found =
        event.kind === "refused"
          ? { text: standInLine(keyIn(lot, event.refused.line), event.refused.line), items: 1 }
          : await readable(measurer, lot, event.block);
      const written = Buffer.from(found.text);
      await to.write(written, bytes);
      bytes += written.byteLength;
      items += found.items;
      lines = Math.min(linesMax, lastLineOf(event));
      if (lines === linesMax) break;
    }
    return { bytes, lines, items };
  } finally {
    await file.close();
  }
}

/** The lines of a block that belong to the lot, with the number of items; those that cannot be read are replaced. */
async function readable(
  measurer: Measurer,
  lot: Lot,
  block: Block,
): Promise<{ readonly text: string; readonly items: number }> {
  const bytes = Buffer.from(block.bytes); // a copy: the block moves to a thread
  const { rejected } = await measurer.measure(block, { wantBodies: false, wantCounts: false });
  const unreadable = new Map(
    rejected.flatMap(({ line, key, code }) => (code === "provider_missing" ? [] : [[line, key]])),
  );
  let text = "";
  let items = 0;
  let line = block.firstLine;
  eachLine(bytes, (start, end) => {
    if (line <= lot.record.lines) {
      text += unreadable.has(line)
        ? standInLine(unreadable.get(line) ?? keyIn(lot, line), line)
        : `${bytes.toString("utf8", start, end)}\n`;
      if (!isBlank(bytes, start, end)) items += 1;
    }
    line += 1;
  });
  return { text, items };
}
