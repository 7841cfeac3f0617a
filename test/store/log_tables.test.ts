/** The tables of the work log in a folder that has none yet, and what older versions make of it. */
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openWorkLog } from "../../src/log/work_log.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { SqliteLog } from "../../src/store/sqlite_log.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { outcomeOf, settled, text, work } from "../../src/testing/work_log_calls.ts";

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-tables-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

async function versionAndTables(): Promise<[number, string[]]> {
  const copy = join(dataDir, "copy"); // a database that this process has read is locked until its statements are collected
  copyFileSync(join(dataDir, "journal.sqlite"), copy);
  const database = (await loadSqlite())(copy);
  const { version } = database.prepare("SELECT max(version) AS version FROM schema").get() as {
    version: number;
  };
  const tables = database
    .prepare("SELECT name FROM sqlite_master WHERE name LIKE 'log_%' ORDER BY name")
    .all();
  database.close();
  return [version, (tables as { name: string }[]).map(({ name }) => name)];
}

it("a folder gets the tables, and their version, when its log is opened", async () => {
  const first = await openSqliteStore({ dataDir, reserveBytes: 0 });
  await first.putTask({ id: "t", name: "n", createdWallMs: 1, body: "{}" });
  await first.append([{ taskId: "t", wallMs: 1, records: Uint8Array.of(1) }]);
  await first.close();
  expect(await versionAndTables()).toEqual([2, []]);
  const second = await openSqliteStore({ dataDir, reserveBytes: 0 });
  expect(await second.openLog()).toEqual({ names: [], lastTask: 0, notes: [] });
  expect(await second.openLog()).toEqual({ names: [], lastTask: 0, notes: [] });
  await second.close();
  const indexes = ["log_tasks_of_parent", "log_tasks_of_project"];
  const all = ["log_answers", "log_entries", "log_names", "log_tasks", ...indexes];
  expect(await versionAndTables()).toEqual([4, all]);
  const third = await openSqliteStore({ dataDir, reserveBytes: 0 });
  expect(third.notes).toEqual([]);
  expect((await third.taskByName("n"))?.id).toBe("t");
  for await (const { records } of third.journal("t")) expect([...records]).toEqual([1]);
  await third.close();
});

it("a folder of a service is copied before it gets the tables, and the copy is what earlier versions read", async () => {
  const first = await openSqliteStore({ dataDir, reserveBytes: 0 });
  const record = { collection: "c", id: "i", project: "p", parent: "", createdWallMs: 1, body: "{}" };
  await first.change([{ kind: "put", record }]);
  const fresh = join(dataDir, "fresh");
  const made = await openSqliteStore({ dataDir: fresh, reserveBytes: 0 });
  await made.change([{ kind: "put", record }]); // as a service does when it starts
  expect((await made.openLog()).notes).toEqual([]);
  await made.close();
  await first.close();
  writeFileSync(join(dataDir, "journal.sqlite.schema-2.part"), "of a process that was killed");
  const second = await openSqliteStore({ dataDir, reserveBytes: 0 });
  const { notes } = await second.openLog();
  expect(notes).toEqual([expect.stringContaining(join(dataDir, "journal.sqlite.schema-2"))]);
  expect((await second.openLog()).notes).toEqual([]);
  await second.close();
  expect(readdirSync(dataDir)).not.toContain("journal.sqlite.schema-2.part");
  rmSync(join(dataDir, "journal.sqlite"));
  renameSync(join(dataDir, "journal.sqlite.schema-2"), join(dataDir, "journal.sqlite"));
  expect(await versionAndTables()).toEqual([2, []]);
  const database = (await loadSqlite())(join(dataDir, "journal.sqlite"));
  expect(database.prepare("SELECT id FROM records").all()).toEqual([{ id: "i" }]);
  database.close();
});

