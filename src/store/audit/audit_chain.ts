/**
 * The newest file of the audit log, at its end: lines are appended to it in one chain of hashes.
 *
 *   closed --opened--> open --a later month, or another process wrote--> open, after its end was read again
 *
 * Call it under the lock of the files.
 */
import type { Clock } from "../../clock.ts";
import type { Disk, DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { auditMonths, auditPath, cutTail, type Month, monthOf, removeOldAudit } from "./audit_files.ts";
import { auditLine, CHAIN_START, type ChainEnd, type TimedEvent } from "./audit_line.ts";

export interface AuditChainOptions {
  readonly dataDir: string;
  readonly clock: Clock;
  readonly disk: Disk;
}

interface OpenFile {
  readonly file: DiskFile;
  readonly month: Month;
  sizeBytes: number;
}

/** One for each audit log. */
export class AuditChain {
  readonly #options: AuditChainOptions;
  #open: OpenFile | undefined;
  #end: ChainEnd = CHAIN_START;

  constructor(options: AuditChainOptions) {
    this.#options = options;
  }

  /** Finds the end of the newest file. Call it before `append`. */
  async open(): Promise<void> {
    this.#open = await this.#newest();
  }

  /** Writes a line for each event and syncs them. */
  async append(events: readonly TimedEvent[]): Promise<void> {
    const open = this.#open;
    if (open === undefined) throw new Error("the audit log's file is not open");
    let end = this.#end;
    const texts = events.map((event) => {
      const line = auditLine(event, end);
      end = line.end;
      return `${line.text}\n`;
    });
    const bytes = Buffer.from(texts.join(""));
    await open.file.write(bytes, open.sizeBytes);
    await sync(open.file);
    open.sizeBytes += bytes.byteLength;
    this.#end = end;
  }

  async close(): Promise<void> {
    await this.#open?.file.close();
    this.#open = undefined;
  }

  /** The file of this month, or of a later one when there is one, at its end. */
  async #newest(): Promise<OpenFile> {
    const { dataDir, disk, clock } = this.#options;
    const now = monthOf(clock.wallMs());
    const known = this.#open;
    // What another process wrote, or this one left half written, makes it longer or shorter.
    if (known !== undefined && known.month >= now && (await known.file.sizeBytes()) === known.sizeBytes)
      return known;
    await this.close();
    await removeOldAudit(disk, dataDir, now);
    const last = (await auditMonths(disk, dataDir, now)).at(-1);
    if (last !== undefined && last < now) {
      const before = await disk.open(auditPath(dataDir, last), "write");
      this.#end = (await cutTail(before)).end;
      await before.close();
    }
    const month = Math.max(now, last ?? now);
    const file = await disk.open(auditPath(dataDir, month), "write");
    const { sizeBytes, end } = await cutTail(file);
    if (sizeBytes > 0 || last === undefined) this.#end = end;
    return { file, month, sizeBytes };
  }
}

/** A sync that failed is final, for any reason: a second one would succeed without having written. */
async function sync(file: DiskFile): Promise<void> {
  await file.sync().catch((cause: unknown) => {
    throw new PerigeeError("store_failed", "cannot sync the audit log", { cause });
  });
}
