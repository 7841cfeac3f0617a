/** Quotes beside tasks: what is accepted stands before new work, whether the engine has read it or not. */
import { describe, expect, it } from "vitest";
import { itemLine } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const items = (from: number, count: number, sla: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, sla));

/** An account that bears 60 requests a minute, and so many items to be quoted for it. */
async function openQuoted(count: number) {
  const world = new TaskWorld({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
  const opened = await world.opened();
  const tasks = await world.tasksOn(opened);
  world.disk.put(
    "/quoted.jsonl",
    items(5_001, count, 60)
      .map((_, index) => itemLine(5_001 + index))
      .join(""),
  );
  const earliestSla = async (project: string): Promise<number> => {
    const { time } = await world.settle(opened.engine.quote("/quoted.jsonl", { project }));
    return Math.ceil(time.seconds / 60);
  };
  return { world, tasks, earliestSla };
}

describe("a quote", () => {
  it("counts what its project has accepted and no run has read, as the admission of the same items does", async () => {
    const { world, tasks, earliestSla } = await openQuoted(900);
    const before = await earliestSla(PROJECT);
    await world.settle(submit(tasks, items(1, 600, 12)));
    const sla = await earliestSla(PROJECT);
    expect(sla).toBe(before + 10);
    await expect(world.settle(submit(tasks, items(5_001, 900, sla - 1)))).rejects.toMatchObject({
      code: "sla_infeasible",
    });
    await expect(world.settle(submit(tasks, items(5_001, 900, sla)))).resolves.toMatchObject({
      totalItems: 900,
    });
  });

  it("counts what has no later a deadline than its own alone, and nothing of other projects", async () => {
    const { world, tasks, earliestSla } = await openQuoted(300);
    const before = await earliestSla(PROJECT);
    await world.settle(submit(tasks, items(1, 600, 60)));
    expect(await earliestSla(PROJECT)).toBe(before);
    await world.settle(submit(tasks, items(1_001, 180, 4)));
    expect(await earliestSla("other")).toBe(before);
    expect(await earliestSla(PROJECT)).toBe(before + 3);
  });
});

describe("the money held for a task", () => {
  const config = { prices: { "alpha:m1": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 } } };
  const FILE = "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001";

  /** Two items with these settings, submitted, and the same quoted. Of each item 0.001 USD a token. */
  async function heldAndQuoted(settings: object, as: "items" | "file" | "windows") {
    const world = new TaskWorld({ config, answer: () => "hang" });
    const opened = await world.opened();
    const tasks = await world.tasksOn(opened);
    const asked = [1, 2].map((line) => ({ ...item(line, as === "windows" ? line * 60 : 60), ...settings }));
    const lines = asked.map(
      ({ sla: _, ...rest }, index) => `${JSON.stringify({ key: `k${index}`, ...rest })}\n`,
    );
    world.disk.put("/quoted.jsonl", lines.join(""));
    world.fileOf(FILE, lines);
    await world.settle(submit(tasks, as === "file" ? [{ file_id: FILE, sla: 60 }] : asked));
    const { heldUsd } = (await world.spending?.month(PROJECT)) ?? {};
    const quote = await world.settle(opened.engine.quote("/quoted.jsonl"));
    return { heldUsd: heldUsd ?? Number.NaN, quote, inputUsd: quote.models[0]?.input_tokens ?? 0 };
  }

  it("is what a quote expects, where the items have no limit of their own", async () => {
    for (const as of ["items", "file", "windows"] as const) {
      const { heldUsd, quote } = await heldAndQuoted({}, as);
      expect([as, heldUsd]).toEqual([as, quote.billed_usd]);
    }
  });

  it("is no more than the items may cost by their limit, however it is written and sent", async () => {
    const spellings = [
      { max_output_tokens: 20 },
      { max_tokens: 20 },
      { max_completion_tokens: 20 },
      { generation_config: { max_output_tokens: 20 } },
    ];
    for (const settings of spellings)
      for (const as of ["items", "file", "windows"] as const) {
        const { heldUsd, inputUsd, quote } = await heldAndQuoted(settings, as);
        expect(heldUsd * 1_000).toBeCloseTo(inputUsd + 2 * 20, 6);
        expect(heldUsd).toBeGreaterThanOrEqual(quote.billed_usd ?? Number.NaN);
      }
  });

  it("is of items with a limit and items without one what each of them may cost", async () => {
    const world = new TaskWorld({ config, answer: () => "hang" });
    const tasks = await world.tasks();
    await world.settle(submit(tasks, [{ ...item(1, 60), max_tokens: 20 }, item(2, 60)]));
    const { heldUsd } = (await world.spending?.month(PROJECT)) ?? {};
    const two = await heldAndQuoted({ max_tokens: 20 }, "items");
    expect((heldUsd ?? 0) - two.heldUsd).toBeCloseTo(0.001 * (512 - 20), 9);
  });
});