it("a folder of a version that does not know lists is copied before such versions refuse it", async () => {
  const first = await openSqliteStore({ dataDir, reserveBytes: 0 });
  const log = await openWorkLog({ store: first, clock: new FakeClock() });
  const accepted = work("of a service", { request: text("a prompt") });
  log.accept(accepted);
  const { id } = accepted;
  await settled(log);
  await log.close();
  await first.close();
  const database = (await loadSqlite())(join(dataDir, "journal.sqlite"));
  database.exec("UPDATE schema SET version = 3");
  database.close();
  const second = await openSqliteStore({ dataDir, reserveBytes: 0 });
  expect(second.notes).toEqual([]); // it changes when its log is opened
  const copy = join(dataDir, "journal.sqlite.schema-3");
  expect((await second.openLog()).notes).toEqual([
    `the data folder was migrated to schema 4, which earlier versions of perigee cannot open; its database as it was is ${copy}, which is deleted after 7 days`,
  ]);
  expect((await second.openLog()).notes).toEqual([]);
  expect((await second.loggedTask(id))?.id).toBe(id);
  await second.close();
  expect((await versionAndTables())[0]).toBe(4);
  const before = (await loadSqlite())(copy);
  expect(before.prepare("SELECT version FROM schema").get()).toEqual({ version: 3 });
  expect(before.prepare("SELECT id FROM log_tasks").all()).toEqual([{ id }]);
  before.close();
});

it("every list of tasks is read from an index, in order, however many tasks there are beside it", async () => {
  const database = (await loadSqlite())(":memory:");
  database.exec("CREATE TABLE schema (version INTEGER)");
  const seen: string[] = [];
  const prepare = (sql: string) => {
    seen.push(sql);
    return database.prepare(sql);
  };
  const log = new SqliteLog(
    { exec: (sql) => database.exec(sql), close: () => database.close(), prepare },
    true,
  );
  log.open();
  seen.length = 0;
  const queries = [{ project: 1, kind: 1 }, { kind: 1, parent: "p" }, { numbers: [1, 2] }, {}];
  for (const query of [...queries, { project: 1, kind: 1, parent: "p" }])
    for (const isNewestFirst of [true, false]) log.tasks({ ...query, limit: 1, isNewestFirst });
  expect(seen).toHaveLength(10);
  for (const sql of seen) {
    const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { readonly detail: string }[];
    const tasks = steps
      .map(({ detail }) => detail)
      .filter((detail) => !/json_each|LIST SUBQUERY|BLOOM FILTER/.test(detail));
    expect([sql, tasks]).toEqual([
      sql,
      [expect.stringMatching(/^SEARCH log_tasks USING (INDEX|INTEGER PRIMARY KEY)/)],
    ]);
  }
  database.close();
});

it("no file of the folder holds a byte of texts that were erased, while others are written", async () => {
  const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
  const log = await openWorkLog({ store, clock: new FakeClock() });
  const holding = (canary: string): string[] =>
    readdirSync(dataDir)
      .filter((name) => !name.endsWith(".part")) // renamed meanwhile
      .filter((name) => readFileSync(join(dataDir, name)).includes(canary));
  const request = text("the erased prompt ".repeat(2_000));
  const erased = log.accept(work("erased", { items: 2, request })).task;
  const removed = log.accept(work("removed", { request })).task;
  void log.end(outcomeOf(removed, 0), text("the erased answer"));
  void log.end(outcomeOf(erased, 0), text("the erased answer ".repeat(500)));
  await log.end(outcomeOf(erased, 1), text("the erased answer"));
  await settled(log);
  await store.scrub(); // it is in the database by now
  await log.rewrite(erased, "{}");
  expect(holding("the erased prompt").length).toBeGreaterThan(0);
  const others = Array.from({ length: 50 }, (_, index) => {
    const { task } = log.accept(work(`other ${index}`, { request: text("the kept prompt") }));
    return log.end(outcomeOf(task, 0), text("the kept answer"));
  });
  await log.erase({ texts: [erased], all: [removed] });
  expect(holding("the erased")).toEqual([]);
  await Promise.all(others);
  expect(holding("the kept answer").length).toBeGreaterThan(0);
  await log.close();
  await store.close();
});
