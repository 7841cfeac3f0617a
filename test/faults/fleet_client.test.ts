/** The client of a run over a fleet, on a real PostgreSQL without workers: what it refuses, and what it leaves in the store. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import { FleetDatabase } from "../../src/fleet/fleet_database.ts";
import { runOnFleet } from "../../src/fleet/fleet_run.ts";
import { claimObjects } from "../../src/fleet/objects_owner.ts";
import { openObjects } from "../../src/store/objects/open_objects.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

const LINES = 1_500; // two shards

describeCounterpart("the client of a run over a fleet", POSTGRES, () => {
  let postgres: PostgresServer;
  let folder: string;
  let url: string;
  let database: FleetDatabase;
  let leaving: AbortController;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    folder = mkdtempSync(join(tmpdir(), "perigee-fleet-client-"));
  }, 60_000);
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await postgres?.remove();
  });
  beforeEach(async () => {
    url = await postgres.freshUrl();
    database = await FleetDatabase.open(url, systemClock);
    leaving = new AbortController();
  });
  afterEach(() => database.close());

  const run = (name: string, lines: number, objects = url): Promise<Summary> => {
    const input = join(folder, `${name}.jsonl`);
    const request = { model: "echo:test", contents: [{ parts: [{ text: "a" }] }] };
    const keys = Array.from({ length: lines }, (_, item) => `k${item}`);
    writeFileSync(input, keys.map((key) => `${JSON.stringify({ key, request })}\n`).join(""));
    const out = join(folder, `${name}.out.jsonl`);
    return runOnFleet({
      ...{ store: url, objects, input, out, dataDir: `${out}.perigee`, terms: {}, clock: systemClock },
      ...{ signal: leaving.signal, onProgress: () => undefined },
    });
  };
  const untilMade = (): Promise<void> =>
    expect.poll(async () => (await database.query("SELECT FROM perigee_shards")).count).toBe(2);

  it("is the only one that writes its output", async () => {
    const first = run("twice", LINES);
    await untilMade();
    await expect(run("twice", LINES)).rejects.toMatchObject({ code: "data_dir_in_use" });
    leaving.abort();
    expect((await first).status).toBe("stopped");
    expect((await database.query("SELECT FROM perigee_runs")).count).toBe(1);
  });

  it("does not take the answers of some shards for those of all", async () => {
    const stopped = run("removed", LINES);
    await untilMade();
    leaving.abort();
    await stopped;
    await database.query("DELETE FROM perigee_shards WHERE index = 0");
    await database.query("UPDATE perigee_shards SET state = 'done'");
    leaving = new AbortController();
    await expect(run("removed", LINES)).rejects.toMatchObject({
      code: "not_found",
      message: expect.stringContaining("not in the store any more"),
    });
  });

  it("leaves nothing in the store for an input without lines", async () => {
    expect(await run("empty", 0)).toMatchObject({ status: "completed", items: 0 });
    expect((await database.query("SELECT FROM perigee_runs")).count).toBe(0);
  });

  it("is refused a place of objects that belongs to another database, a copy of its own included", async () => {
    const place = pathToFileURL(join(folder, "objects")).href;
    mkdirSync(join(folder, "objects"));
    leaving.abort();
    expect((await run("own", 1, place)).status).toBe("stopped");
    expect((await run("own", 1, place)).status).toBe("stopped");
    const objects = await openObjects({ url: place });
    const copy = await FleetDatabase.open(await postgres.freshUrl(), systemClock);
    try {
      await copy.query("UPDATE perigee_fleet SET secret = $1", await database.secret());
      await expect(claimObjects(objects, { url: place, database: copy })).rejects.toMatchObject({
        code: "conflict",
        message: expect.stringContaining("belong to another database"),
      });
      await objects.remove("owner");
      await claimObjects(objects, { url: place, database: copy });
    } finally {
      copy.close();
      await objects.close();
    }
    await expect(run("own", 1, place)).rejects.toMatchObject({ code: "conflict" });
  });

  it("is refused every place of objects but that of the workers", async () => {
    const [place, other] = ["here", "there"].map((name) => {
      mkdirSync(join(folder, name));
      return pathToFileURL(join(folder, name)).href;
    }) as [string, string];
    leaving.abort();
    await run("first", 1, place);
    for (const objects of [other, url])
      await expect(run("second", 1, objects)).rejects.toMatchObject({
        code: "conflict",
        message: expect.stringContaining("set --objects to the place that its workers have"),
      });
    expect(readdirSync(join(folder, "there"))).toEqual([]);
    await run("second", 1, place);
  });
});
