/**
 * What a journal adds up to.
 */
import { describe, expect, it } from "vitest";
import { addGone } from "../../src/engine/item_cost.ts";
import {
  type ClosedRecord,
  type IntentRecord,
  NOTHING_SPENT,
  readStep,
  type Step,
  StepWriter,
} from "../../src/engine/journal.ts";
import { Replay } from "../../src/engine/replay.ts";

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

describe("what lines took that are open again", () => {
  it("is kept in records that a journal can hold, however much it is", () => {
    const took: ClosedRecord = {
      ...NOTHING_SPENT,
      line: 0,
      attempts: 40_000,
      ambiguousAttempts: 3,
      uncounted: 40_000,
      uncountedAmbiguous: 3,
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
