/** The tables of the work log in a folder that has none yet, and what older versions make of it. */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";

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

it("a folder gets the tables, and the version that goes with them, when its log is opened", async () => {
  const first = await openSqliteStore({ dataDir, reserveBytes: 0 });
  await first.putTask({ id: "t", name: "n", createdWallMs: 1, body: "{}" });
  await first.append([{ taskId: "t", wallMs: 1, records: Uint8Array.of(1) }]);
  await first.close();
  expect(await versionAndTables()).toEqual([2, []]);
  const second = await openSqliteStore({ dataDir, reserveBytes: 0 });
  expect(await second.openLog()).toEqual({ names: [], lastTask: 0 });
  expect(await second.openLog()).toEqual({ names: [], lastTask: 0 });
  await second.close();
  const all = ["log_answers", "log_entries", "log_names", "log_tasks", "log_tasks_of_project"];
  expect(await versionAndTables()).toEqual([3, all]);
  const third = await openSqliteStore({ dataDir, reserveBytes: 0 });
  expect(third.notes).toEqual([]);
  expect((await third.taskByName("n"))?.id).toBe("t");
  for await (const { records } of third.journal("t")) expect([...records]).toEqual([1]);
  await third.close();
});
