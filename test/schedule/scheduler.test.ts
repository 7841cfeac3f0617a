/** Queues per lane. */
import { describe, expect, it } from "vitest";
import { type LaneTicket, Scheduler } from "../../src/queue/scheduler.ts";

function ticket(lane: string, arrivedMs: number, fields: Partial<LaneTicket> = {}): LaneTicket {
  return {
    lane,
    runId: "run",
    items: 10,
    inputTokens: 100,
    expectedOutputTokens: 100,
    deadlineMs: Number.POSITIVE_INFINITY,
    arrivedMs,
    ...fields,
  };
}

describe("Scheduler", () => {
  it("keeps a queue per lane", () => {
    const scheduler = new Scheduler<LaneTicket>();
    scheduler.add(ticket("slow", 50));
    scheduler.add(ticket("quick", 100));
    scheduler.add(ticket("quick", 20));
    expect(scheduler.peek("quick")?.arrivedMs).toBe(20);
    expect(scheduler.take("quick")?.arrivedMs).toBe(20);
    expect(scheduler.take("slow")?.arrivedMs).toBe(50);
    expect(scheduler.take("slow")).toBeUndefined();
    expect(scheduler.peek("unknown")).toBeUndefined();
  });

  it("counts what waits", () => {
    const scheduler = new Scheduler<LaneTicket>();
    scheduler.add(ticket("a", 0));
    scheduler.add(ticket("a", 1, { runId: "other", items: 5 }));
    scheduler.add(ticket("b", 1, { deadlineMs: 900, items: 7 }));
    expect(scheduler.waiting).toEqual({ tickets: 3, items: 22 });
    expect(scheduler.take("b")?.items).toBe(7);
    expect(scheduler.removeRun("other").map(({ items }) => items)).toEqual([5]);
    expect(scheduler.waiting).toEqual({ tickets: 1, items: 10 });
    scheduler.take("a");
    expect(scheduler.waiting).toEqual({ tickets: 0, items: 0 });
  });

  it("orders by latest start when it is told the need", () => {
    const scheduler = new Scheduler<LaneTicket>((each) => each.items * 100);
    scheduler.add(ticket("a", 0, { deadlineMs: 10_000, items: 1 }));
    scheduler.add(ticket("a", 0, { deadlineMs: 11_000, items: 90 }));
    expect(scheduler.take("a")?.items).toBe(90);
  });

  it("passes over runs that stand apart, and keeps the order with the others", () => {
    const scheduler = new Scheduler<LaneTicket>();
    scheduler.add(ticket("a", 10, { runId: "one" }), true);
    scheduler.add(ticket("a", 20));
    scheduler.add(ticket("a", 30, { runId: "one" }), true);
    scheduler.add(ticket("a", 40, { runId: "two" }), true);
    expect(scheduler.peek("a")?.arrivedMs).toBe(10);
    expect(scheduler.peek("a", new Set(["one"]))?.arrivedMs).toBe(20);
    expect(scheduler.take("a", new Set(["one"]))?.arrivedMs).toBe(20);
    expect(scheduler.take("a", new Set(["one"]))?.arrivedMs).toBe(40);
    expect(scheduler.take("a", new Set(["one"]))).toBeUndefined();
    expect(scheduler.take("a")?.arrivedMs).toBe(10);
    expect(scheduler.removeRun("one").map(({ arrivedMs }) => arrivedMs)).toEqual([30]);
    expect(scheduler.waiting).toEqual({ tickets: 0, items: 0 });
  });
});
