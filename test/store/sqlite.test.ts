import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-sqlite-"));
let folders = 0;
afterAll(() => rmSync(root, { recursive: true, force: true }));
const freshFolder = () => {
  folders += 1;
  return join(root, String(folders), "data");
};

describe("the sqlite store", () => {
  it("keeps its folder and files from other users", async () => {
    const dataDir = freshFolder();
    const store = await openSqliteStore({ dataDir });
    await store.append([{ taskId: "a", wallMs: 1, records: Uint8Array.of(1) }]);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(dataDir)) {
      expect([name, statSync(join(dataDir, name)).mode & 0o777]).toEqual([name, 0o600]);
    }
    await store.close();
  });

  it("sets real space aside, and leaves only its data when it is closed", async () => {
    const dataDir = freshFolder();
    const store = await openSqliteStore({ dataDir });
    await store.task("none");
    const open = readdirSync("/proc/self/fd").flatMap((name) => {
      const found = statSync(`/proc/self/fd/${name}`, { throwIfNoEntry: false });
      return found?.isFile() === true && found.nlink === 0 ? [found] : [];
    });
    expect(open).toContainEqual(expect.objectContaining({ size: 16 << 20 })); // without a name: freed with the process
    expect(store.isSpaceLow()).toBe(false);
    expect(await store.restoreReserve()).toBe(true);
    await store.close();
    expect(readdirSync(dataDir).toSorted()).toEqual(["folder.json", "journal.sqlite", "lock.sqlite"]);
  });

  it("keeps nothing of a record that was deleted, once it is closed", async () => {
    const dataDir = freshFolder();
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    const payload = Buffer.from("canary of a user's text ".repeat(2_000));
    const place = { collection: "lots", project: "one", parent: "", createdWallMs: 1, body: "{}" };
    for (const id of ["kept", "gone"]) {
      const text = id === "gone" ? payload : Buffer.from("x");
      await store.change([{ kind: "insert", record: { ...place, id, payload: text } }]);
    }
    await store.change([{ kind: "delete", collection: "lots", id: "gone" }]);
    await store.close();
    for (const name of readdirSync(dataDir))
      expect([name, readFileSync(join(dataDir, name)).includes("canary")]).toEqual([name, false]);
  });

  it("says who holds a folder", async () => {
    const dataDir = freshFolder();
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    await expect(openSqliteStore({ dataDir })).rejects.toMatchObject({
      code: "data_dir_in_use",
      message: expect.stringContaining(`another engine of this process (pid ${process.pid})`),
    });
    await store.close();
    expect(existsSync(join(dataDir, "owner.json"))).toBe(false);
  });

  it("opens over what a dead owner left behind", async () => {
    const dataDir = freshFolder();
    await (await openSqliteStore({ dataDir, reserveBytes: 0 })).close();
    writeFileSync(
      join(dataDir, "owner.json"),
      JSON.stringify({ pid: 1, bootId: "another", startedWallMs: 1 }),
    );
    await (await openSqliteStore({ dataDir, reserveBytes: 0 })).close();
  });

  it("refuses a folder that cannot be one, saying where", async () => {
    const file = join(root, "a file");
    writeFileSync(file, "");
    await expect(openSqliteStore({ dataDir: join(file, "data") })).rejects.toMatchObject({
      code: "store_failed",
      message: expect.stringContaining(file),
    });
  });

  it("refuses a file that is not a database", async () => {
    const dataDir = freshFolder();
    await (await openSqliteStore({ dataDir, reserveBytes: 0 })).close();
    writeFileSync(join(dataDir, "journal.sqlite"), "x".repeat(8_192));
    await expect(openSqliteStore({ dataDir })).rejects.toMatchObject({
      code: "store_damaged",
      message: expect.stringContaining("restore the data folder or the database from a backup"),
    });
  });
});
