/** The summary of a run over the fleet: sums over its shards, whichever workers had them. */
import { describe, expect, it } from "vitest";
import type { Hold } from "../../src/engine/items/holds.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import { attemptsOf, joinedSummary } from "../../src/fleet/shards/joined_summary.ts";
import { doubtClause } from "../../src/price/money.ts";

const own = { status: "paused", taskId: "t", output: "out.jsonl", elapsedMs: 10, attemptsBefore: 0 } as const;

function partOf(attempts: number, held: readonly Hold[] = []): Summary {
  const none = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
  const tokens = {
    ...{ input_tokens: 0, cached_tokens: 0, cache_write_tokens: 0, output_tokens: 0, reasoning_tokens: 0 },
    ...{ attempts, ambiguous_attempts: 0 },
  };
  const cost = { billed_usd: 0, ambiguous_usd: 0, list_usd: 0, usd: 0, is_estimated: false };
  return {
    ...{ status: "paused", task_id: "s", items: 5, counts: none, errors: {}, warnings: {}, usage: tokens },
    ...{
      cost: { ...cost, prices: [], price_source: "" },
      output: "s",
      elapsed_ms: 1,
      requests_sent: 0,
      held,
    },
  };
}

function capHold(cap: string, items: number, needed: number, minute: number): Hold {
  return {
    ...{ reason: "cap_reached", items, cap, needed_usd: needed, next_try: null },
    since: `2026-01-01T00:0${minute}:00.000Z`,
    message: `the cap "${cap}" of $1.00 has $0.10 left, and the next request may cost $${needed - 0.9}`,
  };
}

describe("the summary of a run over the fleet", () => {
  it("counts the attempts of all owners of its shards since the call began", () => {
    const parts = [partOf(7), partOf(5)];
    expect(joinedSummary(parts, own).requests_sent).toBe(12);
    const attemptsBefore = attemptsOf(["", '{"settled":3}', JSON.stringify(partOf(7))]);
    expect(joinedSummary(parts, { ...own, attemptsBefore }).requests_sent).toBe(5);
  });

  it("has one hold for the run's cap, without its name in the store, and with what the shard needs that needs most", () => {
    const parts = [partOf(0, [capHold("run:t", 2, 1.1, 4)]), partOf(0, [capHold("run:t", 3, 1.3, 2)])];
    const { held } = joinedSummary(parts, own);
    expect(held).toMatchObject([{ items: 5, needed_usd: 1.3, since: "2026-01-01T00:02:00.000Z" }]);
    expect(held[0]?.message).toMatch(/^the cost cap of \$1\.00 has/);
    expect(held[0]?.cap).toBeUndefined();
  });

  it("says one sum in doubt: that of all shards, also in the hold of the run's cap", () => {
    const hold = capHold("run:t", 2, 1.1, 4);
    const message = hold.message.replace(" left", ` left${doubtClause(0.2739)}`);
    const parts = [partOf(3), partOf(2, [{ ...hold, message }])].map((part, index) => ({
      ...part,
      cost: { ...part.cost, ambiguous_usd: [8.6561, 0.2739][index] ?? 0 },
    }));
    const summary = joinedSummary(parts, own);
    expect(summary.cost.ambiguous_usd).toBe(8.93);
    expect(summary.held[0]?.message).toContain(
      "$0.10 left ($8.93 of what is spent is in doubt), and the next",
    );
  });

  it("names another cap, and no amount where two caps hold its shards", () => {
    const [first] = joinedSummary([partOf(0, [capHold("all", 2, 1.1, 4)])], own).held;
    expect(first).toMatchObject({ cap: "all", needed_usd: 1.1 });
    const both = [partOf(0, [capHold("run:t", 2, 1.1, 4)]), partOf(0, [capHold("all", 3, 1.3, 2)])];
    const { held } = joinedSummary(both, own);
    expect(held).toMatchObject([{ items: 5, reason: "cap_reached" }]);
    expect(held[0]?.needed_usd).toBeUndefined();
  });
});
