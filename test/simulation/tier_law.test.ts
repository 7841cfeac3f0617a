/** I18 itself: a book that keeps it has nothing wrong, and each side of it is found in a book that breaks it. */
import { describe, expect, it } from "vitest";
import type { Served } from "./provider.ts";
import { RunBook } from "./run_book.ts";
import { type TierLawOptions, wrongTier } from "./tier_law.ts";
import type { SimulatedLine, SimulatedRun } from "./workload.ts";

const LINE: SimulatedLine = {
  id: 1,
  line: 1,
  run: 0,
  text: "",
  kind: "item",
  key: "k",
  provider: "openai",
  model: "openai:m1",
  faults: [],
  ending: "answer",
};

/** A run of one line that was accepted at 0. */
function bookOf(slaMinutes: number | undefined, line: Partial<SimulatedLine> = {}): RunBook {
  const run: SimulatedRun = {
    index: 0,
    lines: [{ ...LINE, ...line }],
    isOrdered: false,
    isStream: false,
    slaMinutes,
    maxCostUsd: undefined,
    isCapShared: false,
    waitMs: undefined,
    again: [],
    project: undefined,
    startMs: 0,
  };
  const book = new RunBook(run, undefined);
  book.accepted(0);
  return book;
}

/** A request in the tier, from 1 s on. */
function inTier(changes: Partial<Served>): Served {
  return {
    atMs: 1_000,
    provider: "openai",
    model: "openai:m1",
    line: LINE,
    what: "answer",
    isInTier: true,
    priceFactor: 0.5,
    isBilled: true,
    tellsUsage: true,
    inputTokens: 1,
    outputTokens: 1,
    worstUsd: 1,
    retryAfterMs: undefined,
    mayWaitMs: 0,
    process: 1,
    call: 1,
    isDelivered: true,
    isCut: false,
    isOver: true,
    overAtMs: 2_000,
    ...changes,
  };
}

function wrongIn(book: RunBook, served: readonly Served[], changes: Partial<TierLawOptions> = {}): string[] {
  const options = {
    books: [book],
    served,
    endOf: () => ({ status: "completed" }),
    needMs: 1_000,
    ...changes,
  };
  return [...wrongTier(options)];
}

const EXPIRED = { endOf: () => ({ status: "expired" }) };

describe("the law of cheaper tiers", () => {
  it("lets a line be refused for want of capacity, asked there again and answered", () => {
    const shed = inTier({ what: "shed_in_tier" });
    expect(wrongIn(bookOf(20), [shed, inTier({ atMs: 3_000, overAtMs: 4_000 })])).toEqual([]);
  });

  it("finds a request in the tier without a deadline", () => {
    expect(wrongIn(bookOf(undefined), [inTier({})])[0]).toContain("does not have a deadline");
  });

  it.each([{ what: "unknown_in_tier" }, { what: "bad_request_in_tier" }, { what: "gateway_timeout" }])(
    "finds a line that is sent in the tier again after it failed there: $what",
    (failure) => {
      const again = inTier({ atMs: 3_000, overAtMs: 4_000 });
      expect(wrongIn(bookOf(20), [inTier(failure), again])[0]).toContain("sent in the tier again");
      const later = [inTier(failure), inTier({ atMs: 3_000, call: 2 })];
      expect(wrongIn(bookOf(20), later)).toEqual([]);
    },
  );

  it("finds a line that expires though its deadline leaves time, and no other", () => {
    expect(wrongIn(bookOf(2), [], EXPIRED)[0]).toContain("line 1 expired");
    expect(wrongIn(bookOf(2), [], { ...EXPIRED, needMs: 60_000 })).toEqual([]);
    expect(wrongIn(bookOf(2), [], { ...EXPIRED, needMs: undefined })).toEqual([]);
    expect(wrongIn(bookOf(2, { ending: "slow_answer" }), [], EXPIRED)).toEqual([]);
    expect(wrongIn(bookOf(2, { kind: "bad" }), [], EXPIRED)).toEqual([]);
  });

  it("finds an answer that is given up long before its deadline, and before its own time is over", () => {
    const cut = (overAtMs: number): Served => inTier({ isCut: true, isDelivered: false, overAtMs });
    expect(wrongIn(bookOf(20), [cut(300_000)])[0]).toContain("given up in the tier");
    expect(wrongIn(bookOf(60), [cut(901_000)])).toEqual([]);
    expect(wrongIn(bookOf(20), [cut(1_100_000)])).toEqual([]);
  });
});
