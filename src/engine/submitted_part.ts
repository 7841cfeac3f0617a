/**
 * One part of a submitted list: the items of one sla, run as lines of a file.
 */
import type { DiskFile } from "../disk.ts";
import { readBlocks } from "../jsonl/read.ts";
import { priceFactor } from "../price/factor.ts";
import type { Failure, Output } from "../work/outcome.ts";
import type { TaskObject } from "../work/task.ts";
import { AnswerIndex } from "./answer_index.ts";
import { readStep } from "./journal.ts";
import type { EngineParts } from "./parts.ts";
import type { Summary } from "./progress.ts";
import type { Run } from "./run.ts";
import type { RunOptions } from "./run_open.ts";
import { decodeBody } from "./task_body.ts";

export interface PartTerms {
  /** The file of its lines. */
  readonly input: string;
  readonly runId: string;
  readonly slaMinutes: number | undefined;
  readonly items: number;
}

/** Counted once; the run answers it in the background. */
export class SubmittedPart {
  readonly #parts: EngineParts;
  readonly #terms: PartTerms;
  readonly #index: AnswerIndex;
  readonly #run: Run;
  readonly #inputTokens: Uint32Array;
  readonly #factors: Float64Array;
  #answers: Promise<DiskFile> | undefined;

  private constructor(parts: EngineParts, terms: PartTerms, index: AnswerIndex, run: Run) {
    this.#parts = parts;
    this.#terms = terms;
    this.#index = index;
    this.#run = run;
    this.#inputTokens = new Uint32Array(terms.items + 1);
    this.#factors = new Float64Array(terms.items + 1).fill(1);
  }

  /** Starts or continues the run, and counts the items. Nothing is sent twice. */
  static async begin(
    parts: EngineParts,
    runItems: (source: string, options: RunOptions) => Run,
    terms: PartTerms,
  ): Promise<SubmittedPart> {
    const index = new AnswerIndex(terms.items);
    const before = await parts.store.taskByName(`id:${terms.runId}`);
    const isOver = before !== undefined && decodeBody(before.body).status === "completed";
    if (isOver) {
      for await (const { sequence, records } of parts.store.journal(before.id))
        index.apply(sequence, readStep(records));
    }
    const run = runItems(terms.input, {
      id: terms.runId,
      onStep: (sequence, step) => index.apply(sequence, step),
      ...(terms.slaMinutes === undefined ? {} : { sla: terms.slaMinutes }),
    });
    const part = new SubmittedPart(parts, terms, index, run);
    await run.opened;
    await part.#count();
    return part;
  }

  get isImmediate(): boolean {
    return this.#terms.slaMinutes === undefined;
  }

  get finished(): Promise<Summary> {
    return this.#run.finished;
  }

  /** The object of a line, as it is now. */
  async object(objectId: string, line: number): Promise<TaskObject> {
    const answer = this.#index.get(line);
    const price_factor = this.#factors[line] ?? 1;
    const counted = this.#inputTokens[line] ?? 0;
    if (answer.status === undefined || answer.lengthBytes === 0) {
      const phase = this.#run.isClaimed(line) ? "running" : "queued";
      return {
        object_id: objectId,
        status: "submitted",
        phase,
        usage: { input_tokens: counted, price_factor },
        error: null,
      };
    }
    const { output, error } = await this.#readAnswer(answer.start, answer.lengthBytes);
    if (answer.status !== "completed" || output === null) {
      return {
        object_id: objectId,
        status: answer.status,
        usage: { input_tokens: counted, price_factor },
        error: error ?? null,
      };
    }
    const usage = {
      input_tokens: answer.inputTokens || counted,
      price_factor,
      output_tokens: answer.outputTokens,
    };
    return { object_id: objectId, status: "completed", usage, output, error: null };
  }

  async #readAnswer(
    start: number,
    lengthBytes: number,
  ): Promise<{ readonly output: Output | null; readonly error?: Failure }> {
    this.#answers ??= this.#parts.disk.open((await this.#run.opened).out, "read");
    const bytes = Buffer.alloc(lengthBytes);
    await (await this.#answers).read(bytes, start);
    return JSON.parse(bytes.toString()) as { output: Output | null; error?: Failure }; // a line of our own
  }

  async #count(): Promise<void> {
    const { disk, measurer, rateCard, lineBytesMax } = this.#parts;
    const { volumeTokens } = await this.#run.opened;
    const file = await disk.open(this.#terms.input, "read");
    try {
      for await (const event of readBlocks(file, { lineBytesMax })) {
        if (event.kind === "refused") continue;
        const measured = await measurer.measure(event.block, { wantBodies: false });
        for (let item = 0; item < measured.count; item += 1) {
          const line = measured.lines[item] as number;
          const model = measured.groups[measured.groupOf[item] as number]?.model ?? "";
          this.#inputTokens[line] = measured.inputTokens[item] as number;
          this.#factors[line] = priceFactor(model, this.#terms.slaMinutes, volumeTokens, rateCard);
        }
      }
    } finally {
      await file.close();
    }
  }
}
