/** A data folder whose journal is gone, emptied, another's or older than the files beside it is refused with the way on. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-identity-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const at = (...names: string[]) => join(dataDir, ...names);
const journal = () => at("journal.sqlite");

/** One life of a process: a task is stored, with a file beside it. */
async function live(name: string): Promise<void> {
  const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
  await store.putTask({ id: name, name, createdWallMs: 1, body: "{}" });
  await store.close();
  mkdirSync(at("files"), { recursive: true });
  writeFileSync(at("files", name), name);
}

async function refusal(): Promise<{ readonly code: string; readonly message: string }> {
  const opened = await openSqliteStore({ dataDir, reserveBytes: 0 }).catch((error: unknown) => error);
  if (!(opened instanceof Error)) throw new Error("it was opened");
  return { code: (opened as Error & { readonly code: string }).code, message: opened.message };
}

describe("a data folder", () => {
  it("is refused when its journal is missing, and nothing in it is changed", async () => {
    await live("one");
    rmSync(journal());
    expect(await refusal()).toEqual({
      code: "store_damaged",
      message: `${journal()} is missing, but the folder was in use (files left: 1 in files/): put the journal back, or restore the whole folder from a backup (perigee restore); to start over, use another data folder`,
    });
    expect(existsSync(journal())).toBe(false);
    expect(readdirSync(at("files"))).toEqual(["one"]);
  });

  it("is refused when its journal is empty, also where an earlier version left no folder.json", async () => {
    await live("one");
    writeFileSync(journal(), "");
    expect((await refusal()).message).toContain(`${journal()} is empty, but the folder was in use`);
    rmSync(at("folder.json"));
    expect((await refusal()).message).toContain(`${journal()} is empty, but the folder was in use`);
  });

  it("is refused when its journal was put back from before", async () => {
    await live("one");
    copyFileSync(journal(), at("kept.sqlite"));
    await live("two");
    copyFileSync(at("kept.sqlite"), journal());
    const { code, message } = await refusal();
    expect(code).toBe("store_damaged");
    expect(message).toContain(
      "is older than the files beside it (start 1 with 1 tasks; folder.json says start 2 with 2)",
    );
    expect(message).toContain("perigee restore");
  });

  it("is refused when its write-ahead log was left behind", async () => {
    await live("one");
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    await store.putTask({ id: "two", name: "two", createdWallMs: 1, body: "{}" });
    await store.scrub(); // as a service does each minute
    mkdirSync(at("copy"));
    for (const name of ["journal.sqlite", "folder.json"]) copyFileSync(at(name), at("copy", name));
    await store.putTask({ id: "three", name: "three", createdWallMs: 1, body: "{}" });
    await store.close();
    copyFileSync(at("copy", "journal.sqlite"), journal());
    expect((await refusal()).message).toContain("is older than the files beside it");
  });

  it("is refused when its journal is another folder's", async () => {
    await live("one");
    const other = mkdtempSync(join(tmpdir(), "perigee-identity-"));
    await (await openSqliteStore({ dataDir: other, reserveBytes: 0 })).close();
    copyFileSync(join(other, "journal.sqlite"), journal());
    rmSync(other, { recursive: true });
    expect((await refusal()).message).toContain("is the journal of another folder");
  });

  it("is accepted as it is once folder.json is removed, and has one again", async () => {
    await live("one");
    copyFileSync(journal(), at("kept.sqlite"));
    await live("two");
    copyFileSync(at("kept.sqlite"), journal());
    rmSync(at("folder.json"));
    await live("three");
    expect(JSON.parse(readFileSync(at("folder.json"), "utf8"))).toMatchObject({ starts: 2, tasks: 2 });
  });

  it("of the version before is brought to this one, which is said, and opens", async () => {
    await live("one");
    rmSync(at("folder.json"));
    const database = (await loadSqlite())(journal());
    database.exec("DROP TABLE folder; UPDATE schema SET version = 1");
    database.close();
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    expect(store.notes).toEqual([
      "the data folder was migrated from schema 1, and earlier versions of perigee can no longer open it",
    ]);
    expect(await store.taskByName("one")).toMatchObject({ id: "one" });
    await store.close();
  });

  it("of a service of the version before is copied first", async () => {
    const first = await openSqliteStore({ dataDir, reserveBytes: 0 });
    const record = { collection: "c", id: "i", project: "p", parent: "", createdWallMs: 1, body: "{}" };
    await first.change([{ kind: "put", record }]);
    await first.close();
    rmSync(at("folder.json"));
    const database = (await loadSqlite())(journal());
    database.exec("DROP TABLE folder; UPDATE schema SET version = 1");
    database.close();
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    const copy = at("journal.sqlite.schema-1");
    expect(store.notes).toEqual([
      `the data folder was migrated from schema 1, and earlier versions of perigee can no longer open it; its database as it was is ${copy}, which is deleted after 7 days`,
    ]);
    expect((await store.openLog()).notes).toEqual([]); // one copy is enough
    await store.close();
    const before = (await loadSqlite())(copy);
    expect(before.prepare("SELECT version FROM schema").get()).toEqual({ version: 1 });
    expect(before.prepare("SELECT id FROM records").all()).toEqual([{ id: "i" }]);
    before.close();
  });

  it.each([
    [
      0,
      "data_dir_older",
      "the data folder has schema 0, which an older perigee wrote; this version reads 1 to 4: open it with a version in between first",
    ],
    [
      5,
      "data_dir_newer",
      "the data folder has schema 5, this version of perigee reads up to 4: use a newer one",
    ],
  ])("of schema %i is refused as what it is", async (version, code, message) => {
    await live("one");
    const database = (await loadSqlite())(journal());
    database.exec(`UPDATE schema SET version = ${version}`);
    database.close();
    expect(await refusal()).toEqual({ code, message });
  });

  it("has no reserve on the disk under any name, while it is open or after", async () => {
    const store = await openSqliteStore({ dataDir, reserveBytes: 1 << 20 });
    expect(await store.restoreReserve()).toBe(true);
    expect(readdirSync(dataDir).filter((name) => name.includes("reserve"))).toEqual([]);
    await store.close();
  });
});
