/**
 * What every `Store` must do, and what one that survives its process must do besides.
 */
import assert from "node:assert/strict";
import type { Disk, DiskFile } from "../disk.ts";
import { outputFailureOf } from "../store/outputs.ts";
import type { JournalEntry, Store, StoredEntry, StoredTask } from "../store/store.ts";
import { type ContractCase, rejectsWith } from "./contract_case.ts";
import { keepsRecords, RECORD_CASES } from "./records_contract.ts";

/** Where a store under test may write outputs. */
export interface OutputsUnderTest {
  readonly disk: Disk;
  /** A name that no other case has. */
  path(): string;
}

/** The cases for any store. `makeStore` returns a new, empty one for each case, which closes it. */
export function storeContract(
  makeStore: () => Promise<Store>,
  outputs: OutputsUnderTest,
): readonly ContractCase[] {
  const cases: Readonly<Record<string, (store: Store) => Promise<void>>> = {
    "an output is written where it belongs before its entry is acknowledged": (store) =>
      writesOutputs(store, outputs),
    "an output that cannot be written is refused by name, with nothing of its call in the journal": (store) =>
      refusesOutputs(store, outputs),
    "an append whose output cannot be synced takes effect before it is refused, or never": (store) =>
      endsWithRefusal(store, outputs),
    "calls after an append with an output take effect after it": (store) =>
      keepsOrderBehindOutputs(store, outputs),
    "a task is read back by id and by name": readsTasks,
    "putting a task again replaces it, and frees its old name": replacesTasks,
    "a name that another task has is a conflict, and nothing changes": refusesTakenNames,
    "tasks are listed in order of creation, page by page": listsTasks,
    "a journal returns what was appended, in order, numbered without gaps": readsJournal,
    "an entry may be empty": keepsEmptyEntries,
    "each task has its own journal": keepsJournalsApart,
    "calls that overlap take effect in the order of the calls": keepsOrderOfCalls,
    "a large journal is read whole, for any size of its entries": readsLargeJournals,
    "the latest entries are those of all tasks, the last appended first": readsLatest,
    "stored bytes do not change with the caller's, nor the caller's with each other": copies,
    "deleting a task removes it with its journal, and deleting again is allowed": deletes,
    ...RECORD_CASES,
    "closing waits for what was called before; then every call rejects with closed": closes,
  };
  return Object.entries(cases).map(([name, run]) => ({
    name,
    run: async () => {
      const store = await makeStore();
      try {
        await run(store);
      } finally {
        await store.close();
      }
    },
  }));
}

/** Storage that a store can be opened on again and again. */
export interface StorageUnderTest {
  open(): Promise<Store>;
}

/** The further cases for a store that survives. `makeStorage` returns new, empty storage for each. */
export function durableStoreContract(makeStorage: () => Promise<StorageUnderTest>): readonly ContractCase[] {
  const cases: Readonly<Record<string, (storage: StorageUnderTest) => Promise<void>>> = {
    "what was written exists after closing and opening again, and can be continued": survives,
    "records exist after closing and opening again, and can be continued": (storage) =>
      keepsRecords(() => storage.open()),
    "a second owner is refused while the first is open, and let in afterwards": hasOneOwner,
  };
  return Object.entries(cases).map(([name, run]) => ({
    name,
    run: async () => run(await makeStorage()),
  }));
}

async function readsTasks(store: Store): Promise<void> {
  await store.putTask(task("a", { name: "first", body: '{"ü":"\\u0000"}' }));
  assert.deepEqual({ ...(await store.task("a")) }, task("a", { name: "first", body: '{"ü":"\\u0000"}' }));
  assert.deepEqual(await store.taskByName("first"), await store.task("a"));
  assert.equal(await store.task("b"), undefined);
  assert.equal(await store.taskByName("a"), undefined);
}

async function replacesTasks(store: Store): Promise<void> {
  await store.putTask(task("a", { name: "first" }));
  await store.putTask(task("a", { name: "second", body: "new" }));
  assert.equal((await store.task("a"))?.body, "new");
  assert.equal(await store.taskByName("first"), undefined);
  await store.putTask(task("b", { name: "first" }));
  assert.equal((await store.taskByName("first"))?.id, "b");
}

