/**
 * The attempts of an open item in the work log, in the form that lanes need.
 */
import type { TriedItem } from "../../log/open_work.ts";
import type { WorkLog } from "../../log/work_log.ts";
import { codeOfNumber } from "../../work/failure_numbers.ts";
import { addDoubt } from "../journal/item_cost.ts";
import { type AttemptFailure, NOTHING_SPENT, type Spent } from "../journal/journal.ts";
import type { AttemptsMade } from "../journal/replay.ts";

/**
 * Intents without an end are in doubt: they may have been answered, and billed up to their stated maximum. Doubt counts as attempts,
 * but not against the item.
 */
export function madeOf({ ended, before, intents }: TriedItem): AttemptsMade {
  const spent = ended === undefined ? NOTHING_SPENT : spentOf(ended);
  const isInDoubt = intents.length > 0;
  return {
    attempts: (ended?.attempts ?? 0) + intents.length,
    ambiguousAttempts: (ended?.ambiguousAttempts ?? 0) + intents.length,
    uncounted: (ended?.uncounted ?? 0) + intents.length,
    uncountedAmbiguous: (ended?.uncountedAmbiguous ?? 0) + intents.length,
    unusableAnswers: ended?.unusableAnswers ?? 0,
    failure: failureOf(ended),
    isInDoubt: isInDoubt || (ended?.uncountedAmbiguous ?? 0) > (before?.uncountedAmbiguous ?? 0),
    spent: intents.reduce((sum, { mostUsd }) => addDoubt(sum, mostUsd), spent),
  };
}

/** Ends attempts of an item that were under way when the process ended, as in doubt. */
export function endDoubts(log: WorkLog, tried: TriedItem): Promise<void> {
  const { attempts, ambiguousAttempts, uncounted, uncountedAmbiguous, unusableAnswers, spent } =
    madeOf(tried);
  const { isEstimated, priceNumber: _price, ...taken } = spent;
  const counts = { attempts, ambiguousAttempts, uncounted, uncountedAmbiguous, unusableAnswers };
  const price = tried.ended?.price ?? 0;
  const ends = tried.intents.map(({ task, item, attempt }) =>
    log.endAttempt({
      ...{ task, item, attempt, price, nextMs: 0 },
      ...counts,
      ...{ code: 0, httpStatus: 0 }, // nobody knows how it ended
      isEstimated: isEstimated ? 1 : 0,
      ...taken,
    }),
  );
  return ends.at(-1) ?? Promise.resolve();
}

function failureOf(ended: TriedItem["ended"]): AttemptFailure | undefined {
  const code = codeOfNumber(ended?.code ?? 0);
  return code === undefined ? undefined : { code, httpStatus: ended?.httpStatus ?? 0 };
}

function spentOf(ended: NonNullable<TriedItem["ended"]>): Spent {
  const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } = ended;
  const { listUsd, usd, billedUsd, ambiguousUsd } = ended;
  const tokens = { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens };
  const money = { listUsd, usd, billedUsd, ambiguousUsd };
  return { isEstimated: ended.isEstimated === 1, ...tokens, ...money, priceNumber: 0 };
}
