/** Bytes of the work log that are wrong, not missing: each is refused or has no effect, and is never read as something else. */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { eachRecord, LogRecords, readHeader, recordOf, writeEntry } from "../../src/log/records.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { intentOf, outcomeOf, stateOf, text, work } from "../../src/testing/work_log_calls.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-damage-"));
const clock = new FakeClock();
const NAMES = ["journal.sqlite", "folder.json"];
let folders = 0;
let whole: unknown;
let early: Map<string, Buffer>;
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A folder that was closed, with 60 tasks in 60 entries; `early` holds its files as they were after 20. */
beforeAll(async () => {
  const dataDir = join(root, "whole");
  for (const [first, end] of [
    [0, 20],
    [20, 60],
  ] as const) {
    const store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    const log = await openWorkLog({ store, clock });
    for (let index = first; index < end; index += 1) {
      const { task } = log.accept(
        work(`task ${index}`, { request: text("a prompt ".repeat(300)), items: 3 }),
      );
      void log.intend(intentOf(task, 1, 1));
      await log.end(outcomeOf(task, 0, { usd: 1 }), text("an answer ".repeat(300)));
    }
    whole = await stateOf(log);
    await log.close();
    await store.close();
    if (end === 20) early = new Map(NAMES.map((name) => [name, readFileSync(join(dataDir, name))]));
  }
}, 60_000);

/** A copy of the folder, its database changed. */
function copyWith(change: (database: Buffer) => Buffer): string {
  folders += 1;
  const dataDir = mkdtempSync(join(root, `${folders}-`));
  for (const name of NAMES) copyFileSync(join(root, "whole", name), join(dataDir, name));
  const path = join(dataDir, "journal.sqlite");
  writeFileSync(path, change(readFileSync(path)));
  return dataDir;
}

/** What is read of all that the folder has, or the code of the refusal. */
async function readAll(dataDir: string): Promise<unknown> {
  let store: Awaited<ReturnType<typeof openSqliteStore>> | undefined;
  try {
    store = await openSqliteStore({ dataDir, reserveBytes: 0 });
    const log = await openWorkLog({ store, clock });
    try {
      for (let task = 1; task <= 60; task += 1) {
        const row = await log.rows.loggedTask(task);
        const [answer] = await log.rows.loggedAnswers(task, 0, 1);
        if (row === undefined || answer === undefined) return "missing";
        expect(new TextDecoder().decode(row.request)).toBe("a prompt ".repeat(300));
        expect(new TextDecoder().decode(answer.text)).toBe("an answer ".repeat(300));
        expect(recordOf("outcome", answer.record)).toMatchObject({ task, item: 0, usd: 1 });
      }
      return await stateOf(log);
    } finally {
      await log.close();
    }
  } catch (error) {
    if (error instanceof PerigeeError) return error.code;
    throw error;
  } finally {
    await store?.close().catch(() => undefined);
  }
}