async function refusesTakenNames(store: Store): Promise<void> {
  await store.putTask(task("a", { name: "first" }));
  await store.putTask(task("b", { name: "second" }));
  const refused = rejectsWith("conflict", store.putTask(task("c", { name: "first" })));
  const appended = store.append([entry("a", 1, "beside a conflict")]);
  await refused;
  await appended;
  await rejectsWith("conflict", store.putTask(task("b", { name: "first", body: "new" })));
  assert.equal(await store.task("c"), undefined);
  assert.deepEqual({ ...(await store.task("b")) }, task("b", { name: "second" }));
  assert.deepEqual(texts(await all(store.journal("a"))), ["beside a conflict"]);
}

async function listsTasks(store: Store): Promise<void> {
  const ids = ["m", "z", "a", "k", "b"];
  for (const id of ids) await store.putTask(task(id));
  await store.putTask(task("z", { body: "again" }));
  const listed: string[] = [];
  for (let page = await store.tasks({ limit: 2 }); page.length > 0; ) {
    assert.ok(page.length <= 2);
    listed.push(...page.map((found) => found.id));
    page = await store.tasks({ after: listed.at(-1) ?? "", limit: 2 });
  }
  assert.deepEqual(listed, ids);
}

async function readsJournal(store: Store): Promise<void> {
  await store.putTask(task("a"));
  await store.append([entry("a", 20, "one"), entry("a", 10, "")]);
  await store.append([entry("a", 30, "three")]);
  await store.append([]);
  const found = await all(store.journal("a"));
  assert.deepEqual(texts(found), ["one", "", "three"]);
  assert.deepEqual(
    found.map((stored) => stored.wallMs),
    [20, 10, 30],
  );
  assertNumbered(found);
  assert.deepEqual(await all(store.journal("unknown")), []);
}

async function keepsEmptyEntries(store: Store): Promise<void> {
  await store.putTask(task("a"));
  await store.append([entry("a", 1, "")]);
  await store.append([entry("a", 2, "one"), entry("a", 3, "")]);
  assert.deepEqual(texts(await all(store.journal("a"))), ["", "one", ""]);
}

async function keepsJournalsApart(store: Store): Promise<void> {
  for (const id of ["a", "b"]) await store.putTask(task(id));
  await store.append([entry("a", 1, "a1"), entry("b", 1, "b1"), entry("a", 1, "a2")]);
  await store.append([entry("b", 1, "b2")]);
  for (const id of ["a", "b"]) {
    const found = await all(store.journal(id));
    assert.deepEqual(texts(found), [`${id}1`, `${id}2`]);
    assertNumbered(found);
  }
}

async function keepsOrderOfCalls(store: Store): Promise<void> {
  await store.putTask(task("a"));
  const expected = Array.from({ length: 300 }, (_, index) => String(index));
  const written = expected.map((text) => store.append([entry("a", 1, text)]));
  const read = all(store.journal("a"));
  await Promise.all(written);
  assert.deepEqual(texts(await read), expected);
  const put = store.putTask(task("b"));
  const deleted = store.deleteTask("b");
  const again = store.putTask(task("b", { body: "again" }));
  const seen = await store.task("b");
  await Promise.all([put, deleted, again]);
  assert.equal(seen?.body, "again");
}

async function readsLargeJournals(store: Store): Promise<void> {
  await store.putTask(task("a"));
  const sizes = [0, 1, 3_000_000, 2_000_000, ...Array.from({ length: 700 }, (_, index) => index * 17)];
  await store.append(
    sizes.map((size) => ({ taskId: "a", wallMs: size, records: new Uint8Array(size).fill(size) })),
  );
  const found = await all(store.journal("a"));
  assert.deepEqual(
    found.map((stored) => stored.records.byteLength),
    sizes,
  );
  assert.ok(found.every(({ records, wallMs }) => records.every((byte) => byte === (wallMs & 0xff))));
  assertNumbered(found);
  const latest = await all(store.latestEntries());
  assert.deepEqual(
    latest.map((stored) => stored.records.byteLength),
    sizes.toReversed(),
  );
}

