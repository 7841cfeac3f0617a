/**
 * The files of the audit log: `audit-2026-01.jsonl` and so on in the data folder, one for each month in UTC, whose lines
 * are one chain. Files are kept for 13 months after their own.
 */
import { join } from "node:path";
import type { Disk, DiskFile } from "../../disk.ts";
import { CHAIN_START, type ChainEnd, readAuditLine } from "./audit_line.ts";

/** Months since year 0, UTC. */
export type Month = number;

const MONTHS_KEPT = 13;
/** How many months back files to remove are searched, and how many ahead, where a clock was wrong. */
const MONTHS_BEHIND = 60;
const MONTHS_AHEAD = 12;
/** No line is longer. */
const LINE_BYTES_MAX = 8_192;

export function monthOf(wallMs: number): Month {
  const date = new Date(wallMs);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

export function auditPath(dataDir: string, month: Month): string {
  const inYear = String((month % 12) + 1).padStart(2, "0");
  return join(dataDir, `audit-${Math.floor(month / 12)}-${inYear}.jsonl`);
}

/** Months that have a file, oldest first. */
export async function auditMonths(disk: Disk, dataDir: string, now: Month): Promise<Month[]> {
  const months: Month[] = [];
  for (let month = now - MONTHS_BEHIND; month <= now + MONTHS_AHEAD; month += 1) {
    const found = await disk.stat(auditPath(dataDir, month));
    if (found !== undefined && found.sizeBytes > 0) months.push(month);
  }
  return months;
}

/**
 * Removes the files of months that are older than `MONTHS_KEPT`, counted from the newest file, not from `now`: a clock that is
 * far ahead when the log is opened has written nothing yet. After months without events, removing old files takes one more
 * write.
 */
export async function removeOldAudit(disk: Disk, dataDir: string, now: Month): Promise<void> {
  const months = await auditMonths(disk, dataDir, now);
  const seen = Math.min(now, (months.at(-1) ?? now) + 1);
  for (const month of months) if (month < seen - MONTHS_KEPT) await disk.remove(auditPath(dataDir, month));
}

/**
 * Cuts what follows the last whole line, and returns the state of the chain there. Where the last line does not hold
 * what was written, the chain begins again; a check finds the place.
 */
export async function cutTail(
  file: DiskFile,
): Promise<{ readonly sizeBytes: number; readonly end: ChainEnd }> {
  const sizeBytes = await file.sizeBytes();
  const from = Math.max(0, sizeBytes - 2 * LINE_BYTES_MAX);
  const bytes = Buffer.alloc(sizeBytes - from);
  const tail = bytes.subarray(0, await file.read(bytes, from));
  const wholeBytes = tail.lastIndexOf(0x0a) + 1;
  if (from + wholeBytes < sizeBytes) await file.truncate(from + wholeBytes);
  const last = tail.subarray(0, Math.max(0, wholeBytes - 1));
  const line = last.subarray(last.lastIndexOf(0x0a) + 1).toString("utf8");
  return { sizeBytes: from + wholeBytes, end: readAuditLine(line)?.end ?? CHAIN_START };
}
