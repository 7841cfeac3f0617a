/** How much accepted work may wait. */
import { describe, expect, it } from "vitest";
import { TaskBacklog } from "../../src/tasks/usage/backlog.ts";

const items = (count: number) => ({ items: count, bytes: count * 10 });
const refused = expect.objectContaining({ code: "too_many", details: { retryAfterSeconds: 30 } });

describe("the backlog", () => {
  it("takes what fits the bounds of the project and of all", () => {
    const backlog = new TaskBacklog({ projectItems: 10, items: 15 });
    backlog.reserve("a", items(10));
    expect(() => backlog.reserve("a", items(1))).toThrow(refused);
    backlog.reserve("b", items(5));
    expect(() => backlog.reserve("c", items(1))).toThrow(refused);
    expect(backlog.open("c")).toEqual(items(0));
  });

  it("counts bytes too", () => {
    const backlog = new TaskBacklog({ projectBytes: 100 });
    backlog.reserve("a", items(10));
    expect(() => backlog.reserve("a", items(1))).toThrow(refused);
    expect(() => backlog.assertRoom("b", items(1))).not.toThrow();
  });

  it("has room again for what is final", () => {
    const backlog = new TaskBacklog({ projectItems: 10, projectBytes: 100 });
    const share = backlog.share("a");
    share.grow(items(10));
    share.settle(4);
    expect(backlog.open("a")).toEqual({ items: 6, bytes: 100 });
    share.setItems(3);
    share.settle(5);
    expect(backlog.open("a")).toEqual({ items: 0, bytes: 100 });
    share.release();
    share.release();
    expect(backlog.open("a")).toEqual(items(0));
  });

  it("takes a task above the bound when it comes alone", () => {
    const backlog = new TaskBacklog({ projectItems: 10, projectBytes: 100 });
    const large = backlog.reserve("a", items(50));
    expect(() => backlog.reserve("a", items(1))).toThrow(refused);
    large.release();
    expect(() => backlog.reserve("a", items(1))).not.toThrow();
  });
});
