/** What a project used, looked at after each millisecond: it never falls, and is never more than its provider has answered. */
import { describe, expect, it } from "vitest";
import type { ProjectUsage } from "../../src/tasks/usage/spending.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { mortal, ok } from "../engine/world.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const prices = { "alpha:m1": { inputUsdPerMillion: 100, outputUsdPerMillion: 100 } };
const TOKEN_USD = 0.0001;
const CODES = ["empty_output"] as const;

const items = (from: number, count: number, sla = 60) =>
  Array.from({ length: count }, (_, index) => ({ ...item(from + index, sla), max_tokens: 10 }));
/** It costs, and is asked for twice. */
const empty = openaiAnswer("", { inputTokens: 10, outputTokens: 0 });

class Watched {
  answered = 0;
  isEmpty = (_line: number): boolean => false;
  last = 0;
  /** What it may have used by now. */
  mostUsd = (): number => this.answered;
  readonly world: TaskWorld;

  constructor() {
    this.world = new TaskWorld({
      config: { prices },
      latencyMs: 5,
      commitMs: 3,
      diskLatencyMs: 1,
      answer: (line) => {
        const isEmpty = this.isEmpty(line);
        this.answered += (isEmpty ? 10 : 15) * TOKEN_USD;
        return isEmpty ? empty : ok(line);
      },
    });
    this.world.capUsd = 100;
  }

  async look(): Promise<void> {
    const { world, last, mostUsd } = this;
    const { spending } = world;
    if (spending === undefined) return;
    const days: readonly ProjectUsage[] = await world.settle(
      spending.days(PROJECT, "2025-12-01", "2026-12-31"),
    );
    this.last = days.reduce((sum, { billedUsd, ambiguousUsd }) => sum + billedUsd + ambiguousUsd, 0);
    expect(this.last).toBeLessThanOrEqual(mostUsd() + 1e-9);
    expect(this.last).toBeGreaterThanOrEqual(last - 1e-9);
    const { spentUsd } = await world.settle(spending.month(PROJECT));
    expect(spentUsd).toBeLessThanOrEqual(mostUsd() + 1e-9);
    expect(spentUsd).toBeGreaterThanOrEqual(this.last - 1e-9);
  }

  /** Resolves when that has, after a look at each step, or undefined when it takes longer. */
  async steps<T>(ms: number, call?: Promise<T>, stepMs = 1): Promise<T | undefined> {
    let found: T | undefined;
    call?.then(
      (value) => {
        found = value;
      },
      () => undefined,
    );
    for (let passed = 0; passed < ms && (call === undefined || found === undefined); passed += stepMs) {
      await this.world.clock.advance(stepMs);
      await this.look();
    }
    return found;
  }
}

const KINDS = [
  ["a posted task", (from: number) => items(from, 8)],
  ["a posted task of many items", (from: number) => items(from, 80)],
  ["a posted task of one item", (from: number) => items(from, 1)],
  ["a large task of two lots", (from: number) => [...items(from, 5), ...items(from + 5, 4, 90)]],
] as const;

describe.each(KINDS)("the usage of %s", (_, itemsOf) => {
  it("is never counted twice while its items are run again, whether others of it are open or none", async () => {
    const watched = new Watched();
    const { world } = watched;
    watched.isEmpty = (line) => line % 2 === 1;
    const tasks = await world.tasks();
    const posted = submit(tasks, itemsOf(1));
    const id = (await watched.steps(1_000, posted))?.id ?? "";
    for (const waitMs of [3_000, 0, 7, 13, 40]) {
      await watched.steps(waitMs, undefined, waitMs > 100 ? 11 : 1);
      await watched.steps(200, tasks.retry(PROJECT, id, CODES));
    }
    watched.isEmpty = () => false;
    await watched.steps(3_000, undefined, 11);
    await watched.steps(200, tasks.retry(PROJECT, id, CODES));
    await watched.steps(10_000, undefined, 11); // an item that was empty twice may wait for seconds
    const { usage, counts, totalItems } = await world.settle(tasks.task(PROJECT, id));
    expect(counts.completed).toBe(totalItems);
    expect(usage.billedUsd).toBeCloseTo(watched.answered, 9);
    expect(watched.last).toBeCloseTo(watched.answered, 9);
  });

  it("is never counted twice by the processes after a kill at any moment", async () => {
    for (const killMs of [3, 4, 10, 16, 33]) {
      const watched = new Watched();
      const { world } = watched;
      watched.isEmpty = (line) => line % 2 === 1;
      let process = mortal(world.clock);
      let tasks = await world.tasks(process.clock, process);
      const id = (await watched.steps(1_000, submit(tasks, itemsOf(1).slice(0, 9))))?.id ?? "";
      if (killMs % 2 === 0) {
        await watched.steps(2_000, undefined, 50);
        watched.isEmpty = () => false;
        await watched.steps(100, tasks.retry(PROJECT, id, CODES));
      }
      await watched.steps(killMs);
      process.kill();
      world.kill();
      process = mortal(world.clock);
      const opening = world.tasks(process.clock, process);
      tasks = await world.settle(opening);
      watched.last = 0;
      watched.mostUsd = () => Number.POSITIVE_INFINITY; // requests that were cut off are in doubt
      await watched.steps(1_500);
      await world.clock.advance(7_200_000);
      await watched.look();
      const { usage } = await world.settle(tasks.task(PROJECT, id));
      expect([killMs, watched.last]).toEqual([
        killMs,
        expect.closeTo(usage.billedUsd + usage.ambiguousUsd, 9),
      ]);
    }
  });
});
