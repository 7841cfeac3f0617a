/**
 * What earlier attempts at the lines of a retry took, from the journals of their earlier lots.
 *
 * 100 bytes a line while the retry's lot runs.
 */
import type { EngineCore } from "../../engine/core.ts";
import { settledLines } from "../../engine/files/settled_lines.ts";
import { decodeBody } from "../../engine/files/task_body.ts";
import type { TakenEarlier } from "../../engine/journal/item_cost.ts";
import { EVERY_PROJECT } from "../../store/records.ts";
import type { LineSet } from "../../work/line_set.ts";
import { stemOf } from "../../work/object_id.ts";
import { unpackLines } from "../lots/line_bits.ts";
import type { LotInput } from "../lots/lot.ts";
import { type LotRecord, lotRunName } from "../lots/lot_record.ts";
import { recordToTask, TASKS } from "../lots/task_record.ts";

/** Columns of each line, in this order. */
const COLUMNS = 12;

/** For a lot that runs lines of other lots again; empty for any other. */
export async function takenEarlier(
  { storage: { store }, config }: Pick<EngineCore, "storage" | "config">,
  { id, taskId, again }: LotRecord,
): Promise<Pick<LotInput, "takenEarlier">> {
  if (again === undefined || taskId === undefined) return {};
  const found = await store.record(EVERY_PROJECT, TASKS, stemOf(taskId));
  const { parts = [] } = found === undefined ? {} : recordToTask(found);
  const wanted = unpackLines(again.lines);
  const taken = new TakenLines(wanted);
  for (const [index, { lotId, firstLine, again: other }] of parts.entries()) {
    if (lotId === id) break;
    if (index !== again.part && other?.part !== again.part) continue;
    const run = await store.taskByName(lotRunName(lotId));
    if (run === undefined) continue;
    for await (const { outcome } of settledLines(store, run.id, decodeBody(run.body))) {
      const number = outcome.line - firstLine + 1;
      // Under at-most-once delivery, attempts that may have been answered before do not count against the item.
      const ambiguousAttempts = config.isAtMostOnce ? 0 : outcome.ambiguousAttempts;
      if (wanted.has(number)) taken.add(number, { ...outcome, ambiguousAttempts });
    }
  }
  return { takenEarlier: (line) => taken.of(line) };
}

class TakenLines {
  /** In rising order. */
  readonly #lines: Uint32Array;
  readonly #rows: Float64Array;

  constructor(wanted: LineSet) {
    this.#lines = new Uint32Array(wanted.size);
    this.#rows = new Float64Array(wanted.size * COLUMNS);
    for (let line = 1, index = 0; index < wanted.size; line += 1)
      if (wanted.has(line)) this.#lines[index++] = line;
  }

  add(line: number, taken: TakenEarlier): void {
    const start = this.#startOf(line);
    const { attempts, ambiguousAttempts, isEstimated } = taken;
    const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } = taken;
    const { listUsd, usd, billedUsd, ambiguousUsd } = taken;
    const row = [
      ...[attempts, ambiguousAttempts, isEstimated ? 1 : 0],
      ...[inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens],
      ...[listUsd, usd, billedUsd, ambiguousUsd],
    ];
    for (const [column, value] of row.entries())
      this.#rows[start + column] = (this.#rows[start + column] as number) + value;
  }

  /** Undefined for a line that was never tried. */
  of(line: number): TakenEarlier | undefined {
    const start = this.#startOf(line);
    const row = this.#rows.subarray(start, start + COLUMNS);
    const [attempts = 0, ambiguousAttempts = 0, estimated = 0] = row;
    if (start < 0 || attempts === 0) return undefined;
    const [inputTokens = 0, cachedTokens = 0, cacheWriteTokens = 0, outputTokens = 0] = row.subarray(3);
    const [reasoningTokens = 0, listUsd = 0, usd = 0, billedUsd = 0, ambiguousUsd = 0] = row.subarray(7);
    return {
      ...{ attempts, ambiguousAttempts, isEstimated: estimated > 0 },
      ...{ inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens },
      ...{ listUsd, usd, billedUsd, ambiguousUsd, priceNumber: 0 },
    };
  }

  /** Start of its row; below 0 for a line that does not run again. */
  #startOf(line: number): number {
    let low = 0;
    let high = this.#lines.length - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const found = this.#lines[middle] as number;
      if (found === line) return middle * COLUMNS;
      if (found < line) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}
