/** Group commit on a real database whose steps can be made to fail and are counted. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GroupCommit } from "../../src/store/group_commit.ts";
import type { StoreReply, WriteRequest } from "../../src/store/requests.ts";
import { loadSqlite, type OpenDatabase, type SqliteDatabase } from "../../src/store/sqlite_database.ts";
import { SqliteTables } from "../../src/store/sqlite_tables.ts";

const root = mkdtempSync(join(tmpdir(), "perigee-group-"));
let openDatabase: OpenDatabase;
let files = 0;
beforeAll(async () => {
  openDatabase = await loadSqlite();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

function setUp(reserveBytes = 1) {
  files += 1;
  const real = openDatabase(join(root, `${files}.sqlite`));
  const state = {
    failures: [] as { readonly at: string; readonly errcode: number }[],
    commits: 0,
    reserve: reserveBytes > 0,
    hasRoom: false,
  };
  const database: SqliteDatabase = {
    ...{ prepare: (sql) => real.prepare(sql), close: () => real.close() },
    exec: (sql) => {
      if (sql === state.failures[0]?.at) {
        throw Object.assign(new Error("made to fail"), { errcode: state.failures.shift()?.errcode });
      }
      real.exec(sql);
      if (sql === "COMMIT") state.commits += 1;
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
  return { state, commits: new GroupCommit(tables, reserve), tables };
}

const append = (id: number, text: string): WriteRequest => {
  const bytes = new TextEncoder().encode(text);
  return { kind: "append", id, packed: { taskIds: ["a"], wallMs: [1], sizes: [bytes.length], bytes } };
};
const putTask = (id: number, name: string): WriteRequest => ({
  kind: "putTask",
  id,
  task: { id: `task ${id}`, name, createdWallMs: 1, body: "" },
});
const journal = (tables: SqliteTables): string[] =>
  tables
    .page({ taskId: "a", after: 0, afterRow: 0 })
    .entries.map((entry) => `${entry.sequence}:${new TextDecoder().decode(entry.records)}`);
const codes = (replies: readonly StoreReply[]) => replies.map((reply) => (reply.ok ? "ok" : reply.code));

const FULL = 13;
const IO_FSYNC = 1034;

describe("group commit", () => {
  it("commits writes that arrive together in one transaction, up to a read between them", () => {
    const { state, commits, tables } = setUp();
    const replies = commits.handle([
      ...Array.from({ length: 200 }, (_, index) => append(index, "x")),
      { kind: "task", id: 200, taskId: "none" },
      append(201, "y"),
    ]);
    expect(replies.map((reply) => reply.id)).toEqual(Array.from({ length: 202 }, (_, index) => index));
    expect(state.commits).toBe(2);
    expect(tables.page({ taskId: "a", after: 198, afterRow: 0 }).entries).toHaveLength(3);
  });

  it("bounds a transaction in bytes", () => {
    const { state, commits } = setUp();
    const large = "x".repeat(3 << 20);
    commits.handle([append(0, large), append(1, large), append(2, large), append(3, large)]);
    expect(state.commits).toBe(2);
  });

  it("refuses a taken name without touching its neighbours", () => {
    const { state, commits } = setUp();
    expect(codes(commits.handle([putTask(1, "n"), append(2, "x"), putTask(3, "n"), append(4, "y")]))).toEqual(
      ["ok", "ok", "conflict", "ok"],
    );
    expect(state.commits).toBe(1);
  });

  it("fault 35: a full disk gives the reserve back and the same transaction is done once more", () => {
    const { state, commits, tables } = setUp();
    state.failures.push({ at: "COMMIT", errcode: FULL });
    expect(codes(commits.handle([append(1, "paid"), append(2, "for")]))).toEqual(["ok", "ok"]);
    expect(state.reserve).toBe(false);
    expect(journal(tables)).toEqual(["1:paid", "2:for"]);
  });

  it("fault 35: without a reserve left nothing of a call happens, and it may be repeated", () => {
    const { state, commits, tables } = setUp(0);
    commits.handle([append(0, "before")]);
    state.failures.push({ at: "COMMIT", errcode: FULL }, { at: "BEGIN IMMEDIATE", errcode: FULL });
    expect(codes(commits.handle([append(1, "again")]))).toEqual(["disk_full"]);
    expect(codes(commits.handle([append(1, "again")]))).toEqual(["disk_full"]);
    expect(codes(commits.handle([append(1, "again")]))).toEqual(["ok"]);
    expect(journal(tables)).toEqual(["1:before", "2:again"]);
    state.hasRoom = true;
    commits.handle([append(2, "later")]);
    expect(state.reserve).toBe(true);
  });

  it("fault 37: after an fsync that failed nothing is tried again, and every call is store_failed", () => {
    const { state, commits } = setUp();
    state.failures.push({ at: "COMMIT", errcode: IO_FSYNC });
    expect(codes(commits.handle([append(1, "x"), append(2, "y")]))).toEqual(["store_failed", "store_failed"]);
    const before = state.commits;
    expect(codes(commits.handle([append(3, "z"), { kind: "task", id: 4, taskId: "a" }]))).toEqual([
      "store_failed",
      "store_failed",
    ]);
    expect(state.commits).toBe(before);
  });

  it("fault 37: an fsync that failed for want of space is no full disk", () => {
    const { state, commits } = setUp();
    state.failures.push({ at: "COMMIT", errcode: IO_FSYNC });
    const [reply] = commits.handle([append(1, "x")]);
    expect(reply).toMatchObject({ ok: false, code: "store_failed" });
    expect(state.reserve).toBe(true);
  });
});
