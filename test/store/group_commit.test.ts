/** Group commit on a real database whose steps can be made to fail and are counted. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GroupCommit } from "../../src/store/group_commit.ts";
import type { OutputFiles } from "../../src/store/packed/group_outputs.ts";
import { packChanges } from "../../src/store/packed/pack_changes.ts";
import type { ReadRequest, StoreReply, WriteRequest } from "../../src/store/packed/requests.ts";
import type { StoredRecord } from "../../src/store/records.ts";
import {
  loadSqlite,
  type OpenDatabase,
  type SqliteDatabase,
  type SqliteValue,
} from "../../src/store/sqlite_database.ts";
import { SqliteTables } from "../../src/store/sqlite_tables.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-group-"));
let openDatabase: OpenDatabase;
let files = 0;
beforeAll(async () => {
  openDatabase = await loadSqlite();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

function setUp(reserveBytes = 1, outputs?: OutputFiles) {
  files += 1;
  const real = openDatabase(join(root, `${files}.sqlite`));
  const state = {
    failures: [] as { readonly at: string; readonly errcode: number }[],
    commits: 0,
    reserve: reserveBytes > 0,
    hasRoom: false,
  };
  const step = (sql: string) => {
    if (sql === state.failures[0]?.at)
      throw Object.assign(new Error("made to fail"), { errcode: state.failures.shift()?.errcode });
    if (sql === "COMMIT") state.commits += 1;
  };
  const database: SqliteDatabase = {
    exec: (sql) => real.exec(sql),
    close: () => real.close(),
    prepare: (sql) => {
      const statement = real.prepare(sql);
      const run = (...values: SqliteValue[]) => {
        step(sql);
        return statement.run(...values);
      };
      return {
        run,
        get: (...values) => statement.get(...values),
        all: (...values) => statement.all(...values),
      };
    },
  };
  const reserve = {
    release: () => {
      const wasHeld = state.reserve;
      state.reserve = false;
      return wasHeld;
    },
    take: () => {
      state.reserve ||= state.hasRoom;
      return state.reserve;
    },
  };
  const tables = new SqliteTables(database);
  return { state, real, commits: new GroupCommit(tables, reserve, outputs), tables };
}

const append = (id: number, text: string, descriptor?: number): WriteRequest => {
  const bytes = new TextEncoder().encode(text);
  const outputs =
    descriptor === undefined
      ? undefined
      : { taskIds: ["a"], descriptors: [descriptor], positions: [0], sizes: [bytes.length], bytes };
  return {
    kind: "append",
    id,
    packed: { taskIds: ["a"], wallMs: [1], sizes: [bytes.length], bytes, outputs },
  };
};
const putTask = (id: number, name: string): WriteRequest => ({
  kind: "putTask",
  id,
  task: { id: `task ${id}`, name, createdWallMs: 1, body: "" },
});
const put = (id: number, body: number): WriteRequest => ({
  kind: "change",
  id,
  packed: packChanges([
    {
      kind: "put",
      record: { collection: "c", id: "a", project: "p", parent: "", createdWallMs: 1, body: String(body) },
    },
  ]),
});
const read = (id: number): ReadRequest => ({
  kind: "record",
  id,
  project: "p",
  collection: "c",
  recordId: "a",
});
/** Of the records that were found. */
const bodies = (replies: readonly StoreReply[]) =>
  replies.flatMap((reply) =>
    reply.ok && reply.value !== undefined ? [Number((reply.value as StoredRecord).body)] : [],
  );
const journal = (tables: SqliteTables): string[] =>
  tables
    .page({ taskId: "a", afterSequence: 0 })
    .entries.map((entry) => `${entry.sequence}:${new TextDecoder().decode(entry.records)}`);
const codes = (replies: readonly StoreReply[]) => replies.map((reply) => (reply.ok ? "ok" : reply.code));

const FULL = 13;
const IO_FSYNC = 1034;