async function readsLatest(store: Store): Promise<void> {
  assert.deepEqual(await all(store.latestEntries()), []);
  for (const id of ["a", "b"]) await store.putTask(task(id));
  await store.append([entry("a", 30, "1"), entry("b", 10, "2"), entry("a", 20, "3")]);
  const written = store.append([entry("b", 20, "4"), entry("b", 19, "5")]);
  assert.deepEqual(texts(await all(store.latestEntries())), ["5", "4", "3", "2", "1"]);
  await written;
  for await (const latest of store.latestEntries()) {
    assert.deepEqual(texts([latest]), ["5"]);
    assert.equal(latest.sequence, 3);
    break;
  }
  await store.deleteTask("b");
  await store.append([entry("a", 5, "6")]);
  assert.deepEqual(texts(await all(store.latestEntries())), ["6", "3", "1"]);
}

async function copies(store: Store): Promise<void> {
  await store.putTask(task("a"));
  const whole = new TextEncoder().encode("before and behind");
  const records = whole.subarray(7, 10);
  const appended = store.append([{ taskId: "a", wallMs: 1, records }]);
  whole.fill(0x78);
  await appended;
  const [first] = await all(store.journal("a"));
  assert.ok(first !== undefined);
  assert.deepEqual(texts([first]), ["and"]);
  first.records.fill(0);
  assert.deepEqual(texts(await all(store.journal("a"))), ["and"]);
}

async function deletes(store: Store): Promise<void> {
  for (const id of ["a", "b"]) await store.putTask(task(id));
  await store.append([entry("a", 1, "a1"), entry("b", 1, "b1")]);
  await store.deleteTask("a");
  await store.deleteTask("a");
  assert.equal(await store.task("a"), undefined);
  assert.deepEqual(await all(store.journal("a")), []);
  assert.deepEqual(texts(await all(store.latestEntries())), ["b1"]);
  await store.putTask(task("a"));
  await store.append([entry("a", 1, "new")]);
  const found = await all(store.journal("a"));
  assert.deepEqual(texts(found), ["new"]);
}

async function writesOutputs(store: Store, { disk, path }: OutputsUnderTest): Promise<void> {
  const [first, second] = [path(), path()];
  const files = [await disk.open(first, "write"), await disk.open(second, "write")] as const;
  const output = (file: DiskFile, position: number, text: string): Partial<JournalEntry> => ({
    output: { file, position, bytes: new TextEncoder().encode(text) },
  });
  await store.append([{ ...entry("a", 1, "a1"), ...output(files[0], 0, "one\n") }]);
  await store.append([
    { ...entry("a", 2, "a2"), ...output(files[0], 4, "two\n") },
    { ...entry("b", 2, "b1"), ...output(files[1], 0, "other\n") },
    entry("c", 2, "c1"),
  ]);
  assert.equal(await textOf(files[0]), "one\ntwo\n");
  assert.equal(await textOf(files[1]), "other\n");
  assert.deepEqual(texts(await all(store.journal("a"))), ["a1", "a2"]);
  assert.deepEqual(texts(await all(store.journal("c"))), ["c1"]);
  for (const file of files) await file.close();
}

async function keepsOrderBehindOutputs(store: Store, { disk, path }: OutputsUnderTest): Promise<void> {
  const file = await disk.open(path(), "write");
  const output = { file, position: 0, bytes: new TextEncoder().encode("line\n") };
  const calls = [
    store.append([{ ...entry("a", 1, "a1"), output }]),
    store.append([entry("a", 2, "a2")]),
    store.append([{ ...entry("b", 3, "b1"), output: { ...output, position: 5 } }]),
    store.deleteTask("b"),
  ];
  assert.deepEqual(texts(await all(store.journal("a"))), ["a1", "a2"]);
  assert.deepEqual(texts(await all(store.journal("b"))), []);
  await Promise.all(calls);
  const last = store.append([{ ...entry("b", 4, "b2"), output: { ...output, position: 10 } }]);
  const closed = store.close();
  await last;
  await closed;
  assert.equal(await textOf(file), "line\nline\nline\n");
  await file.close();
}

