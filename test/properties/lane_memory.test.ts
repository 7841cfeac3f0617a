/** Laws of what the work log remembers of lanes: no request is forgotten early, counted twice or kept, and facts are as old as they are. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openWorkLog } from "../../src/log/work_log.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { intentOf, work } from "../../src/testing/work_log_calls.ts";

const WINDOW_MS = 60_000;
/** What is sent within so long is summed, and forgotten together. */
const SUM_MS = 1_000;
const ITEMS = 100;

const lane = fc.integer({ min: 1, max: 2 });
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ is: fc.constant("send" as const), lane, again: fc.nat({ max: 3 }) }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant("sendMore" as const), lane, tokens: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ is: fc.constant("learn" as const), lane, value: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ is: fc.constant("wait" as const), ms: fc.nat({ max: 1_500 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      is: fc.constant("wait" as const),
      ms: fc.constantFrom(999, 1_000, 29_500, 60_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ is: fc.constant("jump" as const), ms: fc.integer({ min: -1e8, max: 1e8 }) }),
  },
  { weight: 1, arbitrary: fc.record({ is: fc.constant("restart" as const) }) },
);
const cutting = fc.record({
  cutFloorBytes: fc.constantFrom(0, 400, 1 << 20),
  restatedBytesMin: fc.constantFrom(0, 10_000),
});

interface Sent {
  readonly lane: number;
  readonly atMs: number;
  readonly requests: number;
  readonly tokens: number;
}

type Counts = Pick<Sent, "requests" | "tokens">;

function sumOf(of: readonly Counts[]): Counts {
  let [requests, tokens] = [0, 0];
  for (const one of of) {
    requests += one.requests;
    tokens += one.tokens;
  }
  return { requests, tokens };
}

describe("a work log", () => {
  it("counts each request of the last minute once and forgets the others, however it is cut, read again and the clock set", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 50 }), cutting, async (steps, bounds) => {
        const clock = new FakeClock();
        const store = createMemoryStore();
        let log = await openWorkLog({ store, clock, ...bounds });
        const { task } = log.accept(work("open", { items: ITEMS }));
        const sent: Sent[] = [];
        const facts = new Map<number, { readonly value: number; readonly atMs: number }>();
        for (const [index, given] of steps.entries()) {
          const atMs = clock.nowMs();
          if (given.is === "send")
            for (let attempt = 1; attempt <= given.again + 1; attempt += 1) {
              await log.intend({ ...intentOf(task, index % ITEMS, attempt), lane: given.lane });
              sent.push({ lane: given.lane, atMs, requests: 1, tokens: 30 });
            }
          else if (given.is === "sendMore") {
            await log.sentMore(given.lane, given.tokens, given.tokens);
            sent.push({ lane: given.lane, atMs, requests: 0, tokens: 2 * given.tokens });
          } else if (given.is === "learn") {
            await log.learn(given.lane, 1, given.value, 1);
            facts.set(given.lane, { value: given.value, atMs });
          } else if (given.is === "wait") await clock.advance(given.ms);
          else if (given.is === "jump") clock.jumpWall(given.ms);
          else {
            await log.close();
            log = await openWorkLog({ store, clock, ...bounds });
          }
          const nowMs = clock.nowMs();
          for (const each of [1, 2]) {
            const since = (ms: number) =>
              sumOf(sent.filter((one) => one.lane === each && nowMs - one.atMs <= ms));
            const kept = log.recentlySent().filter((sum) => sum.lane === each);
            const counted = sumOf(
              kept.map(({ requests, inputTokens, outputTokens }) => ({
                requests,
                tokens: inputTokens + outputTokens,
              })),
            );
            const [least, most] = [since(WINDOW_MS), since(WINDOW_MS + SUM_MS)];
            expect(counted.requests).toBeGreaterThanOrEqual(least.requests);
            expect(counted.tokens).toBeGreaterThanOrEqual(least.tokens);
            expect(counted.requests).toBeLessThanOrEqual(most.requests);
            expect(counted.tokens).toBeLessThanOrEqual(most.tokens);
          }
          const known = log.facts().map((fact) => [fact.lane, fact.value, fact.ageMs]);
          expect(known.toSorted()).toEqual(
            [...facts].map(([of, { value, atMs: thenMs }]) => [of, value, nowMs - thenMs]).toSorted(),
          );
        }
        await log.close();
      }),
      { numRuns: 200 },
    );
  });
});
