/** API keys in a folder that several have open. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { makeApiKey } from "../../src/store/keys/api_key.ts";
import { openKeyStore } from "../../src/store/keys/key_store.ts";
import type { NewKey } from "../../src/store/keys/new_key.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-keys-"));
let folders = 0;
afterAll(() => rmSync(root, { recursive: true, force: true }));
const freshFolder = () => {
  folders += 1;
  return join(root, String(folders), "data");
};
const wanted = (parts: Partial<NewKey> = {}): NewKey => ({
  ...{ project: "acme", name: "default", scopes: ["infer:read", "files:read"], isBeta: false },
  ...parts,
});
const DAY_MS = 86_400_000;

/** The store of a service, and beside it that of a command on the same folder. */
async function openTwice() {
  const dataDir = freshFolder();
  const clock = new FakeClock();
  const service = await openKeyStore({ dataDir, clock });
  const command = await openKeyStore({ dataDir, clock });
  return { dataDir, clock, service, command };
}

describe("the key store", () => {
  it("accepts a key that it made, with its project and rights, also after opening again", async () => {
    const dataDir = freshFolder();
    const clock = new FakeClock();
    const keys = await openKeyStore({ dataDir, clock });
    const { key, stored } = keys.create(wanted({ isBeta: true }));
    expect(keys.accept(key)).toEqual(stored);
    keys.close();
    const again = await openKeyStore({ dataDir, clock });
    expect(again.accept(key)).toMatchObject({
      ...{
        id: stored.id,
        project: "acme",
        name: "default",
        isBeta: true,
        scopes: ["infer:read", "files:read"],
      },
      ...{ createdWallMs: clock.wallMs(), expiresWallMs: undefined, revokedWallMs: undefined },
    });
    again.close();
  });

  it("finds a key by its id while it is active, also one that another process made or revoked", async () => {
    const { clock, service, command } = await openTwice();
    const { stored } = command.create(wanted({ isBeta: true }));
    expect(service.active(stored.id)).toMatchObject({ project: "acme", isBeta: true });
    expect(service.active("key_none")).toBeUndefined();
    command.revoke(stored.id);
    await clock.advance(500);
    expect(service.active(stored.id)).toBeUndefined();
    service.close();
    command.close();
  });

  it("makes no key for the project perigee, which would own the vendor's satellites", async () => {
    const keys = await openKeyStore({ dataDir: freshFolder(), clock: new FakeClock() });
    expect(() => keys.create(wanted({ project: "perigee" }))).toThrow(
      /project perigee is reserved: it is the namespace of perigee's satellites/,
    );
    keys.close();
  });

  it("refuses invalid keys alike: unknown, mistyped, empty", async () => {
    const keys = await openKeyStore({ dataDir: freshFolder(), clock: new FakeClock() });
    const { key } = keys.create(wanted());
    for (const text of [makeApiKey(), `${key.slice(0, -1)}!`, key.slice(0, -1), "", `${key} `])
      expect(keys.accept(text)).toBeUndefined();
    keys.close();
  });

  it("never has the key itself on the disk, and keeps its file from other users", async () => {
    const dataDir = freshFolder();
    const keys = await openKeyStore({ dataDir, clock: new FakeClock() });
    const { key, stored } = keys.create(wanted());
    keys.accept(key);
    keys.close();
    expect(readdirSync(dataDir)).toEqual(["keys.sqlite"]);
    const path = join(dataDir, "keys.sqlite");
    const file = readFileSync(path);
    expect(file.includes(key.slice(9, 31))).toBe(false);
    expect(file.includes(stored.shown)).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
  });

  it("is open twice, and a key revoked through one is refused by the other within half a second", async () => {
    const { clock, service, command } = await openTwice();
    const { key, stored } = command.create(wanted());
    expect(service.accept(key)?.id).toBe(stored.id);
    command.revoke(stored.id);
    expect(command.accept(key)).toBeUndefined();
    await clock.advance(500);
    expect(service.accept(key)).toBeUndefined();
    expect(service.list()[0]?.revokedWallMs).toBe(command.revoke(stored.id).revokedWallMs);
    expect(() => service.revoke("key_none")).toThrow(expect.objectContaining({ code: "not_found" }));
    command.close();
    service.close();
  });

  it("accepts a key that another process has just made, and asks for changes to known ones every 500 ms", async () => {
    const { clock, service, command } = await openTwice();
    const { key, stored } = command.create(wanted());
    expect(service.accept(key)?.id).toBe(stored.id);
    command.revoke(stored.id);
    await clock.advance(499);
    expect(service.accept(key)?.id).toBe(stored.id);
    await clock.advance(1);
    expect(service.accept(key)).toBeUndefined();
    command.close();
    service.close();
  });

  it("goes on with what it knows, without waiting, while another process is writing", async () => {
    const dataDir = freshFolder();
    const clock = new FakeClock();
    const service = await openKeyStore({ dataDir, clock });
    const { key } = service.create(wanted());
    const other = (await loadSqlite())(join(dataDir, "keys.sqlite"));
    other.exec("BEGIN EXCLUSIVE; UPDATE keys SET name = 'x'");
    const began = performance.now();
    for (let times = 0; times < 20; times += 1) {
      await clock.advance(500);
      expect(service.accept(key)).toBeDefined();
    }
    expect(performance.now() - began).toBeLessThan(1_000);
    other.exec("ROLLBACK");
    other.close();
    service.close();
  });

  it("waits for a process that is writing before it makes a key", async () => {
    const dataDir = freshFolder();
    const keys = await openKeyStore({ dataDir, clock: new FakeClock() });
    const built = new URL("../../dist/store/sqlite_database.js", import.meta.url).href;
    const child = spawn(process.execPath, [
      ...["--input-type=module", "-e"],
      `const { loadSqlite } = await import(${JSON.stringify(built)});
       const database = (await loadSqlite())(${JSON.stringify(join(dataDir, "keys.sqlite"))});
       database.exec("BEGIN EXCLUSIVE");
       process.stdout.write("held");
       setTimeout(() => { database.exec("COMMIT"); database.close(); }, 300);`,
    ]);
    await once(child.stdout, "data");
    expect(keys.accept(keys.create(wanted()).key)).toBeDefined();
    keys.close();
  });

  it("works beside a store that owns the folder", async () => {
    const dataDir = freshFolder();
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    const keys = await openKeyStore({ dataDir, clock: new FakeClock() });
    expect(keys.accept(keys.create(wanted()).key)).toBeDefined();
    keys.close();
    await store.close();
  });

  it("refuses a key from the millisecond at which it expires", async () => {
    const clock = new FakeClock();
    const keys = await openKeyStore({ dataDir: freshFolder(), clock });
    const { key } = keys.create(wanted({ expiresWallMs: clock.wallMs() + DAY_MS }));
    await clock.advance(DAY_MS - 1);
    expect(keys.accept(key)).toBeDefined();
    await clock.advance(1);
    expect(keys.accept(key)).toBeUndefined();
    keys.close();
  });

  it("lets two keys of one name be active, so that one can follow the other", async () => {
    const clock = new FakeClock();
    const keys = await openKeyStore({ dataDir: freshFolder(), clock });
    const first = keys.create(wanted({ expiresWallMs: clock.wallMs() + DAY_MS }));
    const second = keys.create(wanted());
    const refused = expect.objectContaining({ code: "conflict" });
    expect(() => keys.create(wanted())).toThrow(refused);
    keys.create(wanted({ name: "other" }));
    keys.create(wanted({ project: "other" }));
    keys.revoke(second.stored.id);
    keys.create(wanted());
    expect(() => keys.create(wanted())).toThrow(refused);
    await clock.advance(DAY_MS);
    keys.create(wanted());
    expect(keys.accept(first.key)).toBeUndefined();
    expect(keys.list("acme").map((key) => key.name)).toEqual([
      "default",
      "default",
      "other",
      "default",
      "default",
    ]);
    expect(keys.list()).toHaveLength(6);
    keys.close();
  });

  it("refuses invalid names, saying which form they have", async () => {
    const keys = await openKeyStore({ dataDir: freshFolder(), clock: new FakeClock() });
    for (const project of ["", "-a", "Acme", "a_b", "a/b", "a b", "é", "a".repeat(64), "a\n"])
      expect(() => keys.create(wanted({ project }))).toThrow(expect.objectContaining({ code: "usage" }));
    for (const name of ["", ".a", "a b", "a".repeat(64), "a\u0000"])
      expect(() => keys.create(wanted({ name }))).toThrow(expect.objectContaining({ code: "usage" }));
    keys.create(wanted({ project: `a${"-9".repeat(31)}`, name: "CI.main_2-x" }));
    expect(keys.list()).toHaveLength(1);
    keys.close();
  });

  it("writes the day of the last use some minutes later, or when it is closed", async () => {
    const dataDir = freshFolder();
    const clock = new FakeClock({ wallMs: 10 * DAY_MS });
    const service = await openKeyStore({ dataDir, clock });
    const [first, second] = [service.create(wanted()), service.create(wanted({ name: "other" }))];
    service.accept(first.key);
    expect(service.list()[0]?.lastUsedDay).toBeUndefined();
    await clock.advance(600_000);
    service.accept(first.key);
    expect(service.list()[0]?.lastUsedDay).toBe(10);
    await clock.advance(DAY_MS);
    service.accept(second.key);
    service.close();
    const again = await openKeyStore({ dataDir, clock });
    expect(again.list().map((key) => key.lastUsedDay)).toEqual([10, 11]);
    again.close();
  });

  it("refuses a file of a newer version, and one that does not hold what was written", async () => {
    const dataDir = freshFolder();
    const clock = new FakeClock();
    const keys = await openKeyStore({ dataDir, clock });
    const { key, stored } = keys.create(wanted());
    const other = (await loadSqlite())(join(dataDir, "keys.sqlite"));
    other.exec("UPDATE keys SET scopes = 'admin'");
    await clock.advance(500);
    const damage = { code: "store_damaged", details: { keyId: stored.id } };
    expect(() => keys.accept(key)).toThrow(expect.objectContaining(damage));
    keys.close();
    await expect(openKeyStore({ dataDir, clock })).rejects.toMatchObject(damage);
    other.exec("PRAGMA user_version = 2");
    other.close();
    await expect(openKeyStore({ dataDir, clock })).rejects.toMatchObject({ code: "data_dir_newer" });
  });
});