describe("group commit", () => {
  it("commits writes that arrive together in one transaction, with the reads between them", async () => {
    const { state, commits, tables } = setUp();
    const replies = await commits.handle([
      ...Array.from({ length: 200 }, (_, index) => append(index, "x")),
      { kind: "task", id: 200, taskId: "none" },
      append(201, "y"),
    ]);
    expect(replies.map((reply) => reply.id)).toEqual(Array.from({ length: 202 }, (_, index) => index));
    expect(state.commits).toBe(1);
    expect(tables.page({ taskId: "a", afterSequence: 198 }).entries).toHaveLength(3);
  });

  it("answers a read with what was called before it and not after, in one commit", async () => {
    const { state, commits } = setUp();
    const requests = Array.from({ length: 100 }, (_, index) => [put(2 * index, index), read(2 * index + 1)]);
    expect(bodies(await commits.handle(requests.flat()))).toEqual(
      Array.from({ length: 100 }, (_, index) => index),
    );
    expect(state.commits).toBe(1);
    await commits.handle([read(1), read(2)]);
    expect(state.commits).toBe(1);
  });

  it("fault 35: answers a read without the writes that a full disk undid", async () => {
    const { state, commits } = setUp(0);
    await commits.handle([put(0, 1)]);
    state.failures.push({ at: "COMMIT", errcode: FULL });
    const replies = await commits.handle([read(1), put(2, 2), read(3), put(4, 3)]);
    expect(codes(replies)).toEqual(["ok", "disk_full", "ok", "disk_full"]);
    expect(bodies(replies)).toEqual([1, 1]);
    expect(bodies(await commits.handle([put(2, 2), read(3), put(4, 3), read(5)]))).toEqual([2, 3]);
  });

  it("fault 35: makes the first record again after its table was undone with it", async () => {
    const { state, commits } = setUp(0);
    state.failures.push({ at: "COMMIT", errcode: FULL });
    expect(codes(await commits.handle([put(1, 1), read(2)]))).toEqual(["disk_full", "ok"]);
    expect(bodies(await commits.handle([read(1)]))).toEqual([]);
    expect(bodies(await commits.handle([put(1, 7), read(2)]))).toEqual([7]);
  });

  it("fault 37: answers no read from a transaction whose sync failed", async () => {
    const { state, commits } = setUp();
    state.failures.push({ at: "COMMIT", errcode: IO_FSYNC });
    expect(codes(await commits.handle([put(1, 1), read(2), put(3, 3)]))).toEqual([
      "store_failed",
      "store_failed",
      "store_failed",
    ]);
  });

  it("fault 39: damage that a read finds is its own answer, and the writes beside it are committed", async () => {
    const { commits, real } = setUp();
    await commits.handle([put(0, 1)]);
    real.exec("UPDATE records SET body = 'x'");
    const replies = await commits.handle([append(1, "x"), read(2), append(3, "y")]);
    expect(codes(replies)).toEqual(["ok", "store_damaged", "ok"]);
  });

  it("bounds a transaction in bytes", async () => {
    const { state, commits } = setUp();
    const large = "x".repeat(3 << 20);
    await commits.handle([append(0, large), append(1, large), append(2, large), append(3, large)]);
    expect(state.commits).toBe(2);
  });

  it("refuses a taken name without touching its neighbours", async () => {
    const { state, commits } = setUp();
    expect(
      codes(await commits.handle([putTask(1, "n"), append(2, "x"), putTask(3, "n"), append(4, "y")])),
    ).toEqual(["ok", "ok", "conflict", "ok"]);
    expect(state.commits).toBe(1);
  });

  it("fault 35: a full disk frees the reserve and the same transaction is done once more", async () => {
    const { state, commits, tables } = setUp();
    state.failures.push({ at: "COMMIT", errcode: FULL });
    expect(codes(await commits.handle([append(1, "paid"), append(2, "for")]))).toEqual(["ok", "ok"]);
    expect(state.reserve).toBe(false);
    expect(journal(tables)).toEqual(["1:paid", "2:for"]);
  });

  it("fault 35: without a reserve left nothing of a call happens, and it may be repeated", async () => {
    const { state, commits, tables } = setUp(0);
    await commits.handle([append(0, "before")]);
    state.failures.push({ at: "COMMIT", errcode: FULL }, { at: "BEGIN IMMEDIATE", errcode: FULL });
    expect(codes(await commits.handle([append(1, "again")]))).toEqual(["disk_full"]);
    expect(codes(await commits.handle([append(1, "again")]))).toEqual(["disk_full"]);
    expect(codes(await commits.handle([append(1, "again")]))).toEqual(["ok"]);
    expect(journal(tables)).toEqual(["1:before", "2:again"]);
    state.hasRoom = true;
    await commits.handle([append(2, "later")]);
    expect(state.reserve).toBe(true);
  });

  it("fault 37: after an fsync that failed nothing is tried again, and every call is store_failed", async () => {
    const { state, commits } = setUp();
    state.failures.push({ at: "COMMIT", errcode: IO_FSYNC });
    expect(codes(await commits.handle([append(1, "x"), append(2, "y")]))).toEqual([
      "store_failed",
      "store_failed",
    ]);
    const before = state.commits;
    expect(codes(await commits.handle([append(3, "z"), { kind: "task", id: 4, taskId: "a" }]))).toEqual([
      "store_failed",
      "store_failed",
    ]);
    expect(state.commits).toBe(before);
  });

  it("keeps a call whose output cannot be written out of the transaction of its neighbours, whose outputs are written and synced", async () => {
    for (const full of [6, 7, 8]) {
      const done: string[] = [];
      const files = {
        write: (descriptor: number, bytes: Uint8Array) => {
          if (descriptor === full) throw Object.assign(new Error("made to fail"), { code: "ENOSPC" });
          done.push(`${descriptor}:${Buffer.from(bytes).toString()}`);
        },
        sync: async (descriptor: number) => void done.push(`${descriptor} synced`),
      };
      const { commits, tables } = setUp(1, files);
      const calls = [append(1, "x", 6), append(2, "y", 7), append(3, "z", 8)];
      const replies = await commits.handle([...calls, append(4, "w")]);
      const lost = full - 6;
      expect(codes(replies)).toEqual(["ok", "ok", "ok", "ok"].with(lost, "output_unwritable"));
      expect(replies[lost]).toMatchObject({ details: { operation: "write", systemCode: "ENOSPC" } });
      const kept = ["6:x", "7:y", "8:z"].toSpliced(lost, 1);
      expect(done.toSorted()).toEqual([...kept, ...kept.map((text) => `${text[0]} synced`)].toSorted());
      expect(journal(tables).map((row) => row.slice(2))).toEqual([...kept.map((text) => text[2]), "w"]);
    }
  });

  it("fault 37: a call whose output could not be synced is not acknowledged", async () => {
    const synced: number[] = [];
    const files = {
      write: () => undefined,
      sync: async (descriptor: number) => {
        synced.push(descriptor);
        return descriptor === 7 ? Object.assign(new Error("made to fail"), { code: "EIO" }) : undefined;
      },
    };
    const { commits } = setUp(1, files);
    const replies = await commits.handle([append(1, "x", 6), append(2, "y", 7)]);
    expect(codes(replies)).toEqual(["ok", "output_unwritable"]);
    expect(replies[1]).toMatchObject({ details: { operation: "sync", systemCode: "EIO" } });
    expect(synced).toEqual([6, 7]);
  });

  it("fault 37: an fsync that failed without space is not a full disk", async () => {
    const { state, commits } = setUp();
    state.failures.push({ at: "COMMIT", errcode: IO_FSYNC });
    const [reply] = await commits.handle([append(1, "x")]);
    expect(reply).toMatchObject({ ok: false, code: "store_failed" });
    expect(state.reserve).toBe(true);
  });
});
