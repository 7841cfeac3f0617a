/** Rows of refusals that their item explains, or the lane. */
import { describe, expect, it } from "vitest";
import type { LaneLimits, Permit } from "../../src/limits/limits.ts";
import { OwnRefusals, type RefusedItem } from "../../src/limits/own_refusals.ts";

/** A lane with so many requests under way, and what is said of permits. */
function setUp(inFlight = 1) {
  const said: string[] = [];
  const doubt = {
    confirmed: (permit: Permit) => void said.push(`confirmed ${String(permit)}`),
    explained: (_nowMs: number, permits: readonly Permit[]) => void said.push(`explained ${permits.join()}`),
  };
  const limits = { inFlight, hidden: { doubt } } as unknown as LaneLimits; // all that is read of it
  const refusals = new OwnRefusals(limits);
  const item: RefusedItem = { refusedRow: undefined };
  const permit = (name: string): Permit => name as unknown as Permit; // passed on only
  return {
    ...{ said, item },
    refuse: (of: RefusedItem, name: string) => refusals.isOwn(0, of, permit(name)),
    answer: (count: number) => {
      for (let each = 0; each < count; each += 1) refusals.answered({ refusedRow: undefined });
    },
    answerIt: () => refusals.answered(item),
  };
}

describe("an item that is refused again", () => {
  it("is the cause once enough others were answered since its first refusal, and not before", () => {
    for (const [answers, isOwn, explained] of [
      [0, false, []],
      [1, true, []], // chance may explain this row, which counts against nobody
      [3, true, []],
      [4, true, ["explained first"]],
    ] as const) {
      const { said, item, refuse, answer } = setUp();
      answer(100); // before its first refusal
      expect(refuse(item, "first")).toBe(false);
      answer(answers);
      expect(refuse(item, "second")).toBe(isOwn);
      expect(said).toEqual(explained);
    }
  });

  it("is not the cause where answers were under way before it, or others are refused as well", () => {
    const underWay = setUp(5);
    underWay.refuse(underWay.item, "first");
    underWay.answer(4);
    expect(underWay.refuse(underWay.item, "second")).toBe(false);
    const others = setUp();
    others.refuse(others.item, "first");
    for (let each = 0; each < 4; each += 1) others.refuse({ refusedRow: undefined }, "other");
    others.answer(4);
    expect(others.refuse(others.item, "second")).toBe(false);
  });

  it("begins a new row after an answer, which says that its refusals were the lane's", () => {
    const { said, item, refuse, answer, answerIt } = setUp();
    refuse(item, "first");
    refuse(item, "second");
    answerIt();
    expect(said).toEqual(["confirmed first", "confirmed second"]);
    answer(100);
    expect(refuse(item, "third")).toBe(false); // the first of its row
    answer(4);
    expect(refuse(item, "fourth")).toBe(true);
    expect(said.at(-1)).toBe("explained third");
  });
});
