/**
 * A run whose input has grown or changed: answers of lines that are as they were stay, under their new numbers; all
 * else of the new input is open. Keys that are no longer in the input keep their lines after the others, unless they are pruned.
 *
 *   keys of the output -> lines of the new input, compared by digest -> restated (`restate.ts`)
 *
 * What was begun and not answered is begun again, and what it may have cost is kept. The sla counts from this call. Memory:
 * 24 bytes for each key of the output, and 24 bytes a line.
 */
import type { Moment } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { hashKey } from "../../jsonl/keys.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { readOutputLine } from "../../jsonl/write.ts";
import type { Measurer } from "../../shard/pool.ts";
import type { Store } from "../../store/store.ts";
import { LineSet } from "../../work/line_set.ts";
import { batchRecords } from "../batches/batch_records.ts";
import type { EngineCore } from "../core.ts";
import type { CheckedKeys } from "../files/key_check.ts";
import { KeyLines } from "../files/key_lines.ts";
import { LineDigests, linesOfStart } from "../files/line_digests.ts";
import { acceptedAt } from "../files/run_terms.ts";
import type { SettledLine } from "../files/settled_lines.ts";
import type { TaskBody } from "../files/task_body.ts";
import { answersPath } from "../files/task_files.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { type LeftRun, withLeftRun } from "./reopen.ts";
import { type Fate, LineReader, restate } from "./restate.ts";

/** The new input, and whether keys that are no longer in it are kept. */
export interface InputUpdate {
  readonly checked: CheckedKeys;
  readonly isPruned: boolean;
  /** From when the sla counts. */
  readonly accepted: Moment;
}

/** Lines of a batch are known by their numbers, which an update changes. */
async function refuseOpenBatches({ store }: Pick<EngineStorage, "store">, taskId: string): Promise<void> {
  for await (const { model, batchId, tag } of batchRecords(store, taskId))
    throw new PerigeeError(
      "conflict",
      `a batch of this run is open (${batchId ?? tag} of ${model}): with the input as it was, run it until its batches are collected, or cancel it`,
    );
}

/** What an update makes of each line: `kept`, `changed`, `added` and `gone` are all items of the run after it. */
export interface UpdateCounts {
  /** Lines of the input whose answer or error stays. */
  readonly kept: number;
  /** Lines of the input whose key had another request. */
  readonly changed: number;
  /** Lines of the input that had no line in the output. */
  readonly added: number;
  /** Lines that stay although their keys are no longer in the input. */
  readonly gone: number;
  /** Lines that are removed because their keys are no longer in the input. */
  readonly pruned: number;
}

/** The task on its new input, durably. Throws `output_changed`, and `input_changed` where its lines cannot be compared. */
export async function updateRun(
  core: Pick<EngineCore, "storage" | "config" | "measurer" | "sending" | "figures">,
  left: LeftRun,
  update: InputUpdate,
  signal: AbortSignal,
): Promise<{ readonly body: TaskBody; readonly counts: UpdateCounts }> {
  const { task, body, input } = left;
  await refuseOpenBatches(core.storage, task.id);
  const { digests, ...checked } = update.checked;
  const before = await digestsBefore(core.storage.store, left, digests);
  const places = new NewPlaces(before, digests);
  const isUnchanged = (line: number): boolean => before.isSame(line, digests, line);
  const next = await withLeftRun(
    core,
    { ...left, isUnchanged },
    signal,
    async ({ output, lines, made, end }) => {
      const inDoubt = [...made.values()].filter(({ isInDoubt }) => isInDoubt).length;
      if (core.config.isAtMostOnce && inDoubt > 0) throw maySendTwice(inDoubt);
      await places.readOutput(lines(), new LineReader(output));
      await places.readInput(core.measurer, left);
      const keptLines = places.place(checked.lines, update.isPruned);
      await digests.save(core.storage.store, task.id, checked.inputChecksum, core.storage.clock.wallMs());
      const { summary, outBytes, outChecksum, isCancelled, isPiloted, quoted, status, ...rest } = body;
      const window = body.slaMinutes === undefined ? {} : acceptedAt(update.accepted);
      const identity = input.identity === undefined ? {} : { input: input.identity };
      return restate(
        core,
        {
          task,
          before: body,
          next: {
            ...rest,
            ...window,
            ...identity,
            ...checked,
            keptLines,
            staleUntil: end.lastSequence,
            status: "open",
          },
          path: answersPath(core.storage, task.id, body),
          output,
          lines: lines(),
          fateOf: ({ line }) => places.fateOf(line),
          openLines: [...made.values()].map(({ intent, ...each }) => ({ line: 0, made: each })),
          ...end,
        },
        signal,
      );
    },
  );
  if (body.inputChecksum !== undefined && body.inputChecksum !== checked.inputChecksum)
    await LineDigests.remove(core.storage.store, task.id, body.inputChecksum);
  return { body: next, counts: places.counts(checked.lines - checked.blankLines) };
}

