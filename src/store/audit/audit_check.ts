/**
 * Checks the chain of the audit log: that no line was changed, taken out, put in or moved.
 *
 * Not found by it: lines cut off at the very end, and whole files taken away from the beginning, as happens after 13
 * months; `firstLine` says where the chain begins now.
 */
import type { Clock } from "../../clock.ts";
import type { Disk } from "../../disk.ts";
import { auditMonths, auditPath, monthOf } from "./audit_files.ts";
import { CHAIN_START, readAuditLine } from "./audit_line.ts";

/** What a check found. */
export type AuditCheck =
  | {
      readonly isWhole: true;
      readonly lines: number;
      /** Number of the first line that still exists; 1 while nothing was removed. */
      readonly firstLine: number;
      /** Hash of the last line. */
      readonly lastHash: string;
    }
  | {
      readonly isWhole: false;
      /** Path and line, counted from 1, where the chain breaks. */
      readonly file: string;
      readonly line: number;
      readonly reason: "changed" | "out_of_order";
    };

export interface AuditPlace {
  readonly dataDir: string;
  readonly disk: Disk;
  readonly clock: Pick<Clock, "wallMs">;
}

/** A line that is being written at the end counts for nothing. */
export async function verifyAudit({ dataDir, disk, clock }: AuditPlace): Promise<AuditCheck> {
  let end = CHAIN_START;
  let lines = 0;
  let firstLine = 1;
  for (const month of await auditMonths(disk, dataDir, monthOf(clock.wallMs()))) {
    const file = auditPath(dataDir, month);
    let line = 0;
    for await (const text of linesOf(disk, file)) {
      line += 1;
      const found = readAuditLine(text);
      if (found === undefined) return { isWhole: false, file, line, reason: "changed" };
      const isStart = lines === 0 && (found.end.n > 1 || found.prev === CHAIN_START.hash);
      if (isStart) firstLine = found.end.n;
      else if (found.prev !== end.hash || found.end.n !== end.n + 1)
        return { isWhole: false, file, line, reason: "out_of_order" };
      end = found.end;
      lines += 1;
    }
  }
  return { isWhole: true, lines, firstLine, lastHash: end.hash };
}

const CHUNK_BYTES = 1 << 16;

/** Whole lines; what follows the last line end is left out. */
async function* linesOf(disk: Disk, path: string): AsyncGenerator<string, void, undefined> {
  const file = await disk.open(path, "read");
  try {
    let rest: Uint8Array = new Uint8Array();
    for (let position = 0; ; ) {
      const chunk = new Uint8Array(CHUNK_BYTES);
      const size = await file.read(chunk, position);
      if (size === 0) return;
      position += size;
      const bytes = Buffer.concat([rest, chunk.subarray(0, size)]);
      const whole = bytes.lastIndexOf(0x0a) + 1;
      rest = bytes.subarray(whole);
      if (whole > 0) yield* bytes.toString("utf8", 0, whole - 1).split("\n");
    }
  } finally {
    await file.close();
  }
}
