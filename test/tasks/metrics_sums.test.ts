/** The sums of the metrics are those of /v0/usage, of the tasks and of the provider, whatever is retried, cancelled and expires. */
import { describe, expect, it } from "vitest";
import type { SettledReport } from "../../src/engine/journal/observer.ts";
import { Activity } from "../../src/service/operate/activity.ts";
import type { ProjectUsage } from "../../src/tasks/usage/spending.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { type Answering, ok, status } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };
const TOKEN_USD = 0.0001;
const CODES = ["empty_output", "invalid_request", "cancelled", "expired"] as const;

const items = (from: number, count: number, sla = 60) =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, sla), max_tokens: 10 }));

/** It costs, and is asked for twice. */
const empty = openaiAnswer("", { inputTokens: 10, outputTokens: 0 });

interface Sums {
  readonly items: number;
  readonly tokens: number;
  readonly billedUsd: number;
  readonly ambiguousUsd: number;
}

function observed(answer: Answering): { readonly world: TaskWorld; readonly activity: Activity } {
  const activity: Activity = new Activity({ wallMs: () => world.clock.wallMs() });
  const observer = {
    attempted: () => undefined,
    settled: (report: SettledReport) => activity.settled(report),
    committed: () => undefined,
  };
  const world = new TaskWorld({ config: { prices }, latencyMs: 500, answer, observer });
  return { world, activity };
}

function sumsOf({ total }: Activity): Sums {
  const { outcomes, inputTokens, outputTokens, billedUsd, ambiguousUsd } = total;
  const ended = [...outcomes.values()].reduce((sum, count) => sum + count, 0);
  return { items: ended, tokens: inputTokens + outputTokens, billedUsd, ambiguousUsd };
}

async function usedBy(world: TaskWorld): Promise<Sums> {
  const days: readonly ProjectUsage[] = await world.settle(
    world.spending?.days(PROJECT, "2025-12-01", "2026-12-31") ?? Promise.resolve([]),
  );
  const sum = (of: (day: ProjectUsage) => number) => days.reduce((all, day) => all + of(day), 0);
  return {
    items: sum((day) => day.items),
    tokens: sum((day) => day.inputTokens + day.outputTokens),
    billedUsd: sum((day) => day.billedUsd),
    ambiguousUsd: sum((day) => day.ambiguousUsd),
  };
}

const about = ({ items: count, tokens, billedUsd, ambiguousUsd }: Sums) => ({
  ...{ items: count, tokens },
  billedUsd: expect.closeTo(billedUsd, 9),
  ambiguousUsd: expect.closeTo(ambiguousUsd, 9),
});

describe("the sums of the metrics", () => {
  it.each([
    ["a posted task", () => items(1, 6)],
    ["a large task", () => [...items(1, 6), ...items(7, 1, 90)]],
  ])("count what retried items of %s took once", async (_, itemsOf) => {
    const { world, activity } = observed((line) => (line <= 3 ? empty : ok(line)));
    const tasks = await world.tasks();
    const { id } = await world.settle(submit(tasks, itemsOf()));
    for (let round = 0; round < 3; round += 1) {
      await world.clock.advance(60_000);
      if (round === 1) world.answer = (line) => ok(line);
      if (round < 2) await world.settle(tasks.retry(PROJECT, id, ["empty_output"]));
    }
    const { usage, counts } = await world.settle(tasks.task(PROJECT, id));
    expect(counts).toMatchObject({ failed: 0 });
    expect(sumsOf(activity)).toEqual(about(await usedBy(world)));
    expect(sumsOf(activity).billedUsd).toBeCloseTo(usage.billedUsd, 9);
  });

  it("count items that end together with their task, and what was tried of them", async () => {
    let answers = 0;
    const { world, activity } = observed((line, attempt) => {
      if (line % 10 > 2 || attempt > 2) return status(429, "slow", { "retry-after": "100" });
      answers += 1;
      return empty;
    });
    const tasks = await world.tasks();
    const posted = await world.settle(
      Promise.all([submit(tasks, items(1, 8, 10)), submit(tasks, items(11, 8, 10))]),
    );
    const ids = posted.map(({ id }) => id);
    await world.clock.advance(20_000);
    await world.settle(tasks.cancel(PROJECT, ids[0] ?? ""));
    await world.clock.advance(1_200_000);
    for (const end of ["expired", "cancelled"]) expect(activity.total.outcomes.get(end)).toBeGreaterThan(0);
    expect(sumsOf(activity)).toEqual(about(await usedBy(world)));
    expect(sumsOf(activity).items).toBe(16);
    for (const id of ids) await world.settle(tasks.retry(PROJECT, id, CODES));
    await world.clock.advance(5_000);
    for (const id of ids) await world.settle(tasks.cancel(PROJECT, id));
    await world.clock.advance(1_200_000);
    expect(sumsOf(activity)).toEqual(about(await usedBy(world)));
    expect(sumsOf(activity).items).toBe(32);
    expect(sumsOf(activity).billedUsd).toBeCloseTo(answers * 10 * TOKEN_USD, 9);
  });

  it("count items that end while none of their task is in memory", async () => {
    const { world, activity } = observed((line) => (line <= 2 ? empty : "hang"));
    await world.settle(submit(await world.tasks(), items(1, 8, 10)));
    await world.clock.advance(60_000);
    world.kill();
    await world.clock.advance(3_600_000);
    await world.settle(world.tasks());
    await world.clock.advance(60_000);
    expect(sumsOf(activity)).toEqual(about(await usedBy(world)));
    expect(activity.total.outcomes.get("expired")).toBeGreaterThan(0);
  });

  it("are those of the usage, the tasks and the provider, whatever is done when", async () => {
    for (let seed = 1; seed <= 6; seed += 1) {
      const random = createRandom(seed);
      let billedUsd = 0;
      const { world, activity } = observed((line) => {
        const chance = random();
        if (chance < 0.15) return status(400, "bad");
        if (chance < 0.2) return "hang";
        billedUsd += (chance < 0.5 ? 10 : 15) * TOKEN_USD;
        return chance < 0.5 ? empty : ok(line);
      });
      const tasks = await world.tasks();
      const ids: string[] = [];
      for (let step = 0; step < 10; step += 1) {
        const chance = random();
        const other = random() < 0.3 ? items(200 + step, 1, 1) : [];
        if (chance < 0.4 || ids.length === 0)
          ids.push((await world.settle(submit(tasks, [...items(1 + step * 10, 6, 2), ...other]))).id);
        else if (chance < 0.8) for (const id of ids) await world.settle(tasks.retry(PROJECT, id, CODES));
        else await world.settle(tasks.cancel(PROJECT, ids.at(-1) ?? ""));
        await world.clock.advance(Math.floor(random() * 90_000));
      }
      await world.clock.advance(7_200_000);
      const used = await usedBy(world);
      expect([seed, sumsOf(activity)]).toEqual([seed, about(used)]);
      let [ofTasksUsd, doubtUsd] = [0, 0];
      for (const id of ids) {
        const { usage } = await world.settle(tasks.task(PROJECT, id));
        ofTasksUsd += usage.billedUsd;
        doubtUsd += usage.ambiguousUsd;
      }
      expect(used).toMatchObject({
        billedUsd: expect.closeTo(ofTasksUsd, 9),
        ambiguousUsd: expect.closeTo(doubtUsd, 9),
      });
      expect(billedUsd).toBeGreaterThanOrEqual(used.billedUsd - 1e-9);
      expect(billedUsd).toBeLessThanOrEqual(used.billedUsd + used.ambiguousUsd + 1e-9);
    }
  });
});