/**
 * The digests of the input as it was. Runs of earlier versions have none: their lines are known where the new input begins with
 * all that the old one was, and nothing is sent where it does not, because every answer would be paid for again.
 */
async function digestsBefore(
  store: Store,
  { task, body, input }: LeftRun,
  now: LineDigests,
): Promise<LineDigests> {
  const { inputChecksum = "", lines = 0 } = body;
  const stored = await LineDigests.load(store, task.id, inputChecksum);
  if (stored.lines > 0 || lines === 0) return stored;
  const known = await linesOfStart(input.file, inputChecksum, lines);
  if (known !== undefined) return now.first(known);
  throw new PerigeeError(
    "input_changed",
    `an earlier version of perigee began the run of ${body.out} and kept no record of each line, so that it is not known which lines of ${input.identity?.name} changed: put the old lines back as they were and add new ones only after them, or start over with another output, which requests every line`,
  );
}

/** An update opens lines again, without the requests that were under way for them. */
function maySendTwice(inDoubt: number): PerigeeError {
  const requests = inDoubt === 1 ? "1 request was" : `${inDoubt} requests were`;
  return new PerigeeError(
    "conflict",
    `${requests} under way when the run stopped, and delivery is at_most_once: put the input back and finish the run without update, which ends them, or set delivery to at_least_once`,
  );
}

/** Where lines of the output belong in the new input. */
class NewPlaces {
  readonly #before: LineDigests;
  readonly #now: LineDigests;
  readonly #keys = new KeyLines();
  /** By old line: the new one, or 0. */
  #places = new Uint32Array(1_024);
  readonly #withKey = new LineSet();
  readonly #kept = new LineSet();
  readonly #counts = { kept: 0, changed: 0, gone: 0, pruned: 0 };

  constructor(before: LineDigests, now: LineDigests) {
    this.#before = before;
    this.#now = now;
  }

  async readOutput(lines: AsyncIterable<SettledLine>, reader: LineReader): Promise<void> {
    for await (const settled of lines) {
      const key = readOutputLine(await reader.read(settled))?.key;
      if (typeof key !== "string") continue;
      const { line } = settled.outcome;
      const { high, low } = hashKey(Buffer.from(key));
      this.#keys.set(high, low, line);
      this.#withKey.add(line);
    }
    this.#places = new Uint32Array(this.#withKey.highest + 1);
  }

  async readInput(measurer: Measurer, { input }: LeftRun): Promise<void> {
    for await (const event of readBlocks(input.file, { lineBytesMax: LINE_BYTES_MAX })) {
      if (event.kind === "refused") continue;
      const { count, lines, hashes } = await measurer.scanKeys(event.block);
      for (let index = 0; index < count; index += 1) {
        const now = lines[index] as number;
        const old = this.#keys.get(hashes[index * 2] as number, hashes[index * 2 + 1] as number);
        if (old === 0) continue;
        this.#places[old] = now;
        const isSame = this.#before.isSame(old, this.#now, now);
        if (isSame) this.#kept.add(old);
        this.#counts[isSame ? "kept" : "changed"] += 1;
      }
    }
  }

  /**
   * Assigns places after `lastLine` to keys that are no longer in the input, and their digests, for the day when they are back;
   * returns how many.
   */
  place(lastLine: number, isPruned: boolean): number {
    for (let line = 1; line < this.#places.length; line += 1) {
      if (this.#places[line] !== 0 || !this.#withKey.has(line)) continue;
      this.#counts[isPruned ? "pruned" : "gone"] += 1;
      if (isPruned) continue;
      this.#places[line] = lastLine + this.#counts.gone;
      this.#now.addOf(this.#before, line);
      this.#kept.add(line);
    }
    return this.#counts.gone;
  }

  /** `items`: of the new input. */
  counts(items: number): UpdateCounts {
    return { ...this.#counts, added: items - this.#counts.kept - this.#counts.changed };
  }

  fateOf(line: number): Fate {
    const place = this.#places[line] ?? 0;
    return { line: place === 0 ? undefined : place, isKept: this.#kept.has(line) };
  }
}
