/**
 * What the work log must do with texts: requests, answers, lines of outputs, erasure. Part of its contract.
 */
import assert from "node:assert/strict";
import type { WorkLog, WorkLogOptions } from "../log/work_log.ts";
import type { LoggedTaskQuery } from "../store/log_rows.ts";
import { rejectsWith } from "./contract_case.ts";
import type { OutputsUnderTest } from "./store_contract.ts";
import { contentOf, outcomeOf, settled, text, textOf, work } from "./work_log_calls.ts";

/** Opens the log of the case's store. */
export type OpeningLog = (options?: Partial<WorkLogOptions>) => Promise<WorkLog>;

export const LOG_TEXT_CASES: Readonly<
  Record<string, (open: OpeningLog, outputs: OutputsUnderTest) => Promise<void>>
> = {
  "lines are written to the output one after the other": writesLines,
  "lines that their output does not take are answers until they are released": holdsLines,
  "texts of a task are erased once it has ended, and its rows removed": erases,
  "tasks are listed by project and kind, in both directions": listsTasks,
  "tasks are listed by what they belong to, and by their numbers": listsByParent,
  "notes are replaced until they are dropped, and a spent request is deleted while the task is open":
    keepsNotes,
  "tasks that are removed are open no more and have no rows, also after the log was read again": removes,
  "bytes given to the log may change afterwards": copiesBytes,
  "an id that is in use is a conflict": refusesTakenIds,
};

async function writesLines(open: OpeningLog, { disk, path }: OutputsUnderTest): Promise<void> {
  const log = await open();
  const file = await disk.open(path(), "write");
  const { task } = log.accept(work("a", { items: 4 }));
  log.openOutput(task, file);
  void log.end(outcomeOf(task, 3), text("three\n"));
  await log.end(outcomeOf(task, 0), text("zero\n"));
  assert.equal(await contentOf(file), "three\nzero\n");
  assert.equal((await log.sumsOf(task))?.outBytes, 11);
  await log.end(outcomeOf(task, 1), text("ünö\n"));
  assert.equal(await contentOf(file), "three\nzero\nünö\n");
  assert.deepEqual(await log.rows.loggedAnswers(task, 0, 9), []);
  await log.closeOutput(task);
  await log.end(outcomeOf(task, 2), text("row"));
  assert.equal(textOf((await log.rows.loggedAnswers(task, 0, 1))[0]?.text), "row");
  await file.close();
}

async function holdsLines(open: OpeningLog, { disk, path }: OutputsUnderTest): Promise<void> {
  const held: number[] = [];
  const log = await open({ onHeldOutput: (task) => held.push(task) });
  const name = path();
  const good = await disk.open(name, "write");
  const broken = await disk.open(name, "read"); // which cannot be written
  const { task } = log.accept(work("a", { items: 4 }));
  const other = log.accept(work("b", { items: 2 })).task;
  log.openOutput(task, broken);
  void log.end(outcomeOf(other, 1), text("beside"));
  await log.end(outcomeOf(task, 0), text("zero\n"));
  await log.end(outcomeOf(task, 2), text("two\n"));
  assert.deepEqual([held, log.isOutputHeld(task), log.task(task)?.left], [[task], true, 2]);
  assert.equal(textOf((await log.rows.loggedAnswers(other, 0, 1))[0]?.text), "beside");
  assert.deepEqual(
    (await log.rows.loggedAnswers(task, 0, 9)).map(({ item }) => item),
    [0, 2],
  );
  await rejectsWith("output_unwritable", log.releaseOutput(task));
  assert.deepEqual(
    (await log.rows.loggedAnswers(task, 0, 9)).map((row) => textOf(row.text)),
    ["zero\n", "two\n"],
  );
  log.openOutput(task, good);
  await log.releaseOutput(task);
  await log.end(outcomeOf(task, 1), text("one\n"));
  assert.equal(await contentOf(good), "zero\ntwo\none\n");
  assert.deepEqual(await log.rows.loggedAnswers(task, 0, 9), []);
  assert.deepEqual([log.task(task)?.left, (await log.sumsOf(task))?.completed], [1, 3]);
  await log.closeOutput(task);
  await good.close();
  await broken.close();
}

async function erases(open: OpeningLog): Promise<void> {
  const log = await open();
  const kept = log.accept(work("kept", { request: text("kept") })).task;
  const { task } = log.accept(work("a", { request: text("secret"), items: 2 }));
  await log.end(outcomeOf(task, 0), text("secret answer"));
  await rejectsWith("conflict", log.erase({ texts: [task] }));
  await log.end(outcomeOf(task, 1), text("secret answer"));
  await settled(log);
  await log.erase({ texts: [task] });
  assert.equal((await log.rows.loggedTask(task))?.request, undefined);
  assert.deepEqual(
    (await log.rows.loggedAnswers(task, 0, 9)).map((row) => row.text),
    [undefined, undefined, undefined],
  );
  assert.equal((await log.sumsOf(task))?.completed, 2);
  assert.equal(textOf((await log.rows.loggedTask(kept))?.request), "kept");
  await log.erase({ all: [task] });
  assert.equal(await log.rows.loggedTask("id-a"), undefined);
  assert.equal(await log.sumsOf(task), undefined);
  await log.accept(work("a")).durable;
  assert.equal((await log.rows.loggedTask("id-a"))?.number, 3);
}

