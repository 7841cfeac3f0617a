/** The law of recorded moments: never thought older than they are, for any clocks and boots of a machine. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Moment } from "../../src/clock.ts";
import { leastMsBetween } from "../../src/work/moment.ts";

interface Lived {
  readonly moment: Moment;
  /** Real time that has passed since the beginning. */
  readonly atMs: number;
}

const gapMs = fc.oneof(fc.nat({ max: 2_000 }), fc.nat({ max: 100_000_000 }));
const event = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: gapMs }) },
  fc.record({ kind: fc.constant("jump" as const), ms: fc.integer({ min: -1e10, max: 1e10 }) }),
  fc.record({ kind: fc.constant("boot" as const), ms: gapMs }),
  fc.record({ kind: fc.constant("sleep" as const), ms: gapMs }),
);
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never;

/** One machine: a moment after each event. */
function live(events: readonly Event[], tellsBoot: boolean): Lived[] {
  let [atMs, wallOffsetMs, bootedAtMs, boots] = [0, 1.7e12, 0, 1];
  return events.map(({ kind, ms }) => {
    if (kind === "jump") wallOffsetMs += ms;
    else atMs += ms;
    if (kind === "sleep") bootedAtMs += ms; // the time since boot may leave out sleep
    if (kind === "boot") [boots, bootedAtMs] = [boots + 1, atMs];
    const bootId = tellsBoot ? `boot ${boots}` : undefined;
    return { moment: { wallMs: atMs + wallOffsetMs, bootId, sinceBootMs: atMs - bootedAtMs }, atMs };
  });
}

describe("leastMsBetween", () => {
  it("is never more than what has really passed, and never negative", () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 2, maxLength: 12 }), fc.boolean(), (events, tellsBoot) => {
        const lived = live(events, tellsBoot);
        const last = lived.at(-1)!;
        let sumMs = 0;
        for (const [index, each] of lived.toReversed().entries()) {
          const later = lived.at(-index) ?? last;
          const leastMs = leastMsBetween(each.moment, last.moment);
          expect(leastMs).toBeGreaterThanOrEqual(0);
          expect(leastMs).toBeLessThanOrEqual(last.atMs - each.atMs);
          if (index > 0) sumMs += leastMsBetween(each.moment, later.moment);
          expect(sumMs).toBeLessThanOrEqual(last.atMs - each.atMs);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it("is exact within a boot that the machine reports, for any jumps of its wall clock", () => {
    const awake = event.filter(({ kind }) => kind === "pass" || kind === "jump");
    fc.assert(
      fc.property(fc.array(awake, { minLength: 2, maxLength: 12 }), (events) => {
        const lived = live(events, true);
        const [first, last] = [lived[0]!, lived.at(-1)!];
        expect(leastMsBetween(first.moment, last.moment)).toBe(last.atMs - first.atMs);
      }),
    );
  });

  it("believes the wall clock of an earlier boot, once the machine has run for as long as that", () => {
    const before = { wallMs: 1_000_000, bootId: "a", sinceBootMs: 9e8 };
    const after = { wallMs: 1_050_000, bootId: "b", sinceBootMs: 80_000 };
    expect(leastMsBetween(before, after)).toBe(50_000);
    expect(leastMsBetween(before, { ...after, sinceBootMs: 3_000 })).toBe(3_000);
    expect(leastMsBetween(before, { ...after, wallMs: 999_999 })).toBe(0);
    expect(leastMsBetween({ ...before, bootId: undefined }, after)).toBe(50_000);
  });
});
