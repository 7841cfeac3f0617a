/**
 * A file over three workers on one PostgreSQL: a worker and the client are killed on the way, and the same command takes the answers.
 */
import { once } from "node:events";
import { readFileSync, renameSync, truncateSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Summary } from "../../src/engine/items/progress.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { FleetWorld } from "./fleet_world.ts";

const LINES = 6_000;
const IN_FLIGHT = 8;

let postgres: PostgresServer;
let world: FleetWorld;

const lineOf = (item: number, model = "local:small"): string =>
  JSON.stringify({
    key: `k${item}`,
    request: { model, contents: [{ parts: [{ text: `[[${item}]]` }] }] },
  });

interface OutputLine {
  readonly key: string | null;
  readonly line?: number;
  readonly output: { readonly text: string } | null;
}

function outputOf(name: string): readonly OutputLine[] {
  const lines = readFileSync(world.path(name), "utf8")
    .split("\n")
    .filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as OutputLine);
}

describeCounterpart("a file over a fleet of three workers", POSTGRES, () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    world = await FleetWorld.open(await postgres.freshUrl());
    await Promise.all(["w1", "w2", "w3"].map((name) => world.start(name)));
    await world.settled();
  }, 120_000);
  afterAll(async () => {
    await world?.close();
    await postgres?.remove();
  });

  it("has one line for each key after a worker and the client were killed", {
    timeout: 300_000,
  }, async () => {
    world.answerMs = 10;
    const broken = 4_500; // in a later shard: errors name the line of the file
    const lines = Array.from({ length: LINES }, (_, item) => (item === broken - 1 ? "{" : lineOf(item)));
    writeFileSync(world.path("in.jsonl"), `${lines.join("\n")}\n`);
    const first = world.run("in.jsonl", "out.jsonl");
    await world.until(async () => world.asked.size >= 1_000, 60_000);
    const [row] = await world.rows<{ readonly owner: string }>(
      "SELECT owner FROM perigee_partitions p JOIN perigee_shards s ON s.part = p.part WHERE s.state = 'claimed' LIMIT 1",
    );
    const killed = world.workers.find(({ name }) => row?.owner.startsWith(`${name}/`) === true);
    expect(killed).toBeDefined();
    killed?.child.kill("SIGKILL");
    await world.until(async () => world.asked.size >= 2_500, 60_000);
    first.child.kill("SIGKILL");
    await once(first.child, "exit");
    const { code, stdout, stderr } = await world.run("in.jsonl", "out.jsonl").ended;
    expect(code, stderr).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({
      status: "completed",
      items: LINES,
      counts: { completed: LINES - 1 },
    });
    const answers = outputOf("out.jsonl");
    const texts = new Map(answers.map(({ key, output }) => [key, output?.text]));
    expect([answers.length, texts.size]).toEqual([LINES, LINES]);
    expect(answers.filter(({ key }) => key === null)).toMatchObject([{ line: broken }]);
    expect(lines.flatMap((_, item) => (texts.get(`k${item}`) === `answer ${item}` ? [] : [item]))).toEqual([
      broken - 1,
    ]);
    expect(world.requests).toBeLessThanOrEqual(LINES - 1 + IN_FLIGHT);
    const again = await world.run("in.jsonl", "out.jsonl").ended;
    expect([again.code, JSON.parse(again.stdout).requests_sent]).toEqual([3, 0]);
    await world.until(async () => (await world.rows("SELECT FROM perigee_runs")).length === 0);
    expect(await world.rows("SELECT FROM perigee_files WHERE path LIKE 'shards/%'")).toEqual([]);
  });

  it("is stopped by a cap before it is exceeded, and a higher one continues it", {
    timeout: 300_000,
  }, async () => {
    world.answerMs = 0;
    const before = world.requests;
    const items = Array.from({ length: 2_500 }, (_, item) => 10_000 + item);
    writeFileSync(
      world.path("capped.jsonl"),
      items.map((item) => `${lineOf(item, "local:priced")}\n`).join(""),
    );
    const capped = await world.run("capped.jsonl", "capped.out.jsonl", ["--max-cost", "0.012"]).ended;
    const { status, counts, cost, held, requests_sent, reason } = JSON.parse(capped.stdout) as Summary;
    expect([capped.code, status, requests_sent], capped.stderr).toEqual([3, "paused", counts.completed]);
    expect(held.map(({ message, cap }) => [message.slice(0, 23), cap])).toEqual([
      ["the cost cap of $0.0120", undefined],
    ]);
    expect(held[0]?.needed_usd).toBeGreaterThan(0.012);
    const unwritten = counts.completed - outputOf("capped.out.jsonl").length;
    expect(reason).toContain(`${unwritten} answers are not in `);
    expect(capped.stderr).toContain(`${unwritten} answers are not in `);
    expect(capped.stderr).toMatch(
      /\nto continue: raise the cap to at least \$0\.01\d: .* --max-cost <usd>\n$/,
    );
    expect(counts.completed).toBe(world.requests - before);
    expect(cost.billed_usd).toBeCloseTo(7e-6 * counts.completed, 9);
    expect(cost.billed_usd + cost.ambiguous_usd).toBeLessThanOrEqual(0.012);
    expect(cost.billed_usd).toBeGreaterThan(0.012 - 0.0042); // less is left than one item may cost
    const other = await world.run("capped.jsonl", "capped.out.jsonl", ["--model", "local:small"]).ended;
    expect(other).toMatchObject({ code: 2, stdout: expect.stringContaining("conflict") });
    const raised = await world.run("capped.jsonl", "capped.out.jsonl", ["--max-cost", "0.017"]).ended;
    const higher = JSON.parse(raised.stdout) as Summary;
    expect([raised.code, higher.status], raised.stderr).toEqual([3, "paused"]);
    expect(higher.cost.billed_usd).toBeGreaterThan(0.017 - 0.0042);
    expect(higher.cost.billed_usd).toBeLessThanOrEqual(0.017);
    const rest = await world.run("capped.jsonl", "capped.out.jsonl", ["--max-cost", "1"]).ended;
    expect(rest.code, rest.stderr).toBe(0);
    expect(new Set(outputOf("capped.out.jsonl").map(({ key }) => key)).size).toBe(items.length);
    expect(world.requests - before).toBe(items.length);
    expect((JSON.parse(rest.stdout) as Summary).requests_sent).toBe(items.length - higher.counts.completed);
  });

  it("of which the output was cut while it is held can be taken again, and nothing is paid twice", async () => {
    world.answerMs = 0;
    const before = world.requests;
    const lines = Array.from({ length: 2_000 }, (_, item) =>
      lineOf(20_000 + item, item === 1_999 ? "absent:small" : "local:small"),
    );
    writeFileSync(world.path("cut.jsonl"), `${lines.join("\n")}\n`);
    const run = () => world.run("cut.jsonl", "cut.out.jsonl", ["--wait", "0"]).ended;
    const held = await run();
    expect([held.code, JSON.parse(held.stdout).held], held.stderr).toEqual([
      3,
      [expect.objectContaining({ reason: "provider_missing", items: 1 })],
    ]);
    const taken = outputOf("cut.out.jsonl").length;
    expect(taken).toBeGreaterThan(0);
    truncateSync(world.path("cut.out.jsonl"), 10);
    const cut = await run();
    expect([cut.code, cut.stderr]).toEqual([74, expect.stringContaining("output_changed")]);
    const mark = world.path("cut.out.jsonl.perigee/fleet.json"); // as the guide says
    const state = JSON.parse(readFileSync(mark, "utf8")) as object;
    writeFileSync(mark, JSON.stringify({ ...state, appended: 0, outputBytes: 0 }));
    renameSync(world.path("cut.out.jsonl"), world.path("cut.moved.jsonl"));
    expect((await run()).code).toBe(3);
    expect(outputOf("cut.out.jsonl").length).toBe(taken);
    expect(world.requests - before).toBe(1_999);
  }, 120_000);

  it("is refused before anything is sent for two lines of one key, and for what only one machine does", async () => {
    const open = () => world.rows("SELECT id FROM perigee_runs WHERE state = 'open' ORDER BY id");
    const before = [world.requests, await open()];
    writeFileSync(world.path("twice.jsonl"), `${lineOf(1)}\n${lineOf(1)}\n`);
    const twice = await world.run("twice.jsonl", "twice.out.jsonl").ended;
    expect([twice.code, twice.stderr]).toEqual([
      74,
      expect.stringContaining("lines 1 and 2 have the same key"),
    ]);
    const piloted = await world.run("twice.jsonl", "twice.out.jsonl", ["--pilot", "1"]).ended;
    expect([piloted.code, piloted.stderr]).toEqual([
      2,
      expect.stringContaining("--pilot does not work with --store"),
    ]);
    expect([world.requests, await open()]).toEqual(before);
  });
});
