/** Waiting shards by latest start; the law of ageing is in test/properties/schedule_queue.test.ts. */
import { describe, expect, it } from "vitest";
import { latestStartMs, ShardQueue, type Ticket } from "../../src/queue/queue.ts";

interface NamedTicket extends Ticket {
  readonly name: string;
}

function ticket(name: string, fields: Partial<Ticket> = {}): NamedTicket {
  return {
    name,
    runId: "run",
    items: 1,
    inputTokens: 10,
    expectedOutputTokens: 10,
    deadlineMs: Number.POSITIVE_INFINITY,
    arrivedMs: 0,
    ...fields,
  };
}

function drain(queue: ShardQueue<NamedTicket>): string[] {
  const names: string[] = [];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) names.push(next.name);
  return names;
}

describe("ShardQueue", () => {
  it("serves the latest start first: the deadline less the need, or the arrival without a deadline", () => {
    const queue = new ShardQueue<NamedTicket>((each) => each.items * 1_000);
    queue.push(ticket("late and small", { deadlineMs: 100_000 }));
    queue.push(ticket("late and large", { deadlineMs: 110_000, items: 50 }));
    queue.push(ticket("at once", { arrivedMs: 70_000 }));
    expect(queue.latestStartMs).toBe(60_000);
    expect(queue.peek()?.name).toBe("late and large");
    expect(drain(queue)).toEqual(["late and large", "at once", "late and small"]);
  });

  it("tells the latest start of a ticket", () => {
    expect(latestStartMs(ticket("a", { deadlineMs: 9_000 }), 2_000)).toBe(7_000);
    expect(latestStartMs(ticket("b", { arrivedMs: 5_000 }), 2_000)).toBe(5_000);
  });

  it("breaks ties by arrival and then by the order of pushes", () => {
    const queue = new ShardQueue<NamedTicket>();
    queue.push(ticket("third", { deadlineMs: 10_000, arrivedMs: 5 }));
    queue.push(ticket("first", { deadlineMs: 10_000, arrivedMs: 1 }));
    queue.push(ticket("fourth", { deadlineMs: 10_000, arrivedMs: 5 }));
    queue.push(ticket("second", { deadlineMs: 10_000, arrivedMs: 3 }));
    expect(drain(queue)).toEqual(["first", "second", "third", "fourth"]);
  });

  it("gives up what has expired, and only that", () => {
    const queue = new ShardQueue<NamedTicket>();
    queue.push(ticket("no deadline"));
    queue.push(ticket("soon", { deadlineMs: 1_000 }));
    queue.push(ticket("sooner", { deadlineMs: 500 }));
    queue.push(ticket("later", { deadlineMs: 2_000 }));
    expect(queue.popExpired(499)).toEqual([]);
    expect(queue.popExpired(1_000).map((each) => each.name)).toEqual(["sooner", "soon"]);
    expect(queue.popExpired(1_999)).toEqual([]);
    expect(queue.popExpired(2_000).map((each) => each.name)).toEqual(["later"]);
    expect(drain(queue)).toEqual(["no deadline"]);
  });

  it("gives up a run and keeps the order of the rest", () => {
    const queue = new ShardQueue<NamedTicket>();
    for (let each = 0; each < 50; each++)
      queue.push(ticket(String(each), { runId: each % 3 === 0 ? "a" : "b", deadlineMs: (each * 37) % 50 }));
    const removed = queue.removeRun("a");
    expect(removed.length).toBe(17);
    expect(removed.every((each) => each.runId === "a")).toBe(true);
    expect(queue.size).toBe(33);
    const deadlines = drain(queue).map((name) => (Number(name) * 37) % 50);
    expect(deadlines).toEqual([...deadlines].sort((left, right) => left - right));
    expect(queue.pop()).toBeUndefined();
    expect(queue.latestStartMs).toBe(Number.POSITIVE_INFINITY);
  });
});