async function refusesOutputs(store: Store, { disk, path }: OutputsUnderTest): Promise<void> {
  const name = path();
  await (await disk.open(name, "write")).close();
  const file = await disk.open(name, "read"); // which cannot be written
  const output = { file, position: 0, bytes: new TextEncoder().encode("lost\n") };
  await assert.rejects(store.append([entry("a", 1, "a1"), { ...entry("b", 1, "b1"), output }]), (error) => {
    const failure = outputFailureOf(error);
    return failure?.taskId === "b" && failure.operation === "write" && failure.systemCode === "EBADF";
  });
  await store.append([entry("a", 2, "a2")]);
  assert.deepEqual(texts(await all(store.journal("a"))), ["a2"]);
  assert.deepEqual(texts(await all(store.journal("b"))), []);
  await file.close();
}

async function endsWithRefusal(store: Store, { disk, path }: OutputsUnderTest): Promise<void> {
  const file = await disk.open(path(), "write");
  const failing: DiskFile = {
    read: (into, position) => file.read(into, position),
    write: (bytes, position) => file.write(bytes, position),
    sync: () => Promise.reject(Object.assign(new Error("the sync was made to fail"), { code: "EIO" })),
    truncate: (sizeBytes) => file.truncate(sizeBytes),
    sizeBytes: () => file.sizeBytes(),
    close: () => file.close(),
  };
  const output = { file: failing, position: 0, bytes: new TextEncoder().encode("lost\n") };
  await assert.rejects(store.append([{ ...entry("a", 1, "a1"), output }]), (error) => {
    return outputFailureOf(error)?.operation === "sync";
  });
  const seen = texts(await all(store.journal("a")));
  await store.append([entry("a", 2, "a2")]);
  assert.deepEqual(texts(await all(store.journal("a"))), [...seen, "a2"]);
  await file.close();
}

async function textOf(file: DiskFile): Promise<string> {
  const bytes = new Uint8Array(await file.sizeBytes());
  return new TextDecoder().decode(bytes.subarray(0, await file.read(bytes, 0)));
}

async function closes(store: Store): Promise<void> {
  const put = store.putTask(task("a"));
  const appended = store.append([entry("a", 1, "last")]);
  const closed = store.close();
  await Promise.all([put, appended, closed]);
  await rejectsWith("closed", store.change([]));
  await rejectsWith("closed", store.record("p", "thing", "a"));
  await rejectsWith("closed", store.task("a"));
  await rejectsWith("closed", store.append([entry("a", 1, "late")]));
  await rejectsWith("closed", all(store.journal("a")));
  await store.close();
}

async function survives(storage: StorageUnderTest): Promise<void> {
  const first = await storage.open();
  await first.putTask(task("a", { name: "first" }));
  await first.append([entry("a", 5, "one"), entry("a", 6, "two")]);
  await first.close();
  const second = await storage.open();
  try {
    assert.equal((await second.taskByName("first"))?.id, "a");
    await second.append([entry("a", 7, "three")]);
    const found = await all(second.journal("a"));
    assert.deepEqual(texts(found), ["one", "two", "three"]);
    assertNumbered(found);
  } finally {
    await second.close();
  }
}

async function hasOneOwner(storage: StorageUnderTest): Promise<void> {
  const first = await storage.open();
  await rejectsWith("data_dir_in_use", storage.open());
  await first.putTask(task("a"));
  await first.close();
  const second = await storage.open();
  assert.equal((await second.task("a"))?.id, "a");
  await second.close();
}

function task(id: string, parts: Partial<StoredTask> = {}): StoredTask {
  return { id, name: `name of ${id}`, createdWallMs: 1_767_225_600_000, body: "{}", ...parts };
}

function entry(taskId: string, wallMs: number, text: string): JournalEntry {
  return { taskId, wallMs, records: new TextEncoder().encode(text) };
}

function texts(entries: readonly StoredEntry[]): string[] {
  return entries.map((stored) => new TextDecoder().decode(stored.records));
}

function assertNumbered(entries: readonly StoredEntry[]): void {
  const first = entries[0]?.sequence ?? 0;
  assert.deepEqual(
    entries.map((stored) => stored.sequence),
    entries.map((_, index) => first + index),
  );
}

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of source) found.push(one);
  return found;
}
