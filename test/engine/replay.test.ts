/**
 * What a journal adds up to.
 */
import { describe, expect, it } from "vitest";
import { addGone } from "../../src/engine/journal/item_cost.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  NOTHING_SPENT,
  readStep,
  type Step,
  StepWriter,
} from "../../src/engine/journal/journal.ts";
import { Replay } from "../../src/engine/journal/replay.ts";

const intentOf = (attempt: number): IntentRecord => ({
  line: 7,
  offset: 0,
  lengthBytes: 100,
  attempt,
  ambiguousAttempts: attempt - 1,
  inputTokens: 10,
  outputTokens: 10,
  mostUsd: 0.25,
});

function stepOf(intent: IntentRecord): Step {
  const step = new StepWriter();
  step.intent(intent, "alpha:standard:m1");
  return readStep(step.finish({ outStart: 0, outEnd: 0, outCrc32: 0, voids: 0, committedUsd: 0.25 }));
}

describe("replay", () => {
  it("counts a request once that was recorded again because it waited for room on a full disk", () => {
    const replay = new Replay();
    for (const sequence of [1, 2, 3]) replay.apply(sequence, stepOf(intentOf(1)));
    expect(replay.taken()).toEqual({ billedUsd: 0, ambiguousUsd: 0.25 });
    expect(replay.attemptsMade().get(7)).toMatchObject({ attempts: 1, ambiguousAttempts: 1, uncounted: 1 });
  });

  it("counts a request whose end was never recorded besides the one that followed", () => {
    const replay = new Replay();
    for (const attempt of [1, 2]) replay.apply(attempt, stepOf(intentOf(attempt)));
    expect(replay.taken()).toEqual({ billedUsd: 0, ambiguousUsd: 0.5 });
    expect(replay.attemptsMade().get(7)).toMatchObject({ attempts: 2, ambiguousAttempts: 2 });
  });
});

describe("a line whose answer was damaged", () => {
  /** The answer to this attempt, in a range of the output. */
  function answered(intent: IntentRecord): Step {
    const { line, attempt: attempts, ambiguousAttempts } = intent;
    const step = new StepWriter();
    step.intent(intent, "alpha:standard:m1");
    const counts = { status: "completed" as const, code: undefined, attempts, ambiguousAttempts };
    step.outcome({ ...NOTHING_SPENT, ...counts, line }, 5, 1);
    return readStep(step.finish({ outStart: 0, outEnd: 5, outCrc32: 1, voids: 0, committedUsd: 0.25 }));
  }

  it.each([1, 2, 6])("has all of %i attempts uncounted when restarts ended the earlier ones", (attempts) => {
    const replay = new Replay();
    for (let attempt = 1; attempt < attempts; attempt += 1) replay.apply(attempt, stepOf(intentOf(attempt)));
    replay.apply(attempts, answered(intentOf(attempts)));
    replay.voidLast(attempts);
    const all = {
      attempts,
      uncounted: attempts,
      ambiguousAttempts: attempts,
      uncountedAmbiguous: attempts,
    };
    expect(replay.attemptsMade().get(7)).toMatchObject(all);
  });

  it("has the failures still that counted against it", () => {
    const replay = new Replay();
    const failed = new StepWriter();
    const none = { uncounted: 0, ambiguousAttempts: 0, uncountedAmbiguous: 0, unusableAnswers: 1 };
    failed.closed({ ...NOTHING_SPENT, ...none, line: 7, attempts: 1 });
    const nowhere = { outStart: 0, outEnd: 0, outCrc32: 0, voids: 0, committedUsd: 0 };
    replay.apply(1, stepOf(intentOf(1)));
    replay.apply(2, readStep(failed.finish(nowhere)));
    replay.apply(3, answered({ ...intentOf(2), ambiguousAttempts: 0 }));
    replay.voidLast(3);
    expect(replay.attemptsMade().get(7)).toMatchObject({
      ...{ attempts: 2, uncounted: 1, uncountedAmbiguous: 1, unusableAnswers: 1 },
    });
  });
});

describe("what lines took that are open again", () => {
  it("is kept in records that a journal can hold, however much it is", () => {
    const took: ClosedRecord = {
      ...NOTHING_SPENT,
      line: 0,
      attempts: 40_000,
      ambiguousAttempts: 3,
      uncounted: 40_000,
      uncountedAmbiguous: 3,
      unusableAnswers: 0,
      inputTokens: 1_000_000_000,
    };
    const records: ClosedRecord[] = [];
    for (let time = 0; time < 10; time += 1) addGone(records, { ...took, attempts: time < 5 ? 40_000 : 1 });
    const sum = (of: (record: ClosedRecord) => number): number =>
      records.reduce((all, record) => all + of(record), 0);
    expect(sum(({ attempts }) => attempts)).toBe(200_005);
    expect(sum(({ inputTokens }) => inputTokens)).toBe(10_000_000_000);
    expect(records.every(({ attempts, inputTokens }) => attempts < 2 ** 16 && inputTokens < 2 ** 32)).toBe(
      true,
    );
    expect(records.length).toBeLessThan(8);
  });
});
