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
