/**
 * One part of a submitted list: the items of one sla, run as lines of a file.
 */

import type { DiskFile } from "../../disk.ts";
import { lastLineOf } from "../../jsonl/block.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { parseOutputLine } from "../../jsonl/write.ts";
import { priceFactor } from "../../price/factor.ts";
import { modelOf } from "../../shard/measured.ts";
import type { OutputLine } from "../../work/item.ts";
import type { Failure } from "../../work/outcome.ts";
import type { ObjectPhase, TaskObject } from "../../work/task.ts";
import type { CacheOptions } from "../config/cache_terms.ts";
import type { EngineCore } from "../core.ts";
import { decodeBody } from "../files/task_body.ts";
import { countingEntries } from "../files/task_journal.ts";
import { answeredObject } from "../items/answered_object.ts";
import type { Hold } from "../items/holds.ts";
import { concerns, objectHold } from "../items/object_holds.ts";
import type { Progress, Summary } from "../items/progress.ts";
import { brokenAnswer, isAnswerWhole } from "../journal/answer_check.ts";
import { AnswerIndex, type IndexedAnswer } from "../journal/answer_index.ts";
import { readStep } from "../journal/journal.ts";
import type { RetryFailed } from "../reopening/reopen.ts";
import type { Run } from "../runs/run.ts";
import type { EngineRunOptions } from "../runs/run_open.ts";
import type { SchemaOptions } from "../schemas/run_schema.ts";

export interface PartTerms extends SchemaOptions {
  /** The file of its lines. */
  readonly input: string;
  readonly runId: string;
  readonly slaMinutes: number | undefined;
  readonly items: number;
  readonly cached: CacheOptions;
  /** Items that are run again, where all had ended. */
  readonly retryFailed?: RetryFailed;
}

/** The file of answers, opened when the first of them is read, and what held the others then. Close it once. */
export class PartAnswers {
  readonly #open: () => Promise<DiskFile>;
  readonly holds: readonly Hold[];
  #file: Promise<DiskFile> | undefined;

  constructor(open: () => Promise<DiskFile>, holds: readonly Hold[]) {
    this.#open = open;
    this.holds = holds;
  }

