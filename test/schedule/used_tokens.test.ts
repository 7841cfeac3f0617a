/** Tokens of the last minute, by slots of half a second: a ring must say what a list of all that was used says. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MINUTE_SLOTS, SLOT_MS, UsedTokens } from "../../src/limits/used_tokens.ts";

interface Use {
  readonly slot: number;
  readonly input: number;
  readonly output: number;
}

const uses = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 20_000 }),
    input: fc.integer({ min: 0, max: 500 }),
    output: fc.integer({ min: 0, max: 500 }),
  }),
  { maxLength: 40 },
);

/** The same uses in a ring and in a list, and the time of the last one. */
function used(
  steps: readonly { readonly afterMs: number; readonly input: number; readonly output: number }[],
): {
  readonly ring: UsedTokens;
  readonly list: readonly Use[];
  readonly nowMs: number;
} {
  const ring = new UsedTokens();
  const list: Use[] = [];
  let nowMs = 0;
  for (const { afterMs, input, output } of steps) {
    nowMs += afterMs;
    const slot = ring.advance(nowMs);
    ring.addInput(slot, input);
    ring.addOutput(slot, output);
    list.push({ slot, input, output });
  }
  return { ring, list, nowMs };
}

/** Tokens of slots above `after`. */
function sumOf(list: readonly Use[], after: number): readonly [number, number] {
  const counted = list.filter(({ slot }) => slot > after);
  return [
    counted.reduce((sum, { input }) => sum + input, 0),
    counted.reduce((sum, { output }) => sum + output, 0),
  ];
}

describe("UsedTokens", () => {
  it("sums up any minute that ends now or later, and all time", () => {
    fc.assert(
      fc.property(uses, fc.integer({ min: 0, max: MINUTE_SLOTS }), (steps, horizon) => {
        const { ring, list, nowMs } = used(steps);
        const slot = ring.advance(nowMs);
        const [input, output] = sumOf(list, slot - (MINUTE_SLOTS + 1) + horizon);
        const later = ring.byHorizon(slot);
        expect([later.input[horizon], later.output[horizon]]).toEqual([input, output]);
        expect(ring.since(slot)).toEqual(sumOf(list, slot - (MINUTE_SLOTS + 1)));
        const [inputs, outputs] = sumOf(list, -1);
        expect(ring.total).toEqual({ tokens: inputs + outputs, outputTokens: outputs });
      }),
    );
  });

  it("says when the minute will hold no more than so many tokens: then, and not before", () => {
    fc.assert(
      fc.property(uses, fc.integer({ min: 0, max: 10_000 }), fc.boolean(), (steps, most, isAll) => {
        const { ring, list, nowMs } = used(steps);
        const heldAt = (atMs: number): number => {
          const [input, output] = sumOf(list, Math.floor(atMs / SLOT_MS) - (MINUTE_SLOTS + 1));
          return output + (isAll ? input : 0);
        };
        const waitMs = ring.fallsToMs(nowMs, isAll ? "tokens" : "outputTokens", most);
        expect(waitMs).toBeGreaterThanOrEqual(0);
        expect(waitMs).toBeLessThanOrEqual(MINUTE_SLOTS * SLOT_MS);
        // The ring has one slot more than a minute, so what was used just now counts for half a second longer.
        if (waitMs < MINUTE_SLOTS * SLOT_MS) expect(heldAt(nowMs + waitMs)).toBeLessThanOrEqual(most);
        if (waitMs > 0) expect(heldAt(nowMs + waitMs - 1)).toBeGreaterThan(most);
      }),
    );
  });
});
