/** Runs of clusters whose references would make more of a value than there is room for. */
import { describe, expect, it } from "vitest";
import { ClusterWorld, memberOf, ran } from "./world.ts";

const MIB = 1024 * 1024;

describe("a declaration that multiplies what it refers to", () => {
  const text = "x".repeat(900_000);
  const times = (count: number, reference: string) => Array.from({ length: count }, () => reference);

  it.each<readonly [string, object]>([
    ["one text many times in a text", { text: times(10_000, "${{ input.text }}").join("") }],
    ["one text many times in a list", { list: times(10_000, "${{ input.text }}") }],
    ["one object many times", { list: times(10_000, "${{ input }}") }],
  ])("fails its member at the bound of an execution, not after it was made: %s", async (_what, input) => {
    const world = new ClusterWorld();
    const before = process.memoryUsage().heapUsed;
    const view = await ran(world, [{ identifier: "a", input }], { input: { text } });
    expect(memberOf(view, "a").error).toMatchObject({ code: "invalid_reference" });
    expect(memberOf(view, "a").error?.message).toContain("1048576 characters");
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * MIB);
    expect(world.ledger.submitted).toEqual([]);
  });

  it("reads no more for a member than it can be given", async () => {
    const world = new ClusterWorld(() => ({ output: { a: { a: { a: text } } } }));
    const ways = [".a", "['a']", '["a"]'];
    const paths = ways.flatMap((one) => ways.flatMap((two) => ways.map((three) => one + two + three)));
    const input = { list: paths.map((path) => `\${{ first.output${path} }}`) };
    const view = await ran(world, [{ identifier: "first" }, { identifier: "second", input }]);
    expect(memberOf(view, "second").error).toMatchObject({ code: "invalid_reference" });
    expect(world.ledger.submitted).toHaveLength(1);
  });

  it("fails a fan-out whose list it multiplies", async () => {
    const world = new ClusterWorld();
    const each = [times(10_000, "${{ input.text }}").join("")];
    const view = await ran(world, [{ identifier: "a", each }], { input: { text } });
    expect(memberOf(view, "a").error?.message).toContain("16777216 characters");
  });

  it("gives what just fits", async () => {
    const world = new ClusterWorld();
    const input = { one: "${{ input.text }}", two: "<${{ input.short }}>" };
    const view = await ran(world, [{ identifier: "a", input }], { input: { text, short: "y" } });
    expect(view.status).toBe("completed");
    expect(world.ledger.submitted[0]?.input).toEqual({ one: text, two: "<y>" });
  });
});
