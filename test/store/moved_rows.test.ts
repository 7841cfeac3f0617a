/** Rows of the work log in the places of others: each is refused, although it is whole in itself. */
import { beforeEach, describe, expect, it } from "vitest";
import { bytesOfRecord, LogRecords, writeEntry } from "../../src/log/records.ts";
import { StagedCommit } from "../../src/log/staged_commit.ts";
import { loadSqlite, type SqliteDatabase } from "../../src/store/sqlite_database.ts";
import { SqliteTables } from "../../src/store/sqlite_tables.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { outcomeOf, text } from "../../src/testing/work_log_calls.ts";

let database: SqliteDatabase;
let tables: SqliteTables;

/** Two tasks with two answers each, in two entries that name two texts. */
beforeEach(async () => {
  database = (await loadSqlite())(":memory:");
  tables = new SqliteTables(database);
  tables.log.open();
  for (const number of [1, 2]) {
    const staged = new StagedCommit();
    const row = { number, id: `id ${number}`, project: 1, kind: 1, parent: "", createdWallMs: 1, body: "{}" };
    staged.accept(row, text(`request ${number}`));
    for (const item of [0, 1]) {
      const fields = { ...outcomeOf(number, item), textBytes: 1, textCrc32: 0, isLine: 0 };
      staged.answer(number, item, bytesOfRecord("outcome", fields), text(`answer ${number} ${item}`));
    }
    const header = {
      firstSequence: 1,
      nextTask: number + 1,
      names: number,
      moment: new FakeClock().moment(),
    };
    const records = writeEntry(header, [new LogRecords()]);
    const names = [[number, `name ${number}`]] as const;
    tables.log.commit({ ...staged.rows(), names, sequence: number, records, cutTo: 0 });
  }
});

/** Everything that the tables say. */
const readAll = (): unknown => ({
  names: tables.log.open().names,
  entries: tables.log.entries(0),
  tasks: [tables.log.task(1), tables.log.task(2), ...tables.log.tasks({ limit: 10 })],
  answers: [1, 2].map((task) => tables.log.answers(task, 0, 10)),
});

describe("rows of the work log", () => {
  it("are read as they were written", () => {
    expect(readAll).not.toThrow();
  });

  it.each([
    ["answers of two items", "log_answers", "item", "task = 1 AND item"],
    ["answers of two tasks", "log_answers", "task", "item = 0 AND task"],
    ["two tasks", "log_tasks", "number", "number"],
    ["two entries", "log_entries", "sequence", "sequence"],
    ["two names", "log_names", "number", "number"],
  ])("are refused when %s have changed places", (_, table, column, where) => {
    const [one, other] = column === "item" ? [0, 1] : [1, 2];
    for (const [from, to] of [
      [one, 99],
      [other, one],
      [99, other],
    ])
      database.exec(`UPDATE ${table} SET ${column} = ${to} WHERE ${where} = ${from}`);
    expect(readAll).toThrow(expect.objectContaining({ code: "store_damaged" }));
  });

  it.each(["id", "project", "kind", "parent", "created_ms"])(
    "are refused when the %s of a task is another's",
    (column) => {
      database.exec(`UPDATE log_tasks SET ${column} = 7 WHERE number = 1`);
      expect(readAll).toThrow(expect.objectContaining({ code: "store_damaged" }));
    },
  );
});
