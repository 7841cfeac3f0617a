/**
 * Faults 79, 80 and 82: a service that is offered more than it can do, over real sockets.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type Call, completedTask, submit } from "../service/serving.ts";
import { answersOf, type LoadedService, openLoaded, slowItems } from "./loaded_service.ts";

describe("fault 79: offered load far above capacity", () => {
  const BOUND = 200;
  const ITEMS = 10;
  const CLIENTS = 16;
  const OFFERED = (15 * BOUND) / ITEMS;

  it("is refused with 429 above the bound of what waits; all that was accepted is answered", async () => {
    const service = await openLoaded({ backlog: { projectItems: BOUND }, latencyMs: 50, places: 2 });
    const accepted = new Map<string, string>();
    const statuses = new Set<number>();
    let offered = 0;
    const client = async (): Promise<void> => {
      const call = service.callerOf("flood");
      while (offered < OFFERED || accepted.size < (1.5 * BOUND) / ITEMS) {
        offered += 1;
        const name = `post${offered}`;
        const items = slowItems(name, ITEMS);
        // Every other one has two windows and goes through files of its own.
        const answer = await submit(
          call,
          offered % 2 === 0 ? items : items.map((item, index) => (index < 5 ? { ...item, sla: 120 } : item)),
        );
        statuses.add(answer.status);
        if (answer.status === 200) {
          accepted.set(answer.body.task_id, name);
          const openItems = accepted.size * ITEMS - service.provider.prompts.length;
          expect(openItems).toBeLessThanOrEqual(BOUND);
        } else {
          expect(answer.body.error.code).toBe("rate_limited");
          expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
        }
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    expect(statuses).toEqual(new Set([200, 429]));
    const call = service.callerOf("flood");
    for (const [id, name] of accepted) {
      const texts = await answersOf(call, id);
      expect([...texts].sort()).toEqual(slowItems(name, ITEMS).map((_, index) => `answer: ${name} ${index}`));
    }
    expect(service.provider.prompts.length).toBe(accepted.size * ITEMS);
    expect(await taskIds(call)).toEqual(new Set(accepted.keys()));
    const own = readdirSync(join(service.dataDir, "lots"))
      .map((name) => /^(.{36})-\d+\.jsonl$/.exec(name)?.[1])
      .filter((id) => id !== undefined);
    expect(own.length).toBeGreaterThan(0);
    expect(own.filter((id) => !accepted.has(id))).toEqual([]);
  }, 120_000);

  it("does not affect other projects, and still counts after a restart", async () => {
    const service = await openLoaded({ backlog: { projectItems: 100 }, latencyMs: 300, places: 1 });
    expect((await submit(service.callerOf("full"), slowItems("a", 100))).status).toBe(200);
    await sleep(500); // sealed and at work
    await service.restart();
    const answer = await submit(service.callerOf("full"), slowItems("b", 50));
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([429, "30"]);
    expect((await submit(service.callerOf("other"), slowItems("c", 50))).status).toBe(200);
  }, 20_000);
});

describe("fault 80: a project with a large backlog beside one with ten items", () => {
  const ROUNDS = 4;
  const ITEMS = 10;

  /** When each item of some small tasks came to the provider, counted from its POST. */
  async function waits(service: LoadedService, round: string): Promise<number[]> {
    const { provider } = service;
    const found: number[] = [];
    for (let n = 0; n < ROUNDS; n += 1) {
      const name = `${round}${n}`;
      const beganMs = performance.now();
      const { body } = await submit(service.callerOf("small"), slowItems(name, ITEMS));
      await completedTask(service.callerOf("small"), body.task_id);
      for (const [index, prompt] of provider.prompts.entries())
        if (prompt.startsWith(`${name} `)) found.push((provider.arrivedMs[index] as number) - beganMs);
    }
    expect(found).toHaveLength(ROUNDS * ITEMS);
    return found;
  }

  it("makes the ten wait at most twice as long as without the others", async () => {
    const service = await openLoaded({ latencyMs: 50, places: 4 });
    await waits(service, "warm");
    const alone = Math.max(...(await waits(service, "alone")));
    const large = service.callerOf("large");
    for (let n = 0; n < 4; n += 1)
      expect((await submit(large, slowItems(`large${n}`, 1_000))).status).toBe(200);
    await sleep(1_000);
    const beside = Math.max(...(await waits(service, "beside")));
    expect(service.provider.prompts.length).toBeLessThan(4_000); // the backlog was there all the time
    expect(beside).toBeLessThanOrEqual(2 * alone);
  }, 120_000);
});

async function taskIds(call: Call): Promise<Set<string>> {
  const ids = new Set<string>();
  for (let after = ""; ; ) {
    const { body } = await call("GET", `/v0/infer/tasks?limit=100${after === "" ? "" : `&after=${after}`}`);
    const page = body as unknown as TaskPage;
    for (const { task_id } of page.tasks) ids.add(task_id);
    if (!page.has_more) return ids;
    after = page.last_id;
  }
}

interface TaskPage {
  readonly tasks: readonly { readonly task_id: string }[];
  readonly has_more: boolean;
  readonly last_id: string;
}
