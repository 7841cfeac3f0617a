/** Laws of the queue: it sorts, it loses nothing, and it ages. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { latestStartMs, ShardQueue, type Ticket } from "../../src/queue/queue.ts";

interface TestTicket extends Ticket {
  readonly needMs: number;
  readonly number: number;
}

const tickets = fc.array(
  fc.record({
    runId: fc.constantFrom("a", "b", "c"),
    items: fc.constant(1),
    inputTokens: fc.constant(1),
    expectedOutputTokens: fc.constant(1),
    deadlineMs: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 0, max: 1_000 })),
    arrivedMs: fc.integer({ min: 0, max: 1_000 }),
    needMs: fc.integer({ min: 0, max: 300 }),
  }),
  { maxLength: 80 },
);

describe("ShardQueue", () => {
  it("does what a sorted list does, under pushes, pops, expiry and removal of runs", () => {
    const command = fc.constantFrom("pop", "expire", "remove", "push", "push", "push");
    fc.assert(
      fc.property(tickets, fc.array(command, { maxLength: 160 }), (drawn, commands) => {
        const queue = new ShardQueue<TestTicket>((ticket) => ticket.needMs);
        let list: TestTicket[] = [];
        let nowMs = 0;
        const without = (wanted: (ticket: TestTicket) => boolean): TestTicket[] => {
          const removed = list.filter(wanted);
          list = list.filter((ticket) => !wanted(ticket));
          return removed;
        };
        for (const [number, name] of commands.entries()) {
          if (name === "push") {
            const next = drawn[number % Math.max(1, drawn.length)];
            if (next === undefined) continue;
            const ticket = { ...next, number };
            queue.push(ticket);
            list.push(ticket);
            list.sort(
              (left, right) =>
                latestStartMs(left, left.needMs) - latestStartMs(right, right.needMs) ||
                left.arrivedMs - right.arrivedMs ||
                left.number - right.number,
            );
          } else if (name === "pop") {
            expect(queue.peek()).toBe(list[0]);
            expect(queue.pop()).toBe(list.shift());
          } else if (name === "expire") {
            nowMs += 60;
            expect(queue.popExpired(nowMs)).toEqual(without((ticket) => ticket.deadlineMs <= nowMs));
          } else {
            const runId = ["a", "b", "c"][number % 3]!;
            expect(queue.removeRun(runId)).toEqual(without((ticket) => ticket.runId === runId));
          }
          expect(queue.size).toBe(list.length);
        }
      }),
      { numRuns: 200 },
    );
  });

  it("fault 81: a flood of short slas holds a long one up to its latest start, and past it by one service at most", () => {
    const flood = fc.record({
      slaMs: fc.integer({ min: 1_000, max: 20_000 }),
      serviceMs: fc.integer({ min: 100, max: 500 }),
      load: fc.double({ min: 0.2, max: 4, noNaN: true }),
      longSlaMs: fc.integer({ min: 50_000, max: 100_000 }),
    });
    fc.assert(
      fc.property(flood, ({ slaMs, serviceMs, load, longSlaMs }) => {
        const need = (ticket: TestTicket): number => ticket.needMs;
        const queue = new ShardQueue<TestTicket>(need);
        const long = made("long", 0, longSlaMs, 3 * serviceMs);
        queue.push(long);
        let arrivesMs = 0;
        let startedMs = Number.POSITIVE_INFINITY;
        for (let nowMs = 0; nowMs < longSlaMs * 2; nowMs += serviceMs) {
          for (; arrivesMs <= nowMs; arrivesMs += serviceMs / load)
            queue.push(made("short", arrivesMs, arrivesMs + slaMs, serviceMs));
          // What can no longer be done in time is taken out one service before its deadline.
          const expired = queue.popExpired(nowMs + serviceMs);
          if (expired.includes(long)) throw new Error(`the long one expired at ${nowMs}`);
          if (queue.pop() !== long) continue;
          startedMs = nowMs;
          break;
        }
        expect(startedMs).toBeLessThan(latestStartMs(long, need(long)) + serviceMs);
      }),
      { numRuns: 60 },
    );
  });

  it("fault 81: serves everything by its latest start whenever that is possible at all", () => {
    const arrivals = fc.array(
      fc.record({ gapMs: fc.integer({ min: 0, max: 400 }), slackMs: fc.integer({ min: 0, max: 20_000 }) }),
      { minLength: 1, maxLength: 60 },
    );
    fc.assert(
      fc.property(arrivals, (drawn) => {
        const serviceMs = 100;
        const queue = new ShardQueue<TestTicket>((ticket) => ticket.needMs);
        // Deadlines that first come, first served meets; earliest latest start must meet them too.
        let atMs = 0;
        let freeMs = 0;
        const waiting = drawn.map(({ gapMs, slackMs }) => {
          atMs += gapMs - (gapMs % serviceMs);
          freeMs = Math.max(freeMs, atMs) + serviceMs;
          return made("any", atMs, freeMs + slackMs, serviceMs);
        });
        for (let nowMs = 0; waiting.length > 0 || queue.size > 0; nowMs += serviceMs) {
          while (waiting[0] !== undefined && waiting[0].arrivedMs <= nowMs) queue.push(waiting.shift()!);
          const next = queue.pop();
          if (next !== undefined) expect(nowMs).toBeLessThanOrEqual(latestStartMs(next, next.needMs));
        }
      }),
      { numRuns: 100 },
    );
  });

  it("serves runs of equal urgency by arrival, of any owner", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 60 }), (runs) => {
        const queue = new ShardQueue<TestTicket>();
        for (const [number, runId] of runs.entries())
          queue.push({ ...made(runId, number, Number.POSITIVE_INFINITY, 0), number });
        const served: string[] = [];
        for (let next = queue.pop(); next !== undefined; next = queue.pop()) served.push(next.runId);
        expect(served).toEqual(runs);
      }),
    );
  });
});

function made(runId: string, arrivedMs: number, deadlineMs: number, needMs: number): TestTicket {
  return {
    runId,
    items: 1,
    inputTokens: 1,
    expectedOutputTokens: 1,
    deadlineMs,
    arrivedMs,
    needMs,
    number: 0,
  };
}
