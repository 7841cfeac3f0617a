/**
 * The outcomes of a task that count, in the order of their lines in the output, read from its journal.
 *
 *   recorded -> placed            its line is in the output
 *   recorded -> held -> placed    the output's disk was full: its line is in the journal until it is released
 *   placed -> void                a power cut damaged the last range of the output; it is left out, or held again
 *   any -> gone                   a repair has said again what is left (`RESTATES`)
 *
 * Memory is that of one step, and of what is held.
 */
import type { Store } from "../../store/store.ts";
import { type OutcomeRecord, RESTATES, readStep, type Step, voidsOf } from "../journal/journal.ts";
import { RELEASES_HELD } from "../journal/task_log.ts";
import type { TaskBody } from "./task_body.ts";
import { countingEntries } from "./task_journal.ts";

/** An outcome, and its output line with its line end: its place in the output, or its bytes while it is held. */
export type SettledLine =
  | { readonly outcome: OutcomeRecord; readonly start: number }
  | { readonly outcome: OutcomeRecord; readonly held: Uint8Array };

type Held = Extract<SettledLine, { readonly held: Uint8Array }>;

/** Held outcomes are last. `onStep` is called for each step, before the lines of the previous step are returned. */
export async function* settledLines(
  store: Pick<Store, "journal">,
  taskId: string,
  body: Pick<TaskBody, "restated">,
  onStep: (step: Step) => void = () => undefined,
): AsyncGenerator<SettledLine> {
  let first = 0;
  for await (const entry of countingEntries(store, taskId, body))
    if (voidsOf(entry) === RESTATES) first = entry.sequence;
  let waiting: Held[] = [];
  // Only the last step that wrote output can be void.
  let last: { sequence: number; lines: SettledLine[]; released: Held[] } | undefined;
  for await (const { sequence, records } of countingEntries(store, taskId, body)) {
    if (sequence < first) continue;
    const step = readStep(records);
    onStep(step);
    if (step.voids > 0 && last?.sequence === step.voids) {
      waiting = [...last.released, ...waiting];
      last = undefined;
    }
    const isRelease = step.voids === RELEASES_HELD;
    const released = isRelease ? waiting : [];
    if (isRelease) waiting = [];
    if (step.held.byteLength > 0) waiting.push(...heldLines(step));
    if (step.outEnd === step.outStart) continue;
    if (last !== undefined) yield* last.lines;
    const outcomes = isRelease ? released.map(({ outcome }) => outcome) : step.outcomes;
    last = { sequence, lines: placedLines(outcomes, step.outStart), released };
  }
  if (last !== undefined) yield* last.lines;
  yield* waiting;
}

function placedLines(outcomes: readonly OutcomeRecord[], from: number): SettledLine[] {
  let start = from;
  return outcomes.map((outcome) => {
    const placed = { outcome, start };
    start += outcome.lineBytes;
    return placed;
  });
}

function heldLines({ held, outcomes }: Step): Held[] {
  let start = 0;
  return outcomes.map((outcome) => {
    const line = held.subarray(start, start + outcome.lineBytes);
    start += outcome.lineBytes;
    return { outcome, held: line };
  });
}
