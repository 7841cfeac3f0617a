/** The audit log: what is written, what is found when somebody changed it, and what survives. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { systemDisk } from "../../src/disk.ts";
import { verifyAudit } from "../../src/store/audit/audit_check.ts";
import { type AuditLock, openAuditLog } from "../../src/store/audit/audit_log.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";
import { createRandom } from "../../src/testing/random.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-audit-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const free = (): AuditLock => ({ tryTake: () => true, release: () => undefined, close: () => undefined });
const DAY_MS = 86_400_000;
const taken = (taskId: string) =>
  ({ kind: "task.created", project: "acme", keyId: "key_1", taskId }) as const;

function setUp(disk = new MemoryDisk(), clock = new FakeClock()) {
  const place = { dataDir: "data", clock, disk };
  return {
    ...{ clock, disk, place },
    open: () => openAuditLog({ ...place, lock: free() }),
    text: (month = "2026-01") => new TextDecoder().decode(disk.bytes(`data/audit-${month}.jsonl`)),
    /** Writes the file again, as somebody with an editor would. */
    edit: async (change: (lines: string[]) => string[], month = "2026-01") => {
      const path = `data/audit-${month}.jsonl`;
      const lines = new TextDecoder().decode(disk.bytes(path)).split("\n").slice(0, -1);
      const bytes = new TextEncoder().encode(
        change(lines)
          .map((line) => `${line}\n`)
          .join(""),
      );
      const file = await disk.open(path, "write");
      await file.truncate(0);
      await file.write(bytes, 0);
      await file.sync();
      await file.close();
    },
    verify: () => verifyAudit(place),
  };
}

