/** Records in SQLite: damage, and what their lists cost. */
import { describe, expect, it } from "vitest";
import { EVERY_PROJECT, type RecordChange } from "../../src/store/records.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { SqliteRecords } from "../../src/store/sqlite_records.ts";

const openDatabase = await loadSqlite();
const put = (id: string, parent = ""): RecordChange => ({
  kind: "put",
  record: {
    collection: "c",
    id,
    project: "p",
    parent,
    createdWallMs: 1,
    body: "{}",
    payload: Uint8Array.of(1),
  },
});

describe("records in SQLite", () => {
  it("fault 39: one that does not hold what was written is refused by its collection and id", () => {
    for (const damage of [
      "body = '[]'",
      "project = 'q'",
      "parent = 'x'",
      "created_ms = 2",
      "payload = x'02'",
      "payload = NULL",
      "payload_crc = 7",
      "crc = crc + 1",
    ]) {
      const database = openDatabase(":memory:");
      const records = new SqliteRecords(database);
      records.change([put("whole"), put("bad"), put("behind")]);
      database.exec(`UPDATE records SET ${damage} WHERE id = 'bad'`);
      const refused = expect.objectContaining({
        code: "store_damaged",
        details: { collection: "c", id: "bad" },
      });
      expect(() => records.record(EVERY_PROJECT, "c", "bad"), damage).toThrow(refused);
      expect(() => records.records(EVERY_PROJECT, { collection: "c", limit: 2 }), damage).toThrow(refused);
      expect(records.record("p", "c", "whole")?.id).toBe("whole");
    }
  });

  it("makes no table before there is a record, and finds none until then", () => {
    const database = openDatabase(":memory:");
    const records = new SqliteRecords(database);
    expect(records.record("p", "c", "a")).toBeUndefined();
    expect(records.records("p", { collection: "c", limit: 1 })).toEqual([]);
    expect(database.prepare("SELECT count(*) AS count FROM sqlite_master").get()).toEqual({ count: 0 });
  });

  it("reads every list from an index, in order, however many records there are beside it", () => {
    const seen: string[] = [];
    const real = openDatabase(":memory:");
    const records = new SqliteRecords({
      exec: (sql) => real.exec(sql),
      close: () => real.close(),
      prepare: (sql) => {
        seen.push(sql);
        return real.prepare(sql);
      },
    });
    records.change([put("a", "t"), put("b", "t")]);
    for (const project of ["p", EVERY_PROJECT] as const)
      for (const parent of [{}, { parent: "t" }])
        for (const after of [{}, { after: "a" }])
          for (const isNewestFirst of [true, false])
            records.records(project, { collection: "c", limit: 1, isNewestFirst, ...parent, ...after });
    records.change([{ kind: "deleteOf", collection: "c", parent: "t" }]);
    const plans = seen
      .filter((sql) => /^(SELECT .* (ORDER BY|WHERE collection)|DELETE|UPDATE)/s.test(sql))
      .flatMap((sql) => real.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { readonly detail: string }[])
      .map(({ detail }) => detail);
    expect(plans.length).toBeGreaterThan(13);
    for (const plan of plans) expect(plan).toMatch(/^SEARCH records USING (COVERING )?INDEX/);
  });
});
