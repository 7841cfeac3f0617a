/**
 * Runs lines of a task that ended in an error again, in new lots beside the earlier ones.
 *
 *   failed lines of each part -> their texts written under the same line numbers, all others blank -> admitted as new work
 *     -> the task names the new lots, in one commit with them -> begun
 *
 * A crash before the commit leaves a file of lines that no record knows. From the commit on the lines belong to the new lot
 * (`part_layers.ts`), so each key has exactly one line at every moment, and after a kill the lot continues like any other. The window
 * of a line counts from its retry; its price factor does not change.
 */
import { join } from "node:path";
import type { DiskFile } from "../../disk.ts";
import type { EngineCore } from "../../engine/core.ts";
import { checkOutput } from "../../engine/files/output_check.ts";
import { decodeBody } from "../../engine/files/task_body.ts";
import type { RetryFailed } from "../../engine/reopening/reopen.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import { asBuffer, eachLine } from "../../jsonl/lines.ts";
import { readBlocks } from "../../jsonl/read.ts";
import type { LineSet } from "../../work/line_set.ts";
import type { Files } from "../files/files.ts";
import { onDisk } from "../files/upload.ts";
import { packLines } from "../lots/line_bits.ts";
import type { Lot } from "../lots/lot.ts";
import { type LotRecord, lotRunName } from "../lots/lot_record.ts";
import type { Lots } from "../lots/lots.ts";
import { INDEX_STEP } from "../lots/request_spool.ts";
import {
  isPartCancelled,
  retriesOf,
  type TaskPart,
  type TaskRecord,
  taskToRecord,
} from "../lots/task_record.ts";
import { type FailedLines, failedLines } from "./failed_lines.ts";
import type { LargeAcceptance } from "./large_acceptance.ts";
import { basesOf, type Layer, layersOf } from "./part_layers.ts";

const RETRIES_MAX = 64;
const CHUNK_BYTES = 1024 * 1024;

interface RetryingOptions {
  readonly core: Pick<EngineCore, "storage" | "config">;
  readonly lots: Lots;
  readonly files: Pick<Files, "assertWhole">;
  readonly acceptance: LargeAcceptance;
}

/** A task with lots to begin, and the number of lines that they run again. */
export interface Retried {
  readonly task: TaskRecord;
  readonly lots: readonly Lot[];
  readonly items: number;
}

interface Again extends FailedLines {
  readonly base: number;
  readonly layers: readonly Layer[];
}

/** One for a store; it retries one task at a time. */
export class Retrying {
  readonly #options: RetryingOptions;

  constructor(options: RetryingOptions) {
    this.#options = options;
  }

  /**
   * Resolves when it is durable; returns no lots if no line runs again. `payload`: the texts of a task that shares its lot. Throws
   * `conflict` if its file was removed, `file_damaged`, `too_many`, and what admission throws.
   */
  async offer(task: TaskRecord, payload: Uint8Array | undefined, retry: RetryFailed): Promise<Retried> {
    const found: Again[] = [];
    for (const base of basesOf(task)) {
      const layers = await layersOf(this.#options.lots, task, base);
      const isCancelled = ({ lot, index }: Layer): boolean =>
        lot.record.taskId === undefined && isPartCancelled(task, index);
      const failed = await failedLines(this.#options.core, layers, retry, isCancelled);
      if (failed.lines.size > 0) found.push({ base, layers, ...failed });
    }
    if (found.length === 0) return { task, lots: [], items: 0 };
    if (retriesOf(task) + found.length > RETRIES_MAX)
      throw new PerigeeError("too_many", `a task has at most ${RETRIES_MAX} retries: submit the items anew`);
    const records: LotRecord[] = [];
    try {
      for (const again of found)
        records.push(await this.#write(task, payload, again, task.parts.length + records.length));
    } catch (error) {
      await this.#options.acceptance.removeLines(records);
      throw error;
    }
    const opening = this.#options.acceptance.open(task.project, records, (accepted) => {
      const parts = accepted.records.map((record, index) => partOf(record, found[index] as Again));
      const { endsWithCaller: _, ...kept } = task; // who retries it wants its answers later
      const next = { ...kept, parts: [...task.parts, ...parts] };
      return { made: next, change: { kind: "put", record: taskToRecord(next, payload) } };
    });
    const { lots, made } = await opening;
    return { task: made, lots, items: records.reduce((sum, { items }) => sum + items, 0) };
  }

  /** Writes the lines that run again; returns their lot. */
  async #write(
    task: TaskRecord,
    payload: Uint8Array | undefined,
    { base, layers, lines }: Again,
    index: number,
  ): Promise<LotRecord> {
    const { core, lots } = this.#options;
    const { lot } = layers[0] as Layer;
    const { firstLine, lines: count, slaMinutes, lotId } = task.parts[base] as TaskPart;
    const {
      project,
      fileId,
      schema,
      rateCard,
      costFloors,
      refundShare,
      volumeTokens,
      keepsBodies,
      cacheTtl,
    } = lot.record;
    const acceptedAt = core.storage.clock.moment();
    const record: LotRecord = {
      id: `${task.id}-${index}`,
      project,
      slaMinutes,
      acceptedWallMs: acceptedAt.wallMs,
      acceptedAt,
      taskId: task.id,
      isSealed: true,
      lines: count,
      items: lines.size,
      volumeTokens,
      keepsBodies,
      ...(schema === undefined ? {} : { schema }),
      cacheTtl,
      ...(rateCard === undefined ? {} : { rateCard }),
      ...(costFloors === undefined ? {} : { costFloors }),
      ...(refundShare === undefined ? {} : { refundShare }),
      again: {
        lotId,
        part: base,
        firstLine,
        ...(fileId === undefined ? {} : { fileId }),
        lines: packLines(lines, count),
      },
      itemLines: [],
      itemOffsets: [],
    };
    const path = lots.pathOf(record);
    const file = await onDisk(core.storage.disk.open(path, "write"));
    try {
      await onDisk(file.truncate(0));
      const written = await this.#copy(lot, payload, lines, new SparseLines(file));
      return { ...record, ...written };
    } catch (error) {
      await core.storage.disk.remove(path).catch(() => undefined);
      throw error;
    } finally {
      await file.close();
    }
  }

