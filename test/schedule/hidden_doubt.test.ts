/** Refusals that may be their items' own: when what they changed is taken back. */
import { describe, expect, it } from "vitest";
import { HiddenDoubt } from "../../src/limits/hidden/hidden_doubt.ts";

/** A limit that each refusal lowers by one. */
function setUp() {
  const doubt = new HiddenDoubt();
  const state = { limit: 10 };
  const marks = new Map<string, object>();
  const markOf = (name: string): object => {
    const mark = marks.get(name) ?? {};
    marks.set(name, mark);
    return mark;
  };
  const keep = () => {
    const before = state.limit;
    return () => {
      state.limit = before;
    };
  };
  return {
    state,
    refuse: (nowMs: number, name: string) => {
      doubt.refused(nowMs, markOf(name), keep);
      state.limit -= 1;
    },
    explain: (nowMs: number, ...names: string[]) => doubt.explained(nowMs, names.map(markOf)),
    confirm: (name: string) => doubt.confirmed(markOf(name)),
  };
}

describe("refusals that their items explain", () => {
  it.each([
    [60_000, 10],
    [60_001, 8],
    [3_600_000, 8],
  ])("when all are explained %i ms after the first, leave a limit of %i", (explainedMs, limit) => {
    const { state, refuse, explain } = setUp();
    refuse(0, "a");
    refuse(500, "b");
    explain(explainedMs - 1, "a");
    expect(state.limit).toBe(8);
    explain(explainedMs, "b");
    expect(state.limit).toBe(limit);
    explain(explainedMs, "a", "b");
    expect(state.limit).toBe(limit);
  });

  it("change nothing back while one of them is not explained, or once one is found to be the lane's", () => {
    const one = setUp();
    for (const name of ["a", "b", "c"]) one.refuse(0, name);
    one.explain(1, "a", "c");
    expect(one.state.limit).toBe(7);
    const lane = setUp();
    for (const name of ["a", "b"]) lane.refuse(0, name);
    lane.confirm("another");
    lane.confirm("a");
    lane.explain(1, "a", "b");
    expect(lane.state.limit).toBe(8);
  });

  it("of the last minute are taken back without those before it", () => {
    const { state, refuse, explain } = setUp();
    refuse(0, "old");
    refuse(60_001, "new");
    explain(60_002, "old");
    expect(state.limit).toBe(8);
    explain(60_002, "new");
    expect(state.limit).toBe(9);
  });
});
