/**
 * The built command against a local provider, with real signals and real kills.
 */
import type { ChildProcess } from "node:child_process";
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { end, KilledRuns, lineOf, linesUpTo, until } from "./killed_run.ts";

const ITEMS = 400;

let runs: KilledRuns;
beforeEach(async () => {
  runs = new KilledRuns();
  await runs.listen();
});
afterEach(() => runs.close());

const linesOf = (count: number): string[] => linesUpTo(count).map((line) => lineOf(line));

describe("the command", () => {
  it("killed again and again, wherever it is, answers each key once, and re-sends no more than was in flight", async () => {
    runs.write(linesUpTo(ITEMS));
    const inFlightMax = 16;
    const env = { PERIGEE_MAX_INFLIGHT: String(inFlightMax) };
    let kills = 0;
    for (let kill = 0; kill < 6; kill += 1) {
      const before = runs.asked.length;
      const child = runs.start({ env });
      const closed = end(child);
      await until(() => runs.asked.length > before + 40 || child.exitCode !== null);
      await sleep(kill * 7);
      if (child.exitCode !== null) break;
      child.kill("SIGKILL");
      kills += 1;
      await closed;
    }
    expect(await end(runs.start({ env }))).toMatchObject({ code: 0 });
    expect(kills).toBeGreaterThan(3);
    expect(runs.keys()).toHaveLength(ITEMS);
    expect(new Set(runs.keys()).size).toBe(ITEMS);
    expect(runs.asked.length).toBeLessThanOrEqual(ITEMS + kills * inFlightMax);
    const sent = runs.asked.length;
    expect(await end(runs.start({ env }))).toMatchObject({ code: 0 });
    expect(runs.asked).toHaveLength(sent);
  });

  it("killed five times under a cap, tells the provider's own book within what is in doubt", async () => {
    runs.write(linesUpTo(ITEMS));
    const models = { "local:*": { input_mtok: 100, output_mtok: 1 } };
    writeFileSync(runs.path("prices.json"), JSON.stringify({ version: "2026-11-20", models }));
    const options = ["--max-cost", "1", "--prices", runs.path("prices.json")];
    const begin = (): ChildProcess => runs.start({ env: { PERIGEE_MAX_INFLIGHT: "16" }, options });
    for (let kill = 0; kill < 5; kill += 1) {
      const before = runs.asked.length;
      const child = begin();
      const closed = end(child);
      await until(() => runs.asked.length > before + 40 || child.exitCode !== null);
      child.kill("SIGKILL");
      await closed;
    }
    const { code, stdout } = await end(begin());
    expect(code).toBe(0);
    const { billed_usd, ambiguous_usd, is_estimated, prices } = JSON.parse(stdout).cost;
    const bookUsd = (runs.asked.length * (5 * 100 + 2 * 1)) / 1e6;
    expect(runs.asked.length).toBeGreaterThan(ITEMS);
    expect(billed_usd).toBeLessThanOrEqual(bookUsd + 1e-9);
    expect(bookUsd).toBeLessThanOrEqual(billed_usd + ambiguous_usd + 1e-9);
    expect(billed_usd + ambiguous_usd).toBeLessThanOrEqual(1);
    expect(is_estimated).toBe(true);
    expect(prices).toEqual([expect.objectContaining({ source: "sheet 2026-11-20" })]);
  }, 120_000);

  it("fault 32: at SIGTERM finishes what is in flight, ends with 130, and sends only the rest when it is called again", async () => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      runs.clear();
      runs.treat = () => ({ afterMs: 100 });
      runs.write(linesUpTo(100));
      const child = runs.start({ env: { PERIGEE_MAX_INFLIGHT: "8" } });
      const closed = end(child);
      await until(() => runs.asked.length >= 20);
      child.kill(signal);
      const { code, stdout } = await closed;
      expect(code, signal).toBe(130);
      const { counts } = JSON.parse(stdout) as { counts: { completed: number; submitted: number } };
      expect(counts.completed, signal).toBe(runs.asked.length);
      expect(counts.submitted, signal).toBe(100 - runs.asked.length);
      expect(await end(runs.start())).toMatchObject({ code: 0 });
      expect(runs.asked, signal).toHaveLength(100);
    }
  });

  it("fault 32: does not wait for retries that are due in minutes", async () => {
    runs.treat = () => ({ afterMs: 1, status: 429, retryAfter: "600" });
    runs.write(linesUpTo(3));
    const child = runs.start();
    const closed = end(child);
    await until(() => runs.asked.length > 0);
    await sleep(200);
    const atMs = Date.now();
    child.kill("SIGTERM");
    expect(await closed).toMatchObject({ code: 130 });
    expect(Date.now() - atMs).toBeLessThan(5_000);
  });

  it("fault 32: ends at once at a second signal, and continues later", async () => {
    runs.treat = () => ({ afterMs: 20_000 });
    runs.write(linesUpTo(3));
    const child = runs.start();
    const closed = end(child);
    await until(() => runs.asked.length === 3);
    child.kill("SIGTERM");
    await sleep(300);
    const atMs = Date.now();
    child.kill("SIGTERM");
    expect(await closed).toMatchObject({ code: 130 });
    expect(Date.now() - atMs).toBeLessThan(2_000);
    runs.treat = () => ({ afterMs: 1 });
    expect(await end(runs.start())).toMatchObject({ code: 0 });
    expect(runs.keys().sort()).toEqual(["k1", "k2", "k3"]);
  });

  it("fault 17: keeps every answer under way when its input turns out to be broken", async () => {
    runs.treat = () => ({ afterMs: 1_000 });
    const child = runs.start({ input: "-" });
    const closed = end(child);
    child.stdin?.write(`[${linesOf(8).join(",\n")},\n`);
    await until(() => runs.asked.length === 8);
    child.stdin?.end("no element");
    const { code, stdout } = await closed;
    expect({ code, answers: runs.keys().length }).toEqual({ code: 74, answers: 8 });
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: "invalid_array" } });
    const again = runs.start({ input: "-" });
    again.stdin?.end(`[${linesOf(9).join(",\n")}]\n`);
    expect(await end(again)).toMatchObject({ code: 0 });
    expect(runs.asked).toHaveLength(9);
  });

  it("fault 34: refuses a data folder that another one holds, and does not affect that one", async () => {
    runs.treat = () => ({ afterMs: 6_000 });
    runs.write(linesUpTo(3));
    const first = runs.start();
    const closed = end(first);
    await until(() => runs.asked.length === 3);
    const second = await end(runs.start());
    expect(second.code).toBe(74);
    expect(JSON.parse(second.stdout)).toMatchObject({ error: { code: "data_dir_in_use" } });
    expect(await closed).toMatchObject({ code: 0 });
    expect(runs.asked).toHaveLength(3);
  });
});
