/** Laws of the counts of a minute: what happened in it counts to the unit, and nothing that is older. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MINUTE_SLOT_MS, Minute } from "../../src/limits/minute.ts";
import { SLOT_MS, UsedTokens } from "../../src/limits/used_tokens.ts";

const WINDOW_MS = 60_000;
/** Around each border of a slot and of the minute. */
const passing = fc.oneof(
  fc.nat({ max: 3_000 }),
  fc.constantFrom(0, 1, 499, 500, 501, 59_499, 59_500, 59_999, 60_000, 60_001, 60_500, 60_501, 125_000),
);
/** So long before now, or at its very moment. */
const before = fc.oneof(
  fc.constant(0),
  fc.nat({ max: 61_500 }),
  fc.constantFrom(59_500, 60_000, 60_499, 60_500),
);
const step = fc.record({ passing, before, amount: fc.integer({ min: 1, max: 9 }), isBack: fc.boolean() });

describe("the count of a minute", () => {
  it("is that of its half seconds, the present one included, in any order of the calls", () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 60 }),
        fc.integer({ min: -9e4, max: 9e4 }),
        (steps, startMs) => {
          const minute = new Minute();
          const slots = new Map<number, number>();
          let nowMs = startMs;
          for (const given of steps) {
            nowMs += given.passing;
            const newest = Math.floor(nowMs / MINUTE_SLOT_MS);
            minute.add(nowMs, 1); // from here on the present is known
            slots.set(newest, (slots.get(newest) ?? 0) + 1);
            const slot = Math.floor((nowMs - given.before) / MINUTE_SLOT_MS);
            const known = slots.get(slot) ?? 0;
            const amount = given.isBack ? -Math.min(known, given.amount) : given.amount;
            minute.add(nowMs - given.before, amount);
            slots.set(slot, known + amount);
            const isIn = (each: number): boolean => each > newest - WINDOW_MS / MINUTE_SLOT_MS;
            let sum = 0;
            for (const [each, count] of slots) sum += isIn(each) ? count : 0;
            expect(minute.count(nowMs)).toBe(sum);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("the tokens of a minute", () => {
  it("are those of its half seconds and of the one that it begins in, and fall when they say", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), fc.nat({ max: 40 }), (steps, most) => {
        const used = new UsedTokens();
        const slots = new Map<number, number>();
        let nowMs = 0;
        for (const given of steps) {
          nowMs += given.passing;
          const newest = used.advance(nowMs);
          expect(newest).toBe(Math.floor(nowMs / SLOT_MS));
          const slot = newest - Math.floor(given.before / SLOT_MS);
          if (given.isBack) used.addInput(slot, given.amount);
          else used.addOutput(slot, given.amount);
          slots.set(slot, (slots.get(slot) ?? 0) + given.amount);
        }
        const sumAt = (atMs: number): number => {
          const oldest = Math.floor(atMs / SLOT_MS) - WINDOW_MS / SLOT_MS;
          return [...slots].reduce((sum, [slot, count]) => sum + (slot >= oldest ? count : 0), 0);
        };
        const newest = used.advance(nowMs);
        const [input, output] = used.since(newest);
        expect(input + output).toBe(sumAt(nowMs));
        const fallsMs = used.fallsToMs(nowMs, "tokens", most);
        if (sumAt(nowMs) <= most) expect(fallsMs).toBe(0);
        else {
          // The half second that has just begun counts for one more: it says so a slot early at most.
          expect(sumAt(nowMs + fallsMs + SLOT_MS)).toBeLessThanOrEqual(most);
          expect(sumAt(nowMs + fallsMs - 1)).toBeGreaterThan(most);
        }
      }),
      { numRuns: 500 },
    );
  });
});
