/**
 * A file over three workers on one PostgreSQL: a worker and the client are killed on the way, and the same command takes the answers.
 */
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { FleetWorld } from "./fleet_world.ts";

const LINES = 6_000;
const IN_FLIGHT = 8;

let postgres: PostgresServer;
let world: FleetWorld;

const lineOf = (item: number): string =>
  JSON.stringify({
    key: `k${item}`,
    request: { model: "local:small", contents: [{ parts: [{ text: `[[${item}]]` }] }] },
  });

interface OutputLine {
  readonly key: string | null;
  readonly line?: number;
  readonly output: { readonly text: string } | null;
}

function outputOf(name: string): readonly OutputLine[] {
  const lines = readFileSync(world.path(name), "utf8").trimEnd().split("\n");
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
    timeout: 180_000,
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
});
