/**
 * Requests under way when an earlier version was killed, whose journal did not say what they may have cost: they are stated
 * again with the cost of the tokens that were reserved for them, at today's price.
 *
 * Only where no cap counted them: what a cap counted beyond the recorded is in doubt as it is (`journal/replay.ts`).
 */
import { type IntentRecord, readStep, StepWriter, stamped } from "../journal/journal.ts";
import { readWhole } from "../journal/line_bytes.ts";
import type { Replay } from "../journal/replay.ts";
import type { AdoptedCosts, AdoptedSteps } from "./adoption.ts";

/** Before anything else is added to the journal: from its first step of this version on, all of them say it. */
export async function stateEarlierDoubt(
  { store, taskId, moment, prices, onStep }: AdoptedSteps,
  { input, reserved }: AdoptedCosts,
  replay: Replay,
): Promise<void> {
  if (replay.hasMoney || replay.unrecordedUsd > 0 || replay.open.size === 0) return;
  const step = new StepWriter();
  prices.whenAdded = (price) => step.price(price);
  const stated: IntentRecord[] = [];
  for (const intent of replay.open.values()) {
    const line = await readWhole(input, intent.offset, intent.lengthBytes);
    stated.push({ ...intent, mostUsd: await reserved(line, intent) });
  }
  for (const intent of stated) step.intent(intent);
  const { outEnd, committedUsd } = replay;
  const records = step.finish({ outStart: outEnd, outEnd, outCrc32: 0, voids: 0, committedUsd });
  await store.append([stamped({ taskId, records }, moment)]);
  onStep?.(0, readStep(records), moment);
  for (const intent of stated) replay.open.set(intent.line, intent);
}