describe("a work log with wrong bytes", () => {
  it("is read whole when nothing is wrong", async () => {
    expect(await readAll(copyWith((bytes) => bytes))).toEqual(whole);
  });

  it.each(["flipped", "zero", "old", "old page"] as const)(
    "is refused, or not touched by it: %s",
    async (kind) => {
      await fc.assert(
        fc.asyncProperty(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), async (share) => {
          const unit = kind === "old page" ? 4_096 : 512;
          const placeIn = (bytes: Buffer): number => Math.floor((share * bytes.byteLength) / unit) * unit;
          const dataDir = copyWith((bytes) => {
            const changed = Buffer.from(bytes);
            const before = early.get("journal.sqlite") ?? bytes;
            const at = placeIn(before);
            if (kind === "flipped") changed[Math.floor(share * bytes.byteLength)]! ^= 0x10;
            else if (kind === "zero") changed.fill(0, placeIn(bytes), placeIn(bytes) + unit);
            else before.copy(changed, at, at, at + unit);
            return changed;
          });
          const found = await readAll(dataDir);
          rmSync(dataDir, { recursive: true, force: true });
          if (typeof found === "string")
            expect([
              "store_damaged",
              "store_failed",
              "missing",
              "data_dir_older",
              "data_dir_newer",
            ]).toContain(found);
          else expect(found).toEqual(whole);
        }),
        { numRuns: 25 },
      );
    },
    120_000,
  );

  const execute = async (sql: string): Promise<unknown> => {
    const dataDir = copyWith((bytes) => bytes);
    const database = (await loadSqlite())(join(dataDir, "journal.sqlite"));
    database.exec(sql);
    database.close();
    return readAll(dataDir);
  };

  it.each([
    ["an entry in the middle is gone", "DELETE FROM log_entries WHERE sequence = 30"],
    ["the first entry is gone", "DELETE FROM log_entries WHERE sequence = 1"],
    ["the last entries are gone", "DELETE FROM log_entries WHERE sequence > 50"],
    ["the last entry is gone", "DELETE FROM log_entries WHERE sequence = 60"],
    ["all entries are gone", "DELETE FROM log_entries"],
    ["an entry has another's number", "UPDATE log_entries SET sequence = 100 WHERE sequence = 60"],
    [
      "two entries are exchanged",
      "UPDATE log_entries SET records = (SELECT records FROM log_entries WHERE sequence = 5) WHERE sequence = 6",
    ],
    ["an entry is torn", "UPDATE log_entries SET records = substr(records, 1, 60) WHERE sequence = 60"],
    ["a name is gone", "DELETE FROM log_names"],
    ["a name is another", "UPDATE log_names SET text = 'other'"],
    ["an answer is another item's", "UPDATE log_answers SET item = 9 WHERE task = 7 AND item = 0"],
    [
      "a request is another task's",
      "UPDATE log_tasks SET request = (SELECT request || 'x' FROM log_tasks WHERE number = 3) WHERE number = 4",
    ],
    ["a body is another's", "UPDATE log_tasks SET body = '{}' WHERE number = 4"],
  ])("is refused: %s", async (_name, sql) => {
    expect(await execute(sql)).toBe("store_damaged");
  });
});

describe("an entry", () => {
  it("is read as it was written, or refused at every other length", () => {
    const records = new LogRecords();
    records.add("intent", intentOf(7, 3, 2));
    records.add("doneBits", { task: 7, first: 2_048, bits: new Uint8Array(256).fill(0xa5) });
    records.add("final", { task: 9 });
    const moment = clock.moment();
    const entry = writeEntry({ firstSequence: 3, nextTask: 12, names: 5, moment }, [records]);
    expect(readHeader(entry)).toEqual({ firstSequence: 3, nextTask: 12, names: 5, moment });
    const borders = [];
    for (let length = 0; length <= entry.byteLength; length += 1) {
      const found: string[] = [];
      try {
        readHeader(entry.subarray(0, length));
        eachRecord(entry.subarray(0, length), ({ is }) => found.push(is));
        borders.push(found.join());
      } catch (error) {
        expect(error).toMatchObject({ code: "store_damaged" });
      }
    }
    expect(borders).toEqual(["", "intent", "intent,doneBits", "intent,doneBits,final"]);
  });

  it("of an unknown kind of record is refused", () => {
    const entry = writeEntry({ firstSequence: 1, nextTask: 1, names: 0, moment: clock.moment() }, []);
    for (const kind of [0, 200]) {
      const bytes = Buffer.concat([entry, Buffer.of(kind)]);
      expect(() => eachRecord(bytes, () => undefined)).toThrow(/unknown kind/);
    }
  });

  it("keeps every field at its bounds, and counts that pass theirs stop there", () => {
    for (const attempts of [0, 1, 65_534, 65_535, 65_536, 1e9]) {
      const records = new LogRecords();
      const outcome = {
        ...outcomeOf(2 ** 40, 0xffff_fffe, { attempts, usd: -0.1 }),
        textBytes: 0xffff_ffff,
        textCrc32: 1,
        isLine: 1,
      };
      records.add("outcome", outcome);
      const read = recordOf("outcome", records.bytes());
      expect(read).toMatchObject({ ...outcome, attempts: Math.min(attempts, 65_535) });
    }
  });
});