async function listsTasks(open: OpeningLog): Promise<void> {
  const log = await open();
  for (const id of ["a", "b", "c", "d"]) void log.accept(work(id, { kind: id === "b" ? 2 : 1 }));
  await log.accept(work("e", { project: "other" })).durable;
  const project = log.number("default");
  const numbers = async (query: object): Promise<readonly number[]> =>
    (await log.rows.loggedTasks({ project, kind: 1, limit: 2, ...query })).map(({ number }) => number);
  assert.deepEqual(await numbers({}), [1, 3]);
  assert.deepEqual(await numbers({ after: 3 }), [4]);
  assert.deepEqual(await numbers({ isNewestFirst: true }), [4, 3]);
  assert.deepEqual(await numbers({ isNewestFirst: true, after: 3 }), [1]);
  assert.deepEqual(await numbers({ project: log.number("other") }), [5]);
  await log.rewrite(3, '{"new":1}');
  assert.deepEqual((await log.rows.loggedTask(3))?.body, '{"new":1}');
  assert.deepEqual((await log.rows.loggedTask(3))?.id, "id-c");
}

async function listsByParent(open: OpeningLog): Promise<void> {
  const log = await open();
  for (const [id, parent] of Object.entries({ a: "x", b: "y", c: "x", d: undefined, e: "x" }))
    void log.accept(work(id, { parent }));
  await log.accept(work("f", { parent: "x", kind: 2 })).durable;
  const numbers = async (query: Omit<LoggedTaskQuery, "limit">): Promise<readonly number[]> =>
    (await log.rows.loggedTasks({ limit: 9, ...query })).map(({ number }) => number);
  assert.deepEqual(await numbers({ kind: 1, parent: "x" }), [1, 3, 5]);
  assert.deepEqual(await numbers({ kind: 1, parent: "x", after: 5, isNewestFirst: true }), [3, 1]);
  assert.deepEqual(await numbers({ kind: 2, parent: "x" }), [6]);
  assert.deepEqual(await numbers({ numbers: [6, 2, 9, 4] }), [2, 4, 6]);
  assert.deepEqual(await numbers({ numbers: [6, 2, 4], after: 2 }), [4, 6]);
  assert.deepEqual(await numbers({}), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual((await log.rows.loggedTask(2))?.parent, "y");
}

async function keepsNotes(open: OpeningLog): Promise<void> {
  const log = await open();
  const { task, durable } = log.accept(work("a", { request: text("given") }));
  await durable;
  assert.equal(await log.notesOf(task), undefined);
  void log.note(task, text("first"));
  await log.note(task, text("second"));
  assert.equal(textOf(await log.notesOf(task)), "second");
  await log.rewrite(task, '{"at":1}', true);
  const { body, request } = (await log.rows.loggedTask(task)) ?? {};
  assert.deepEqual([body, request], ['{"at":1}', undefined]);
  assert.equal(log.isOpen(task, 0), true);
  void log.note(task, undefined);
  await log.end(outcomeOf(task, 0), text("answer"));
  assert.equal(await log.notesOf(task), undefined);
  assert.deepEqual(
    (await log.rows.loggedAnswers(task, 0, 9)).map((row) => textOf(row.text)),
    ["answer"],
  );
}

async function removes(open: OpeningLog): Promise<void> {
  const first = await open();
  for (const id of ["a", "b", "c", "d"]) void first.accept(work(id, { items: id === "b" ? 3 : 1 }));
  await first.note(3, text("noted"));
  await first.end(outcomeOf(4, 0), text("answer"));
  const accepted = first.accept(work("e")).task; // in the same commit
  await first.remove([2, 3, 4, accepted]);
  const check = async (log: WorkLog): Promise<void> => {
    assert.deepEqual(
      [...log.openTasks()].map(({ number }) => number),
      [1],
    );
    assert.deepEqual(
      (await log.rows.loggedTasks({ limit: 9 })).map(({ number }) => number),
      [1],
    );
    for (const task of [2, 3, 4]) assert.deepEqual(await log.rows.loggedAnswers(task, 0, 9), []);
  };
  await check(first);
  await first.close();
  const second = await open();
  await check(second);
  await second.accept(work("b")).durable;
}

async function copiesBytes(open: OpeningLog): Promise<void> {
  const log = await open();
  const whole = Buffer.from("before, text and behind");
  const part = whole.subarray(8, 12);
  const { task, durable } = log.accept(work("a", { request: part }));
  void log.end(outcomeOf(task, 0), part);
  whole.fill(0x78);
  await durable;
  assert.equal(textOf((await log.rows.loggedTask(task))?.request), "text");
  const [answer] = await log.rows.loggedAnswers(task, 0, 1);
  assert.equal(textOf(answer?.text), "text");
  answer?.text?.fill(0);
  assert.equal(textOf((await log.rows.loggedAnswers(task, 0, 1))[0]?.text), "text");
}

async function refusesTakenIds(open: OpeningLog): Promise<void> {
  const log = await open();
  const { durable } = log.accept(work("a"));
  assert.throws(() => log.accept(work("a")), { code: "conflict" });
  await durable;
  await rejectsWith("conflict", log.accept(work("a")).durable);
  await log.accept(work("b")).durable;
  assert.deepEqual(
    [...log.openTasks()].map(({ number }) => number),
    [1, 3],
  );
}
