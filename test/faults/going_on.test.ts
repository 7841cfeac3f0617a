/**
 * Going on with what a run left, by the built command and through kills: another cap, a provider that is back, failed
 * lines, a changed input.
 */
import { writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { end, KilledRuns, linesUpTo, type Start, USAGE } from "./killed_run.ts";

const IN_FLIGHT = 8;
const env = { PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT) };

let runs: KilledRuns;
beforeEach(async () => {
  runs = new KilledRuns();
  await runs.listen();
});
afterEach(() => runs.close());

/** The same lines as the numbers, each answered once. */
function expectEach(numbers: readonly number[]): void {
  expect(runs.keys().sort()).toEqual(numbers.map((line) => `k${line}`).sort());
  for (const { key, output } of runs.lines()) expect(output?.text).toBe(`answer ${key.slice(1)}`);
}

describe("a cap that is reached, raised and dropped, with kills on the way", () => {
  it("is never passed, is used, and nothing is paid twice that was not under way at a kill", async () => {
    const items = 600;
    const models = { "local:*": { input_mtok: 1, output_mtok: 100 } };
    writeFileSync(runs.path("prices.json"), JSON.stringify({ version: "2026-11-20", models }));
    runs.write(linesUpTo(items), { max_output_tokens: USAGE.completion_tokens });
    runs.treat = () => ({ afterMs: 5 });
    const eachUsd = (USAGE.prompt_tokens * 1 + USAGE.completion_tokens * 100) / 1e6;
    let capUsd = Number.POSITIVE_INFINITY;
    let isWithin = true;
    runs.onAsked = () => {
      isWithin &&= runs.asked.length * eachUsd <= capUsd + 1e-9;
    };
    const under = (usd: number | undefined): Start => {
      capUsd = usd ?? Number.POSITIVE_INFINITY;
      const cap = usd === undefined ? [] : ["--max-cost", String(usd)];
      return { env, options: [...cap, "--prices", runs.path("prices.json")] };
    };
    let kills = 0;
    for (const usd of [250 * eachUsd, 450 * eachUsd, undefined]) {
      for (let kill = 0; kill < 2; kill += 1) kills += (await runs.kill(40, under(usd))) > 0 ? 1 : 0;
      const { code, stdout } = await end(runs.start(under(usd)));
      const { status, reason, counts, cost } = JSON.parse(stdout);
      const takenUsd = cost.billed_usd + cost.ambiguous_usd;
      const bookUsd = runs.asked.length * eachUsd;
      expect(cost.billed_usd).toBeLessThanOrEqual(bookUsd + 1e-9);
      expect(bookUsd).toBeLessThanOrEqual(takenUsd + 1e-9);
      expect(counts.failed).toBe(0);
      if (usd === undefined) expect({ code, status }).toEqual({ code: 0, status: "completed" });
      else {
        expect({ code, status, reason }).toEqual({ code: 3, status: "paused", reason: "cap_reached" });
        expect(takenUsd).toBeLessThanOrEqual(usd);
        expect(takenUsd).toBeGreaterThanOrEqual(0.97 * usd);
      }
    }
    expect(isWithin).toBe(true);
    expect(kills).toBe(6);
    expectEach(linesUpTo(items));
    expect(runs.asked.length).toBeLessThanOrEqual(items + kills * IN_FLIGHT);
  }, 120_000);
});

describe("a provider that is not configured at a restart", () => {
  it("ends no line, and all are answered once it is back", async () => {
    const items = 2_000;
    runs.write(linesUpTo(items));
    runs.treat = () => ({ afterMs: 2 });
    await runs.kill(300);
    const asked = runs.asked.length;
    const without = await end(runs.start({ env: { PERIGEE_PROVIDER_LOCAL_BASE_URL: undefined } }));
    const { status, reason, counts } = JSON.parse(without.stdout);
    expect({ code: without.code, status, reason }).toEqual({
      code: 3,
      status: "paused",
      reason: "provider_missing",
    });
    expect(counts).toMatchObject({ failed: 0, expired: 0, cancelled: 0 });
    expect(runs.asked).toHaveLength(asked);
    expect(runs.lines().every(({ output }) => output !== null)).toBe(true);
    expect((await end(runs.start())).code).toBe(0);
    expectEach(linesUpTo(items));
  }, 120_000);
});

describe("killed five times", () => {
  it("--retry-failed has one line a key, and requests only failed lines", async () => {
    const items = 200;
    const refused = (line: number): boolean => line % 2 === 0;
    runs.write(linesUpTo(items));
    runs.treat = (_, line) => ({ afterMs: 2, status: refused(line) ? 400 : 200 });
    expect((await end(runs.start())).code).toBe(3);
    expect(runs.asked).toHaveLength(items);
    runs.treat = () => ({ afterMs: 20 });
    const again = { env, options: ["--retry-failed=invalid_request"] };
    let kills = 0;
    for (let kill = 0; kill < 5; kill += 1) kills += (await runs.kill(8, again)) > 0 ? 1 : 0;
    expect(kills).toBe(5);
    expect((await end(runs.start(again))).code).toBe(0);
    expectEach(linesUpTo(items));
    const since = runs.asked.slice(items);
    expect(since.every(refused)).toBe(true);
    expect(since.length).toBeLessThanOrEqual(items / 2 + kills * IN_FLIGHT);
  }, 120_000);

  it("--update has one line a key, and requests only new and changed lines", async () => {
    runs.write(linesUpTo(150));
    runs.treat = () => ({ afterMs: 2 });
    expect((await end(runs.start())).code).toBe(0);
    const changed = (line: number): boolean => line > 150 || line % 3 === 0;
    const numbers = linesUpTo(220).reverse();
    runs.write(numbers, {}, (line) => (changed(line) ? "anew" : "hello"));
    runs.treat = () => ({ afterMs: 20 });
    const update = { env, options: ["--update"] };
    let kills = 0;
    for (let kill = 0; kill < 5; kill += 1) kills += (await runs.kill(8, update)) > 0 ? 1 : 0;
    expect(kills).toBe(5);
    expect((await end(runs.start(update))).code).toBe(0);
    expectEach(numbers);
    const since = runs.asked.slice(150);
    expect(since.every(changed)).toBe(true);
    expect(since.length).toBeLessThanOrEqual(numbers.filter(changed).length + kills * IN_FLIGHT);
  }, 120_000);
});
