import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Disk, systemDisk } from "../../src/disk.ts";
import { accountName, type LearntRow, type LearntRows, LearntStore } from "../../src/store/learnt.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

let folder: string;
let clock: FakeClock;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-test-"));
  clock = new FakeClock();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(disk: Disk = systemDisk): Promise<LearntStore> {
  return LearntStore.open({ folder, disk, clock });
}

describe("the store of learnt figures", () => {
  it("keeps for the next process what was put", async () => {
    const first = await open();
    first.put("limits", "openai", { requestsPerMinute: 300 });
    first.put("limits", "openai", { requestsPerMinute: 400 });
    await first.close();
    const second = await open();
    expect(second.get("limits", "openai")).toEqual({ requestsPerMinute: 400 });
    expect(second.get("limits", "gemini")).toBeUndefined();
    expect(second.get("latency", "openai")).toBeUndefined();
    expect(second.keys("limits")).toEqual(["openai"]);
  });

  it("keeps it in rows where machines share them, the last of each, and not in a file", async () => {
    const rows = new Map<string, LearntRow>();
    const learntRows: LearntRows = {
      read: async () => [...rows.values()],
      put: async (put) => {
        for (const row of put) rows.set(row.key, row);
      },
    };
    const first = await LearntStore.open({ ...{ folder, disk: systemDisk, clock }, learntRows });
    first.put("limits", "openai", 1);
    await clock.advance(10_000);
    await settled();
    rows.set("gemini", { kind: "limits", key: "gemini", value: "2", ageMs: 5_000 }); // of another worker
    expect(first.get("limits", "gemini")).toBeUndefined();
    first.put("limits", "openai", 3);
    await clock.advance(60_000);
    await settled();
    expect([first.get("limits", "gemini"), first.ageMs("limits", "gemini")]).toEqual([2, 5_000]);
    await first.close();
    expect(rows.get("openai")).toEqual({ kind: "limits", key: "openai", value: "3", ageMs: 60_000 });
    expect(existsSync(join(folder, "learnt.json"))).toBe(false);
    const away = {
      read: () => Promise.reject(new Error("away")),
      put: () => Promise.reject(new Error("away")),
    };
    const second = await LearntStore.open({ ...{ folder, disk: systemDisk, clock }, learntRows: away });
    second.put("limits", "openai", 4);
    await second.close(); // nothing depends on it
  });

  it("writes 10 s after the first figure and then once a minute, so that a killed process loses little", async () => {
    const store = await open();
    store.put("limits", "a", 1);
    await clock.advance(9_000);
    expect(existsSync(join(folder, "learnt.json"))).toBe(false);
    await clock.advance(1_000);
    await until(() => existsSync(join(folder, "learnt.json")));
    await settled();
    store.put("limits", "b", 2);
    await clock.advance(59_000);
    expect((await open()).get("limits", "b")).toBeUndefined();
    await clock.advance(1_000);
    await until(() => readFileSync(join(folder, "learnt.json"), "utf8").includes('"b"'));
  });

  it("writes within a second what the next process must know, also what came during a write", async () => {
    const store = await open();
    store.put("limits", "a", 1);
    store.changedMuch();
    await clock.advance(1_000);
    await until(() => existsSync(join(folder, "learnt.json")));
    await settled();
    store.put("limits", "b", 2);
    store.changedMuch();
    await clock.advance(900);
    store.changedMuch(); // does not put the write off
    await clock.advance(100);
    store.put("limits", "c", 3); // the write is under way
    store.changedMuch();
    await until(() => readFileSync(join(folder, "learnt.json"), "utf8").includes('"b"'));
    await settled();
    await clock.advance(1_000);
    await until(() => readFileSync(join(folder, "learnt.json"), "utf8").includes('"c"'));
  });

  it("says once that its folder cannot be used, also if it can be used later, and keeps its figures in memory", async () => {
    const path = join(folder, "file");
    writeFileSync(path, "not a folder");
    const said: string[] = [];
    const store = await LearntStore.open({
      folder: path,
      disk: systemDisk,
      clock,
      onUnusable: (text) => said.push(text),
    });
    expect(said).toEqual([`${path} cannot be used (ENOTDIR)`]);
    store.put("limits", "a", 1);
    await clock.advance(10_000);
    store.put("limits", "a", 2);
    await store.close();
    expect(store.get("limits", "a")).toBe(2);
    expect(said).toHaveLength(1);
  });

  it("says that a folder which it would make cannot be made, and nothing of one that is not there yet", async () => {
    writeFileSync(join(folder, "file"), "not a folder");
    const said: string[] = [];
    const onUnusable = (text: string): number => said.push(text);
    const fresh = await LearntStore.open({
      folder: join(folder, "new"),
      disk: systemDisk,
      clock,
      onUnusable,
    });
    fresh.put("limits", "a", 1);
    await fresh.close();
    expect(said).toEqual([]);
    const denied: Disk = Object.assign(Object.create(systemDisk) as Disk, {
      makePrivateFolder: () => Promise.reject(Object.assign(new Error("no"), { code: "EACCES" })),
    });
    const store = await LearntStore.open({ folder: join(folder, "other"), disk: denied, clock, onUnusable });
    store.put("limits", "a", 1);
    await store.close();
    expect(said).toEqual([`${join(folder, "other")} cannot be used (EACCES)`]);
  });

  it("asks its sources before it writes", async () => {
    const store = await open();
    let answers = 0;
    store.source(() => store.put("latency", "a", answers));
    for (; answers < 5; answers += 1) store.changed();
    await store.close();
    expect((await open()).get("latency", "a")).toBe(5);
  });

  it("writes the rest when a source throws, at an interval and on close", async () => {
    const store = await open();
    store.source(() => {
      throw new Error("a fault of the source");
    });
    store.source(() => store.put("latency", "a", 5));
    store.changed();
    await clock.advance(10_000);
    await until(() => existsSync(join(folder, "learnt.json")));
    store.put("limits", "b", 6);
    await store.close();
    const second = await open();
    expect([second.get("latency", "a"), second.get("limits", "b")]).toEqual([5, 6]);
  });

  it("keeps what several engines put into one folder, of one entry what was put last", async () => {
    const stores = await Promise.all(Array.from({ length: 5 }, () => open()));
    stores.forEach((store, index) => {
      store.put("limits", `own-${index}`, index);
    });
    await clock.advance(5);
    stores[2]?.put("limits", "shared", "earlier");
    await clock.advance(5);
    stores[1]?.put("limits", "shared", "later");
    for (const store of stores) await store.close();
    const found = await open();
    expect([...found.keys("limits")].sort()).toEqual([
      ...Array.from({ length: 5 }, (_, index) => `own-${index}`),
      "shared",
    ]);
    expect(found.get("limits", "shared")).toBe("later");
  });

  it("makes a write again that another process has replaced at the same moment", async () => {
    let renames = 0;
    const raced: Disk = {
      ...systemDisk,
      rename: async (from, to) => {
        await systemDisk.rename(from, to);
        renames += 1;
        // As if the other process had read the file before this one wrote it.
        if (renames === 1) writeFileSync(to, '{"version":1,"entries":[["limits","theirs",1,5]]}');
      },
    };
    const own = await open(raced);
    own.put("limits", "ours", 2);
    await own.close();
    expect(renames).toBe(2);
    expect([...(await open()).keys("limits")].sort()).toEqual(["ours", "theirs"]);
  });

  it.each([
    ["damaged", '{"version":1,"entries":[["limits","a",1'],
    ["empty", ""],
    ["not JSON of perigee", '["limits"]'],
    ["of another version", '{"version":99,"entries":[["limits","a",1,0]]}'],
    ["full of other shapes", '{"version":1,"entries":[1,null,["limits"],["limits",2,3,4],{"a":1}]}'],
  ])("ignores and replaces a file that is %s", async (_, text) => {
    writeFileSync(join(folder, "learnt.json"), text);
    const store = await open();
    expect(store.keys("limits")).toEqual([]);
    store.put("limits", "b", 2);
    await store.close();
    expect((await open()).get("limits", "b")).toBe(2);
  });

  it("never fails, for any failures of the disk, and writes when it can again", async () => {
    let isBroken = true;
    const broken: Disk = {
      ...systemDisk,
      rename: (from, to) => (isBroken ? Promise.reject(new Error("no")) : systemDisk.rename(from, to)),
    };
    const store = await open(broken);
    store.put("limits", "a", 1);
    await clock.advance(10_000);
    await settled();
    isBroken = false;
    await store.close();
    expect((await open()).get("limits", "a")).toBe(1);
    const noFolder = join(folder, "file");
    writeFileSync(noFolder, "");
    const nowhere = await LearntStore.open({ folder: noFolder, disk: systemDisk, clock });
    nowhere.put("limits", "a", 1);
    await nowhere.close();
    expect(nowhere.get("limits", "a")).toBe(1);
  });

  it("keeps at most 2,000 entries, the ones put last, and no value above 8 KiB", async () => {
    const store = await open();
    for (let each = 0; each < 2_100; each += 1) {
      store.put("limits", `k${each}`, each);
      await clock.advance(1);
    }
    store.put("limits", "large", "x".repeat(10_000));
    expect(store.get("limits", "large")).toBeUndefined();
    await store.close();
    const found = await open();
    expect(found.keys("limits")).toHaveLength(2_000);
    expect(found.get("limits", "k99")).toBeUndefined();
    expect(found.get("limits", "k2099")).toBe(2_099);
  });

  it("keeps at most 1 MiB", async () => {
    const store = await open();
    for (let each = 0; each < 300; each += 1) store.put("limits", `k${each}`, "x".repeat(8_000));
    await store.close();
    expect(readFileSync(join(folder, "learnt.json")).byteLength).toBeLessThanOrEqual(1_050_000);
    expect((await open()).get("limits", "k299")).toBeDefined();
  });

  it("does not let an entry from the future outlive those of today", async () => {
    const future = clock.wallMs() + 1e12;
    writeFileSync(
      join(folder, "learnt.json"),
      JSON.stringify({ version: 1, entries: [["limits", "a", "old", future]] }),
    );
    const store = await open();
    store.put("limits", "a", "new");
    await store.close();
    expect((await open()).get("limits", "a")).toBe("new");
  });

  it("removes what a process left that was killed while it wrote, after an hour", async () => {
    mkdirSync(folder, { recursive: true });
    const torn = join(folder, "learnt.json.left");
    writeFileSync(torn, "{");
    await open();
    expect(existsSync(torn)).toBe(true);
    await clock.advance(Math.max(0, 1e13 - clock.wallMs()));
    await open();
    expect(existsSync(torn)).toBe(false);
  });

  it("writes nothing without a folder", async () => {
    const store = await LearntStore.open({ folder: undefined, disk: systemDisk, clock });
    store.put("limits", "a", 1);
    expect(store.get("limits", "a")).toBe(1);
    await store.close();
  });
});

describe("the name of an account", () => {
  it("holds name, address and a fingerprint, and neither key nor password", () => {
    const name = accountName({
      name: "local",
      baseUrl: "http://user:password@127.0.0.1:8000/v1/?key=query",
      key: "sk-canary",
    });
    expect(name).toMatch(/^local http:\/\/127\.0\.0\.1:8000\/v1 [0-9a-f]{16}$/);
  });

  it("differs by key and by address", () => {
    const names = [
      accountName({ name: "a", baseUrl: "https://x/v1", key: "1" }),
      accountName({ name: "a", baseUrl: "https://x/v1", key: "2" }),
      accountName({ name: "a", baseUrl: "https://x/v1" }),
      accountName({ name: "a", baseUrl: "https://x/v2", key: "1" }),
    ];
    expect(new Set(names).size).toBe(4);
    expect(accountName({ name: "echo", baseUrl: "" })).toBe("echo - -");
  });
});

/** Real files need turns of the event loop that virtual time does not give. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await settled();
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