  async read(start: number, lengthBytes: number): Promise<Uint8Array> {
    this.#file ??= this.#open();
    const bytes = new Uint8Array(lengthBytes);
    return bytes.subarray(0, await (await this.#file).read(bytes, start));
  }

  async close(): Promise<void> {
    await (await this.#file?.catch(() => undefined))?.close(); // its reader got the error of a file that did not open
  }
}

/** What stores a list and counts its items. */
export type SubmittedIn = Pick<EngineCore, "storage" | "measurer" | "config">;

/** Counted once; the run answers it in the background. */
export class SubmittedPart {
  readonly #core: SubmittedIn;
  readonly #terms: PartTerms;
  readonly #index: AnswerIndex;
  readonly #run: Run;
  readonly #stopped: Promise<void>;
  readonly #inputTokens: Uint32Array;
  readonly #factors: Float64Array;
  /** By line. */
  readonly #models: string[] = [];
  /** Of its file; more than its items before they are counted. */
  #linesInFile = Number.POSITIVE_INFINITY;

  private constructor(
    core: SubmittedIn,
    terms: PartTerms,
    index: AnswerIndex,
    run: Run,
    stopped: Promise<void>,
  ) {
    this.#core = core;
    this.#terms = terms;
    this.#index = index;
    this.#run = run;
    this.#stopped = stopped;
    this.#inputTokens = new Uint32Array(terms.items + 1);
    this.#factors = new Float64Array(terms.items + 1).fill(1);
  }

  /** Starts or continues the run, and counts the items. Nothing is sent twice. */
  static async begin(
    core: SubmittedIn,
    runItems: (source: string, options: EngineRunOptions) => Run,
    terms: PartTerms,
  ): Promise<SubmittedPart> {
    const index = new AnswerIndex(terms.items);
    const before = await core.storage.store.taskByName(`id:${terms.runId}`);
    const isOver = before !== undefined && decodeBody(before.body).status === "completed";
    if (isOver) {
      for await (const { sequence, records } of countingEntries(
        core.storage.store,
        before.id,
        decodeBody(before.body),
      ))
        index.apply(sequence, readStep(records));
    }
    let tellStopped: () => void = () => undefined;
    const stopped = new Promise<void>((resolve) => {
      tellStopped = resolve;
    });
    let isRetold = !isOver;
    const run = runItems(terms.input, {
      id: terms.runId,
      onHeld: tellStopped,
      onStep: (sequence, step) => {
        if (!isRetold) index.forget(); // it was over: a run that continues reports all its steps
        isRetold = true;
        index.apply(sequence, step);
      },
      ...terms.cached,
      ...(terms.retryFailed === undefined ? {} : { retryFailed: terms.retryFailed }),
      ...(terms.schema === undefined ? {} : { schema: terms.schema }),
      ...(terms.schemaTries === undefined ? {} : { schemaTries: terms.schemaTries }),
      ...(terms.slaMinutes === undefined ? {} : { sla: terms.slaMinutes }),
    });
    const part = new SubmittedPart(core, terms, index, run, stopped);
    await run.opened;
    await part.#count();
    return part;
  }

  get isImmediate(): boolean {
    return this.#terms.slaMinutes === undefined;
  }

  /** Whether all of its items have ended; its run may still have files to close. */
  get isFinal(): boolean {
    const { items } = this.#terms;
    const { completed, failed, expired, cancelled } = this.#index.counts(1, items);
    return completed + failed + expired + cancelled === items;
  }

  get finished(): Promise<Summary> {
    return this.#run.finished;
  }

  /** Ends what was not sent as `cancelled`, as that of its run does; does nothing when it is final. */
  async cancel(): Promise<void> {
    if (!this.isFinal) await this.#run.cancel();
  }

  /**
   * Resolves with true when it is finished, with false when accounts have stopped it for longer than a caller should
   * wait; it continues then.
   */
  async waited(): Promise<boolean> {
    return Promise.race([this.#run.finished.then(() => true), this.#stopped.then(() => false)]);
  }

  /** The numbers in the list, from 0, of its items as they become final; those that are final are first. */
  async *ended(): AsyncGenerator<number> {
    for await (const { key } of this.#run.follow()) yield Number(key); // the keys that `submit` sets
  }

  progress(): Progress {
    return this.#run.progress();
  }

  /** To read objects from; the caller closes it. */
  answers(): PartAnswers {
    return new PartAnswers(
      async () => this.#core.storage.disk.open(await this.#path(), "read"),
      this.#run.holds,
    );
  }

  async #path(): Promise<string> {
    return (await this.#run.opened).out;
  }

  /** The object of a line, as it is now. `answers` is one of this part. */
  async object(objectId: string, line: number, answers: PartAnswers): Promise<TaskObject> {
    const answer = this.#index.get(line);
    const price_factor = this.#factors[line] ?? 1;
    const counted = this.#inputTokens[line] ?? 0;
    if (answer.status === undefined && line > this.#linesInFile) {
      const error = missingLine(line, this.#linesInFile);
      return { object_id: objectId, status: "failed", usage: { input_tokens: counted, price_factor }, error };
    }
    if (answer.status === undefined || answer.lengthBytes === 0) {
      return {
        object_id: objectId,
        status: "submitted",
        phase: this.#phaseOf(line, answer),
        ...this.#heldOf(line, answers.holds),
        ...(answer.lastCode === undefined ? {} : { last_error: { code: answer.lastCode } }),
        usage: { input_tokens: counted, price_factor },
        error: null,
      };
    }
    const bytes = await answers.read(answer.start, answer.lengthBytes);
    const isWhole = isAnswerWhole(bytes, answer);
    const text: OutputLine = isWhole
      ? parseOutputLine(Buffer.from(bytes).toString())
      : { key: null, output: null, error: brokenAnswer(await this.#path(), answer) };
    return answeredObject({ objectId, inputTokens: counted, priceFactor: price_factor }, answer, text);
  }

  #heldOf(line: number, holds: readonly Hold[]): Pick<TaskObject, "held"> {
    const hold = this.holdOf(line, holds);
    return hold === undefined ? {} : { held: objectHold(hold) };
  }

  /** What holds a line that is open. */
  holdOf(line: number, holds: readonly Hold[] = this.#run.holds): Hold | undefined {
    const model = this.#models[line] ?? "";
    return holds.find((each) => concerns(this.#core.config.providerNames, each, model));
  }

  /** An attempt failed and the next has not begun: the item waits for it, here or in its lane. */
  #phaseOf(line: number, answer: IndexedAnswer): ObjectPhase {
    if (answer.isRetrying) return "retrying";
    return this.#run.isClaimed(line) ? "running" : "queued";
  }

  async #count(): Promise<void> {
    const { storage, measurer, config } = this.#core;
    const { volumeTokens } = await this.#run.opened;
    const file = await storage.disk.open(this.#terms.input, "read");
    let lines = 0;
    try {
      for await (const event of readBlocks(file, { lineBytesMax: LINE_BYTES_MAX })) {
        lines = lastLineOf(event);
        if (event.kind === "refused") continue;
        const measured = await measurer.measure(event.block, {
          wantBodies: false,
          aliases: config.aliases.first,
        });
        for (let item = 0; item < measured.count; item += 1) {
          const line = measured.lines[item] as number;
          const model = modelOf(measured, item);
          this.#models[line] = model;
          this.#inputTokens[line] = measured.inputTokens[item] as number;
          this.#factors[line] = priceFactor(model, this.#terms.slaMinutes, volumeTokens, config.rateCard);
        }
      }
      this.#linesInFile = lines;
    } finally {
      await file.close();
    }
  }
}

/** Of an item that no run has, because its file has fewer lines than the task has items. */
function missingLine(line: number, linesInFile: number): Failure {
  return {
    code: "input_changed",
    message: `the file of the task has ${linesInFile} lines, and this item is line ${line}`,
    retryable: false,
    attempts: 0,
    ambiguous_attempts: 0,
  };
}
