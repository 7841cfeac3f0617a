/**
 * Schemas that items bring with them, checked when their lines are measured: a line whose schema cannot be used is rejected before anything
 * of it is sent. The validator is loaded with the first one.
 */
import { systemClock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { answerCheck, loadValidators } from "../../json_schema.ts";
import type { Block } from "../../jsonl/block.ts";
import type { KeyColumns, KeyScanOptions } from "../../jsonl/keys.ts";
import type { MeasureOptions } from "../measure.ts";
import { hasMetadata, keyJsonOf, type MeasuredBlock, type RejectedLine, schemaJsonOf } from "../measured.ts";
import type { Measurer } from "../measurer.ts";
import { pickItems } from "../pick_items.ts";

const TURN_MS = 500;

/** Measures with another measurer, and checks what items say of their answers. */
export class SchemaMeasurer implements Measurer {
  readonly #below: Measurer;

  constructor(below: Measurer) {
    this.#below = below;
  }

  get concurrency(): number {
    return this.#below.concurrency;
  }

  async measure(block: Block, options: MeasureOptions): Promise<MeasuredBlock> {
    const measured = await this.#below.measure(block, options);
    return hasMetadata(measured.keys) ? withoutFaulty(measured) : measured;
  }

  scanKeys(block: Block, options?: KeyScanOptions): Promise<KeyColumns> {
    return this.#below.scanKeys(block, options);
  }

  close(): Promise<void> {
    return this.#below.close();
  }
}

async function withoutFaulty(measured: MeasuredBlock): Promise<MeasuredBlock> {
  const kept: number[] = [];
  const rejected: RejectedLine[] = [];
  for (let item = 0; item < measured.count; item += 1) {
    const schema = schemaJsonOf(measured, item);
    const fault = schema === "" || schema === "null" ? undefined : await faultOf(schema);
    if (fault === undefined) kept.push(item);
    else {
      const key = JSON.parse(keyJsonOf(measured, item)) as string; // a literal that the thread wrote
      const line = measured.lines[item] as number;
      rejected.push({ line, key, code: "invalid_config", message: fault, field: "schema" });
    }
  }
  if (rejected.length === 0) return measured;
  const all = [...measured.rejected, ...rejected].sort((one, other) => one.line - other.line);
  return { ...pickItems(measured, kept), rejected: all };
}

async function faultOf(schema: string): Promise<string | undefined> {
  await loadValidators();
  const startMs = systemClock.nowMs();
  try {
    answerCheck(schema);
    // One may take seconds, and a block has many: others have a turn between two of them.
    if (systemClock.nowMs() - startMs > TURN_MS) await new Promise<void>((done) => systemClock.soon(done));
    return undefined;
  } catch (error) {
    if (error instanceof PerigeeError) return error.message;
    throw error;
  }
}
