/**
 * Recovery: what a task's journal and output say after any kind of stop.
 *
 *   replay the steps -> doubts of an earlier version are stated (`earlier_doubt.ts`) -> check the last output range -> void it
 *     if a power cut damaged it -> the tail after the last step (`tail.ts`): adopt own lines, keep others in a file beside the output, cut a torn line -> lines in doubt
 *
 * Nothing is sent before this has ended, and every arrow may be interrupted and repeated: replaying changes nothing,
 * a void step is appended before the output is cut, and adopted lines stay where they are until a step covers them.
 */
import { LINE_BYTES_MAX } from "../../jsonl/read.ts";
import type { Taken } from "../../price/budget.ts";
import type { StoredEntry } from "../../store/store.ts";
import type { LineSet } from "../../work/line_set.ts";
import type { EngineCore } from "../core.ts";
import type { OpenInput } from "../files/input.ts";
import { deadlineOf, type TaskBody } from "../files/task_body.ts";
import { countingEntries } from "../files/task_journal.ts";
import { checksumText, crc32Of } from "../journal/checksum.ts";
import type { CostTerms } from "../journal/item_cost.ts";
import { readStep, StepWriter, stamped, stampOf } from "../journal/journal.ts";
import { damageNotice, type OutputFile, outputChanged } from "../journal/output.ts";
import { type AttemptsMade, Replay } from "../journal/replay.ts";
import type { StepListener } from "../journal/task_log.ts";
import type { Totals } from "../journal/totals.ts";
import { adoptedCosts } from "./adopted_costs.ts";
import type { AdoptedCosts } from "./adoption.ts";
import { stateEarlierDoubt } from "./earlier_doubt.ts";
import { recoverTail, type TailOptions } from "./tail.ts";

export interface Recovered {
  readonly done: LineSet;
  readonly totals: Totals;
  readonly made: ReadonlyMap<number, AttemptsMade>;
  /** Lines that wait in the journal for space in the output. */
  readonly held: readonly Uint8Array[];
  /** What providers took for all attempts so far, those in doubt included. */
  readonly taken: Taken;
  /** Of it, what a cap counted beyond the records of an earlier version. */
  readonly unrecordedUsd: number;
}

/** A run as an earlier call left it, with its output open. */
export interface RecoveredRun {
  readonly taskId: string;
  readonly body: TaskBody;
  readonly input: OpenInput;
  /** Recovery adds the prices that the journal recorded. */
  readonly terms: CostTerms;
  /** The model that its lines were answered by, when not their own. */
  readonly model: string | undefined;
  readonly output: OutputFile;
  /** Whether a line of the input is unchanged since the run began; absent if all are. */
  readonly isUnchanged?: ((line: number) => boolean) | undefined;
  /** What lines took in earlier runs: they have it, and this run's sums do not. */
  readonly takenEarlier?: AdoptedCosts["takenEarlier"];
  /** See `RunOptions`. */
  readonly keepsDamage?: boolean | undefined;
  /** Notified of every step, also of those that recovery adds. */
  readonly onStep?: StepListener | undefined;
}

/** Throws `output_changed` if the output lacks recorded bytes, or another program changed them. */
export function recoverRun(
  core: Pick<EngineCore, "storage" | "measurer" | "sending" | "figures" | "config">,
  run: RecoveredRun,
  signal: AbortSignal,
): Promise<Recovered> {
  const { disk, store, room, clock, notice } = core.storage;
  const { taskId, body, input, terms, model, output, isUnchanged, takenEarlier, onStep } = run;
  const { keepsDamage = false } = run;
  const whenRoom = <T>(write: () => Promise<T>): Promise<T> => room.waitFor(write, { signal });
  const lines = input.spool?.stored ?? input.file;
  return recover({
    disk,
    entries: countingEntries(store, taskId, body),
    journal: () => store.journal(taskId),
    staleUntil: body.staleUntil ?? 0,
    alsoIn: body.alsoIn,
    out: body.out,
    steps: {
      store: { append: (entries) => whenRoom(() => store.append(entries)) },
      ...{ taskId, output, prices: terms.prices, onStep },
      moment: clock.moment(),
    },
    costs: {
      input: lines,
      ...adoptedCosts(core, terms, model),
      takenEarlier,
      deadlineWallMs: deadlineOf(body),
    },
    input: lines,
    lineBytesMax: LINE_BYTES_MAX,
    isUnchanged,
    keepsDamage,
    whenRoom,
    notice,
  });
}

interface RecoveryOptions extends TailOptions {
  /** The journal's entries that count. */
  readonly entries: AsyncIterable<StoredEntry>;
  /** A file beside the output that may have answers. */
  readonly alsoIn: string | undefined;
  readonly keepsDamage: boolean;
}

async function recover(options: RecoveryOptions): Promise<Recovered> {
  const replay = new Replay();
  for await (const entry of options.entries) {
    const step = readStep(entry.records);
    replay.apply(entry.sequence, step, entry.wallMs);
    options.steps.prices.restore(step.prices);
    options.steps.onStep?.(entry.sequence, step, stampOf(entry));
  }
  await checkWhole(options, replay);
  await stateEarlierDoubt(options.steps, options.costs, replay);
  await checkLastRange(options, replay);
  await recoverTail(options, replay, options.alsoIn);
  const { done, totals, held, unrecordedUsd } = replay;
  const [made, taken] = [replay.attemptsMade(), replay.taken()];
  return { done, totals, made, held, taken, unrecordedUsd };
}

/** Bytes before the last step were synced before it was written: other content there was written by another program. */
async function checkWhole(
  { steps: { output }, keepsDamage, whenRoom, notice }: RecoveryOptions,
  replay: Replay,
): Promise<void> {
  const { last, outEnd, outCrc32 } = replay;
  const end = last?.range.outStart ?? outEnd;
  const found = await output.checksum(end);
  if (found === checksumText(last?.before.crc32 ?? outCrc32, end)) return;
  if (!keepsDamage) throw outputChanged(output.path, found, end, await output.change());
  if (output.end < outEnd) await whenRoom(() => output.extend(outEnd));
  replay.keepDamage(crc32Of(await output.checksum(outEnd)));
  notice(damageNotice(output.path));
}

/** A power cut can damage only the range of the last step, because the next step waits for its sync. Conversions, such as gzip, are never its work. */
async function checkLastRange(options: RecoveryOptions, replay: Replay): Promise<void> {
  const { last, outEnd } = replay;
  const { output } = options.steps;
  if (last === undefined || (await output.renew(last.range))) return;
  const change = await output.change();
  if (change !== undefined) throw outputChanged(output.path, await output.checksum(outEnd), outEnd, change);
  const records = new StepWriter().finish({
    outStart: last.range.outStart,
    outEnd: last.range.outStart,
    outCrc32: 0,
    voids: last.sequence,
    committedUsd: replay.committedUsd,
  });
  await options.steps.store.append([
    stamped({ taskId: options.steps.taskId, records }, options.steps.moment),
  ]);
  options.steps.onStep?.(0, readStep(records), options.steps.moment);
  replay.voidLast(last.sequence);
}