describe("the audit log", () => {
  it("writes a line for each event, chained, with only the fields of its kind", async () => {
    const { open, text, verify, clock } = setUp();
    const log = await open();
    log.note({ kind: "key.created", project: "acme", keyId: "key_1" });
    log.note({ ...taken("t1"), prompt: "secret", key: "pgk_live_secret" } as Parameters<typeof log.note>[0]);
    await clock.advance(200);
    await log.flush();
    log.note({ kind: "file.uploaded", project: "acme", keyId: "key_1", fileId: "f".repeat(1_000) });
    log.note({ kind: "config.changed", setting: "limits" });
    await log.close();
    const lines = text()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      {
        n: 1,
        at: "2026-01-01T00:00:00.000Z",
        event: "key.created",
        project: "acme",
        key: "key_1",
        prev: "0".repeat(64),
      },
      { n: 2, event: "task.created", task: "t1", key: "key_1", prev: lines[0].hash },
      {
        n: 3,
        at: "2026-01-01T00:00:00.200Z",
        event: "file.uploaded",
        file: "f".repeat(200),
        prev: lines[1].hash,
      },
      { n: 4, event: "config.changed", setting: "limits", prev: lines[2].hash },
    ]);
    expect(text()).not.toContain("secret");
    expect(await verify()).toEqual({ isWhole: true, lines: 4, firstLine: 1, lastHash: lines[3].hash });
  });

  it("goes on with the chain after closing and opening again", async () => {
    const { open, verify } = setUp();
    for (const id of ["a", "b", "c"]) {
      const log = await open();
      log.note(taken(id));
      await log.close();
      await log.close();
    }
    expect(await verify()).toMatchObject({ isWhole: true, lines: 3 });
  });

  it("counts failed logins and writes them once a minute, or when it is closed", async () => {
    const { open, text, clock, disk } = setUp();
    const log = await open();
    for (let times = 0; times < 1_000; times += 1) log.note({ kind: "login.failed" });
    await clock.advance(59_999);
    expect(disk.bytes("data/audit-2026-01.jsonl")).toBeUndefined();
    await clock.advance(100);
    await log.flush();
    log.note({ kind: "login.failed" });
    await log.close();
    expect(
      text()
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toMatchObject([
      { n: 1, event: "login.failed", count: 1_000 },
      { n: 2, event: "login.failed", count: 1 },
    ]);
  });

  it("syncs events that come together once", async () => {
    const { open, disk, verify, clock } = setUp();
    const log = await open();
    let syncs = 0;
    const real = disk.open.bind(disk);
    disk.open = async (path, mode) => {
      const file = await real(path, mode);
      const sync = file.sync.bind(file);
      file.sync = () => {
        syncs += 1;
        return sync();
      };
      return file;
    };
    for (let index = 0; index < 900; index += 1) log.note(taken(String(index)));
    await clock.advance(200);
    await log.flush();
    expect(syncs).toBe(1);
    await log.close();
    expect(await verify()).toMatchObject({ isWhole: true, lines: 900 });
  });

  it("finds a line that was changed, taken out, put in, doubled or moved, by its file and number", async () => {
    const edits: Readonly<Record<string, (lines: string[]) => string[]>> = {
      changed: (lines) => lines.with(2, lines[2]!.replace("acme", "evil")),
      "cut short": (lines) => lines.with(2, lines[2]!.slice(0, 40)),
      "no line at all": (lines) => lines.with(2, ""),
      "taken out": (lines) => lines.toSpliced(2, 1),
      "put in": (lines) => lines.toSpliced(2, 0, lines[0]!),
      doubled: (lines) => lines.toSpliced(2, 0, lines[1]!),
      moved: (lines) => [lines[0]!, lines[1]!, lines[3]!, lines[2]!, lines[4]!],
    };
    for (const [name, change] of Object.entries(edits)) {
      const { open, edit, verify } = setUp();
      const log = await open();
      for (const id of ["a", "b", "c", "d", "e"]) log.note(taken(id));
      await log.close();
      await edit(change);
      expect([name, await verify()]).toMatchObject([
        name,
        { isWhole: false, file: "data/audit-2026-01.jsonl", line: 3 },
      ]);
    }
  });

  it("reads lines of any text, wherever its reads divide a character", async () => {
    for (let shift = 0; shift < 9; shift += 1) {
      const { open, disk, verify } = setUp();
      const log = await open();
      log.note(taken("x".repeat(shift)));
      for (let line = 0; line < 600; line += 1) log.note(taken("試ä😀".repeat(50)));
      await log.close();
      expect(disk.bytes("data/audit-2026-01.jsonl")?.byteLength).toBeGreaterThan(6 * 65_536);
      expect(await verify()).toMatchObject({ isWhole: true, lines: 601 });
    }
  });

  it("says where the chain begins now when its beginning was removed", async () => {
    const { open, edit, verify } = setUp();
    const log = await open();
    for (const id of ["a", "b", "c"]) log.note(taken(id));
    await log.close();
    await edit((lines) => lines.slice(1));
    expect(await verify()).toMatchObject({ isWhole: true, firstLine: 2 });
  });

  it("has a file for each month, one chain, and none that is older than 13 months", async () => {
    const { open, disk, text, verify, clock } = setUp();
    const log = await open();
    for (let month = 0; month < 16; month += 1) {
      log.note(taken(String(month)));
      await log.flush();
      await clock.advance(30.5 * DAY_MS);
    }
    expect(disk.bytes("data/audit-2026-01.jsonl")).toBeUndefined();
    expect(JSON.parse(text("2026-03")).n).toBe(3);
    await log.close();
    const again = await open();
    again.note(taken("last"));
    await again.close();
    expect(await verify()).toMatchObject({ isWhole: true, lines: 14, firstLine: 4 });
  });

  it("removes nothing because the wall clock is years ahead when the log is opened", async () => {
    const { open, disk, clock } = setUp();
    const log = await open();
    for (let month = 0; month < 13; month += 1) {
      log.note(taken(String(month)));
      await log.flush();
      await clock.advance(30.5 * DAY_MS);
    }
    await log.close();
    const before = disk.paths.filter((path) => path.includes("audit-"));
    expect(before.length).toBeGreaterThan(10);
    const ahead = setUp(disk, new FakeClock({ wallMs: Date.UTC(2029, 5, 5) }));
    const wrong = await ahead.open();
    wrong.note(taken("wrong"));
    await wrong.close();
    expect(disk.paths).toEqual(expect.arrayContaining(before));
  });

  it("goes on behind the newest file when the wall clock was put back", async () => {
    const { disk, verify, open } = setUp();
    const ahead = setUp(disk, new FakeClock({ wallMs: Date.UTC(2026, 2, 5) }));
    for (const opened of [await ahead.open(), await open()]) {
      opened.note(taken("a"));
      await opened.close();
    }
    expect(ahead.text("2026-03").trim().split("\n")).toHaveLength(2);
    expect(await verify()).toMatchObject({ isWhole: true, lines: 2 });
  });

  it("fault 26: cuts a torn tail before it goes on, and has every event that was flushed", async () => {
    for (let seed = 0; seed < 20; seed += 1) {
      const { open, disk, verify } = setUp();
      const log = await open();
      for (let index = 0; index < 10; index += 1) log.note(taken(String(index)));
      await log.flush();
      for (let index = 0; index < 50; index += 1) log.note(taken(String(index)));
      const path = "data/audit-2026-01.jsonl";
      const size = disk.bytes(path)!.byteLength;
      const torn = await disk.open(path, "write");
      await torn.write(new TextEncoder().encode('{"n":11,"at":"2026-01-01T00:00'), size); // what a killed process left
      await torn.close();
      disk.crash({ powerCut: true, random: createRandom(seed) });
      expect(await verify()).toMatchObject({ isWhole: true, lines: 10 });
      const next = await open();
      next.note(taken("next"));
      await next.close();
      expect(await verify()).toMatchObject({ isWhole: true, lines: 11 });
    }
  });

  it("fault 35: keeps events while the disk is full, and writes them when there is room", async () => {
    const { place, disk, verify, clock } = setUp();
    const told: unknown[] = [];
    const log = await openAuditLog({ ...place, lock: free(), onFailure: (error) => told.push(error) });
    log.note(taken("a"));
    await log.flush();
    disk.setFull(100);
    log.note(taken("b"));
    await clock.advance(200);
    expect(told).toMatchObject([{ code: "disk_full" }]);
    await expect(log.flush()).rejects.toMatchObject({ code: "disk_full" });
    expect(await verify()).toMatchObject({ isWhole: true, lines: 1 });
    disk.setFull(Number.POSITIVE_INFINITY);
    log.note(taken("c"));
    await clock.advance(60_050);
    await log.flush();
    expect(await verify()).toMatchObject({ isWhole: true, lines: 3 });
    await log.close();
  });

  it("counts the events that found no place while it could not write", async () => {
    const { open, disk, text } = setUp();
    const log = await open();
    disk.setFull(0);
    for (let index = 0; index < 10_007; index += 1) log.note(taken("a"));
    await expect(log.flush()).rejects.toMatchObject({ code: "disk_full" });
    disk.setFull(Number.POSITIVE_INFINITY);
    await log.close();
    const lines = text().trim().split("\n");
    expect(lines).toHaveLength(10_001);
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ event: "events.lost", count: 7 });
  });

  it("fault 37: does not write on after a sync that failed", async () => {
    const { open, disk } = setUp();
    const log = await open();
    log.note(taken("a"));
    disk.failSync();
    await expect(log.flush()).rejects.toMatchObject({ code: "store_failed" });
    log.note(taken("b"));
    await expect(log.close()).rejects.toMatchObject({ code: "store_failed" });
  });

  it("is written by several processes at once, as one chain that only its owner can read", async () => {
    const dataDir = mkdtempSync(join(root, "data-"));
    const dist = new URL("../../dist/", import.meta.url).href;
    const writers = [1, 2, 3].map((writer) => {
      const code = `
        const { openAuditLog } = await import("${dist}store/audit/audit_log.js");
        const { systemClock: clock } = await import("${dist}clock.js");
        const { systemDisk: disk } = await import("${dist}disk.js");
        const log = await openAuditLog({ dataDir: ${JSON.stringify(dataDir)}, clock, disk });
        for (let index = 0; index < 60; index += 1) {
          log.note({ kind: "task.created", project: "p${writer}", taskId: String(index) });
          if (index % 3 === 0) await log.flush();
        }
        await log.close();`;
      return spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: "inherit" });
    });
    const codes = await Promise.all(writers.map(async (writer) => (await once(writer, "exit"))[0]));
    expect(codes).toEqual([0, 0, 0]);
    const place = { dataDir, disk: systemDisk, clock: systemClock };
    expect(await verifyAudit(place)).toMatchObject({ isWhole: true, lines: 180 });
    const names = readdirSync(dataDir).toSorted();
    expect(names).toEqual([expect.stringMatching(/^audit-\d{4}-\d\d\.jsonl$/), "audit.lock"]);
    for (const name of names) expect(statSync(join(dataDir, name)).mode & 0o777).toBe(0o600);
  });

  it("waits for a process that is writing", async () => {
    const { place, verify, clock } = setUp();
    let refusals = 3;
    const log = await openAuditLog({ ...place, lock: { ...free(), tryTake: () => --refusals < 0 } });
    log.note(taken("a"));
    await clock.runUntilSettled(log.flush());
    expect(await verify()).toMatchObject({ isWhole: true, lines: 1 });
    await log.close();
  });
});

describe("an audit log whose files another process keeps locked", () => {
  const locked = { tryTake: () => false, release: () => undefined, close: () => undefined };

  it("closes within half a second, also while a group waits, and says that it is locked", async () => {
    const { place, clock } = setUp();
    const log = await openAuditLog({ ...place, lock: locked });
    log.note(taken("t1"));
    await clock.advance(1_000); // a group waits for the lock
    const startMs = clock.nowMs();
    const closed = log.close();
    await expect(clock.runUntilSettled(closed)).rejects.toMatchObject({ code: "conflict" });
    expect(clock.nowMs() - startMs).toBeLessThanOrEqual(510);
  });

  it("writes what waits when they are free by then", async () => {
    const { place, clock, text } = setUp();
    let tries = 0;
    const log = await openAuditLog({
      ...place,
      lock: {
        ...locked,
        tryTake: () => {
          tries += 1;
          return tries > 120;
        },
      },
    });
    log.note(taken("t1"));
    await clock.advance(1_200);
    await clock.runUntilSettled(log.close());
    expect(text()).toContain("t1");
  });
});
