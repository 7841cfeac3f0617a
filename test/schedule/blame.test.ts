import { describe, expect, it } from "vitest";
import { Blame } from "../../src/queue/failures/blame.ts";

describe("blame by comparison", () => {
  it("is the lane's while nobody else is answered, however often the item fails", () => {
    const blame = new Blame();
    expect(blame.isProven({ sentMs: 0, endedMs: 10 })).toBe(false);
  });

  it("is the item's once another request of its time was answered after its first failure", () => {
    const blame = new Blame();
    blame.answered(5, 50);
    expect(blame.isProven({ sentMs: 0, endedMs: 10 })).toBe(true);
    expect(blame.isProven({ sentMs: 0, endedMs: 60 })).toBe(false);
  });

  it("is not proven by an answer to a request that was under way long before the provider began to refuse", () => {
    const blame = new Blame();
    blame.answered(-30_000, 50);
    expect(blame.isProven({ sentMs: 0, endedMs: 10 })).toBe(false);
  });

  it("is not proven by an answer that came before the first failure, though its request was sent later", () => {
    const blame = new Blame();
    blame.answered(500, 600);
    expect(blame.isProven({ sentMs: 0, endedMs: 1_000 })).toBe(false);
  });

  it("sees an early request behind a later one, and a later one behind an early one", () => {
    const blame = new Blame();
    blame.answered(900, 1_000);
    blame.answered(100, 2_000); // sent early, answered late
    expect(blame.isProven({ sentMs: 800, endedMs: 950 })).toBe(true);
    expect(blame.isProven({ sentMs: 800, endedMs: 1_500 })).toBe(false);
    blame.answered(1_600, 2_100);
    expect(blame.isProven({ sentMs: 800, endedMs: 1_500 })).toBe(true);
  });

  it("where one proof ends an item, needs a request that was sent after its first failure", () => {
    const blame = new Blame();
    blame.answered(5, 50);
    expect(blame.isProven({ sentMs: 0, endedMs: 10 }, true)).toBe(false);
    blame.answered(20, 60);
    expect(blame.isProven({ sentMs: 0, endedMs: 10 }, true)).toBe(true);
  });

  it("starts again when the lane is down", () => {
    const blame = new Blame();
    blame.answered(5, 50);
    blame.void(40);
    expect(blame.isProven({ sentMs: 0, endedMs: 10 })).toBe(false);
  });

  it("is not proven, while the lane is down, by an answer to a request from before the failure that said so", () => {
    const blame = new Blame();
    blame.void(40);
    blame.answered(39, 20_000);
    expect(blame.isProven({ sentMs: 0, endedMs: 10 }, true)).toBe(false);
    blame.answered(40, 20_001);
    expect(blame.isProven({ sentMs: 0, endedMs: 10 }, true)).toBe(true);
  });
});
