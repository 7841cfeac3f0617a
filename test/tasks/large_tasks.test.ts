/** What is promised to a task that has lots of its own, from the moment it is accepted or refused. */
import { describe, expect, it } from "vitest";
import { item, PROJECT, submit, TaskWorld, textOf } from "./world.ts";

const mixed = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => item(from + index, index % 2 === 0 ? 60 : 90));

describe("a large task", () => {
  it("keeps its price factors over a restart with another rate card", async () => {
    const world = new TaskWorld({ config: { limits: { alpha: { requestsPerMinute: 1 } } } });
    let tasks = await world.tasks();
    const large = await world.settle(submit(tasks, mixed(1, 4)));
    const small = await world.settle(submit(tasks, [item(11, 90)]));
    await world.clock.advance(1_000);
    const factors = async () => {
      const found: number[] = [];
      for (const { id } of [large, small]) {
        const { items } = await world.settle(tasks.objects(PROJECT, id, { limit: 10 }));
        found.push(...items.map(({ usage }) => usage.price_factor));
      }
      return found;
    };
    const before = await factors();
    world.kill();
    world.reconfigure({ rateCard: { standard: { laneDiscount: 0 } } });
    tasks = await world.tasks();
    expect(await factors()).toEqual(before);
    expect(before.every((factor) => factor < 1)).toBe(true);
  });

  it("is billed by them, whatever the size of its lot and wherever a model stands in it", async () => {
    const prices = { "*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 } };
    const world = new TaskWorld({ config: { prices }, latencyMs: 60_000 });
    let tasks = await world.tasks();
    const late = { ...item(1_001, 90), model: "beta:m2" }; // behind the thousand that are counted
    const many = [...Array.from({ length: 1_000 }, (_, index) => item(index + 1, 90)), late];
    const ids: string[] = [];
    for (const one of [[item(2_001, 90)], many]) ids.push((await world.settle(submit(tasks, one))).id);
    await world.clock.advance(1_000);
    ids.push((await world.settle(submit(tasks, [item(3_001, 80)]))).id); // its lot is not sealed
    const factors = async (id: string) => {
      const { items } = await world.settle(tasks.objects(PROJECT, id, { limit: 2_000 }));
      return [...new Set(items.map(({ usage }) => usage.price_factor))];
    };
    const promised = new Map<string, number[]>();
    for (const id of ids) promised.set(id, await factors(id));
    world.kill();
    world.reconfigure({
      rateCard: { standard: { laneDiscount: 0 }, models: { "beta:*": { laneDiscount: 0.1 } } },
    });
    tasks = await world.tasks();
    await world.clock.advance(600_000);
    for (const id of ids) {
      const { usage, counts, totalItems } = await world.settle(tasks.task(PROJECT, id));
      expect(counts.completed).toBe(totalItems);
      const [factor = Number.NaN, ...others] = promised.get(id) ?? [];
      expect([others, await factors(id)]).toEqual([[], [factor]]);
      expect(usage.usd / usage.listUsd).toBeCloseTo(factor, 6);
    }
    const { id } = await world.settle(submit(tasks, [item(4_001, 90)]));
    expect(await factors(id)).toEqual([1]); // by the card of today
  });

  it("is refused with the index of the item whose model nobody serves, as a small one is", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    const many = Array.from({ length: 1_200 }, (_, index) => item(index + 1, 60));
    for (const model of ["nobody:x", "alpha:", `alpha:${"m".repeat(257)}`]) {
      const wrong = { ...item(1, 60), model };
      for (const [list, index] of [
        [[item(1, 60), wrong], 1],
        [[wrong, item(2, 90)], 0],
        [[...many, wrong], 1_200],
        [[...many.slice(0, 700), wrong, ...many], 700],
      ] as const) {
        const refused = { code: "usage", details: { param: `${index}.model` } };
        await expect(world.settle(submit(tasks, list))).rejects.toMatchObject(refused);
      }
    }
    expect((await world.settle(tasks.list(PROJECT, { limit: 10 }))).items).toEqual([]);
  });

  it("does not count itself as waiting when it is asked whether it can be done in time", async () => {
    const world = new TaskWorld({ config: { limits: { alpha: { requestsPerMinute: 12 } } } });
    const tasks = await world.tasks();
    const task = await world.settle(submit(tasks, mixed(1, 900)));
    expect(task.status).toBe("submitted");
    const other = new TaskWorld({ config: { limits: { alpha: { requestsPerMinute: 12 } } } });
    const refusing = await other.tasks();
    await expect(other.settle(submit(refusing, mixed(1, 1_200)))).rejects.toMatchObject({
      code: "sla_infeasible", // 600 in 60 minutes fit, 1,200 in 90 do not
    });
  });

  it("is refused under the id of another, whose lines stay as they are", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    const first = await world.settle(submit(tasks, mixed(1, 4)));
    const second = tasks.submit(PROJECT, { id: first.id, items: mixed(11, 4), hasOutputFile: false });
    await expect(world.settle(second)).rejects.toMatchObject({ code: "conflict" });
    await world.clock.advance(10_000);
    expect(await world.settle(textOf(tasks, first.id))).not.toContain("answer 11");
    expect(await world.settle(tasks.task(PROJECT, first.id))).toMatchObject({ counts: { completed: 4 } });
  });
});

describe("a request that finds no room", () => {
  it("is refused with disk_full and leaves no file behind, open or on the disk", async () => {
    const world = new TaskWorld();
    const tasks = await world.tasks();
    const openBefore = world.disk.openFiles;
    world.disk.setFull(0);
    await expect(world.settle(submit(tasks, mixed(1, 4)))).rejects.toMatchObject({ code: "disk_full" });
    expect(world.disk.paths.filter((path) => path.startsWith("/data/lots/"))).toEqual([]);
    expect(world.disk.openFiles).toBe(openBefore);
  });
});

describe("a request that a crash has cut off before it was stored", () => {
  it("leaves a file of lines that no start removes at once: its record may stand in another journal", async () => {
    const world = new TaskWorld();
    const open = await world.tasks();
    const { id } = await world.settle(submit(open, mixed(1, 4)));
    world.disk.put("/data/lots/5b0d5f3c-2c53-4d8f-8f5a-0d3c1e0a7a11-0.jsonl", "never stored\n");
    world.kill();
    const tasks = await world.tasks();
    await world.clock.advance(60_000);
    expect(world.disk.paths.filter((path) => path.startsWith("/data/lots/")).sort()).toEqual([
      `/data/lots/${id}-0.jsonl`,
      `/data/lots/${id}-1.jsonl`,
      "/data/lots/5b0d5f3c-2c53-4d8f-8f5a-0d3c1e0a7a11-0.jsonl",
    ]);
    expect(await world.settle(tasks.task(PROJECT, id))).toMatchObject({ counts: { completed: 4 } });
  });
});
