/** The law of records: SQLite does, however calls are grouped and some groups undone, what memory does one by one. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GroupCommit } from "../../src/store/group_commit.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { WorkRequest } from "../../src/store/packed/grouped_requests.ts";
import { packChanges } from "../../src/store/packed/pack_changes.ts";
import { packScope } from "../../src/store/packed/requests.ts";
import { EVERY_PROJECT, type StoredRecord } from "../../src/store/records.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { SqliteTables } from "../../src/store/sqlite_tables.ts";

const openDatabase = await loadSqlite();
const id = fc.constantFrom("a", "b", "c", "d");
const collection = fc.constantFrom("x", "y");
const parent = fc.constantFrom("", "t", "u");
const scope = fc.constantFrom("p", "q", EVERY_PROJECT);
const payload = fc.option(fc.uint8Array({ maxLength: 4 }), { nil: undefined });
const record = fc.record({
  ...{
    collection,
    id,
    parent,
    payload,
    body: fc.string({ maxLength: 3 }).map((text) => JSON.stringify(text)),
  },
  project: fc.constantFrom("p", "q"),
  createdWallMs: fc.nat(),
});
const change = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom("put" as const, "insert" as const), record }) },
  fc.record({ kind: fc.constant("delete" as const), collection, id }),
  fc.record({ kind: fc.constant("deleteOf" as const), collection, parent }),
);
const call = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("change" as const),
      changes: fc.array(change, { maxLength: 4 }),
    }),
  },
  fc.record({ kind: fc.constant("record" as const), scope, collection, id }),
  fc.record({
    kind: fc.constant("records" as const),
    scope,
    query: fc.record(
      {
        ...{ collection, limit: fc.nat({ max: 5 }), parent, after: id },
        isNewestFirst: fc.boolean(),
      },
      { requiredKeys: ["collection", "limit"] },
    ),
  }),
);
type Call = typeof call extends fc.Arbitrary<infer T> ? T : never;

function requestOf(given: Call, number: number): WorkRequest {
  if (given.kind === "change") return { kind: "change", id: number, packed: packChanges(given.changes) };
  const project = packScope(given.scope);
  return given.kind === "record"
    ? { kind: "record", id: number, project, collection: given.collection, recordId: given.id }
    : { kind: "records", id: number, project, query: given.query };
}

const plain = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(plain)
    : value === undefined
      ? "none"
      : { ...(value as StoredRecord), payload: [...((value as StoredRecord).payload ?? ["none"])] };

describe("records", () => {
  it("are in SQLite, however calls are grouped and some groups undone, what they are in memory", async () => {
    const groups = fc.array(
      fc.record({ isDiskFull: fc.boolean(), calls: fc.array(call, { maxLength: 8 }) }),
      {
        maxLength: 6,
      },
    );
    await fc.assert(
      fc.asyncProperty(groups, async (given) => {
        const memory = createMemoryStore();
        const real = openDatabase(":memory:");
        let isDiskFull = false;
        const tables = new SqliteTables({
          exec: (sql) => real.exec(sql),
          close: () => real.close(),
          prepare: (sql) => {
            const statement = real.prepare(sql);
            if (sql !== "COMMIT") return statement;
            const run = () => {
              if (isDiskFull) throw Object.assign(new Error("full"), { errcode: 13 });
              return statement.run();
            };
            return { run, get: () => undefined, all: () => [] };
          },
        });
        const commits = new GroupCommit(tables, { release: () => false, take: () => true });
        for (const group of given) {
          isDiskFull = group.isDiskFull;
          const replies = await commits.handle(group.calls.map(requestOf));
          const expected: unknown[] = [];
          for (const one of group.calls) {
            if (one.kind === "record")
              expected.push(plain(await memory.record(one.scope, one.collection, one.id)));
            else if (one.kind === "records") expected.push(plain(await memory.records(one.scope, one.query)));
            else if (isDiskFull) expected.push("disk_full");
            else
              expected.push(
                await memory.change(one.changes).then(
                  () => "none",
                  (error) => error.code,
                ),
              );
          }
          expect(replies.map((reply) => (reply.ok ? plain(reply.value) : reply.code))).toEqual(expected);
        }
        tables.close();
      }),
      { numRuns: 300 },
    );
  });
});