  async #copy(
    lot: Lot,
    payload: Uint8Array | undefined,
    lines: LineSet,
    writer: SparseLines,
  ): Promise<Pick<LotRecord, "bytes" | "itemLines" | "itemOffsets">> {
    if (lot.record.taskId === undefined) {
      for (const [index, text] of Buffer.from(payload ?? [])
        .toString()
        .split("\n")
        .entries())
        if (lines.has(index + 1)) await writer.add(index + 1, Buffer.from(text));
      return writer.end();
    }
    await this.#assertWhole(lot);
    const file = await this.#options.core.storage.disk.open(lot.path, "read");
    try {
      for await (const event of readBlocks(file)) {
        if (event.kind === "refused") continue;
        const bytes = asBuffer(event.block.bytes);
        const wanted: { readonly line: number; readonly text: Uint8Array }[] = [];
        let line = event.block.firstLine;
        eachLine(bytes, (start, end) => {
          if (lines.has(line)) wanted.push({ line, text: bytes.subarray(start, end) });
          line += 1;
        });
        for (const each of wanted) await writer.add(each.line, each.text);
      }
    } finally {
      await file.close();
    }
    return writer.end();
  }

  /** Checks that the lines are those that were accepted. */
  async #assertWhole(lot: Lot): Promise<void> {
    const { core, files } = this.#options;
    const { project, fileId, id } = lot.record;
    if (fileId !== undefined) {
      try {
        await files.assertWhole(project, fileId);
      } catch (error) {
        if (!hasCode(error, "not_found")) throw error;
        const message = `the file ${fileId} of the task was removed: upload its lines again and submit them`;
        throw new PerigeeError("conflict", message, { cause: error });
      }
      return;
    }
    const { disk, store } = core.storage;
    const run = await store.taskByName(lotRunName(id));
    const checksum = run === undefined ? undefined : decodeBody(run.body).inputChecksum;
    if (checksum === undefined) {
      const sizeBytes = (await disk.stat(lot.path))?.sizeBytes; // its lines were lost before they were first read
      if (sizeBytes === undefined || sizeBytes !== (lot.record.bytes ?? sizeBytes)) throw damagedLot(id);
      return;
    }
    await checkOutput(disk, lot.path, checksum).catch((cause: unknown) => {
      throw hasCode(cause, "output_changed") ? damagedLot(id, cause) : cause;
    });
  }
}

function damagedLot(id: string, cause?: unknown): PerigeeError {
  const message = `${join("lots", `${id}.jsonl`)} is not what was accepted: restore the data folder from a backup, or submit the items again`;
  return new PerigeeError("file_damaged", message, { cause });
}

/** Writes some lines of a file under their numbers; those between them are blank. */
class SparseLines {
  readonly #file: DiskFile;
  readonly #itemLines: number[] = [];
  readonly #itemOffsets: number[] = [];
  #chunks: Uint8Array[] = [];
  #chunkBytes = 0;
  #bytes = 0;
  #line = 1;
  #items = 0;

  constructor(file: DiskFile) {
    this.#file = file;
  }

  /** Call it with rising lines. */
  async add(line: number, text: Uint8Array): Promise<void> {
    const blank = Buffer.alloc(line - this.#line, "\n");
    if (this.#items % INDEX_STEP === 0) {
      this.#itemLines.push(line);
      this.#itemOffsets.push(this.#bytes + this.#chunkBytes + blank.byteLength);
    }
    for (const bytes of [blank, text, Buffer.from("\n")]) {
      this.#chunks.push(bytes);
      this.#chunkBytes += bytes.byteLength;
    }
    this.#line = line + 1;
    this.#items += 1;
    if (this.#chunkBytes >= CHUNK_BYTES) await this.#flush();
  }

  async end(): Promise<Pick<LotRecord, "bytes" | "itemLines" | "itemOffsets">> {
    await this.#flush();
    await onDisk(this.#file.sync());
    return { bytes: this.#bytes, itemLines: this.#itemLines, itemOffsets: this.#itemOffsets };
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#chunkBytes = 0;
    await onDisk(this.#file.write(bytes, this.#bytes));
    this.#bytes += bytes.byteLength;
  }
}

function partOf(
  { id, lines, items, slaMinutes, acceptedWallMs }: LotRecord,
  { base, replaced }: Again,
): TaskPart {
  const again = { part: base, sinceWallMs: acceptedWallMs, replaced };
  return { lotId: id, firstLine: 1, lines, items, slaMinutes, again };
}
