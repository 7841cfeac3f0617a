/**
 * What every `Store` must do with records; part of `store_contract.ts`.
 */
import assert from "node:assert/strict";
import { EVERY_PROJECT, type RecordChange, type RecordQuery, type StoredRecord } from "../store/records.ts";
import type { Store } from "../store/store.ts";
import { rejectsWith } from "./contract_case.ts";

/** Cases for any store, by the sentence that they show. */
export const RECORD_CASES: Readonly<Record<string, (store: Store) => Promise<void>>> = {
  "a record is read back as it was put, with its payload or without": readsRecords,
  "putting a record again replaces it in its old place, payload and parent included": replacesRecords,
  "inserting an id that is in use is a conflict, and nothing of the call happens": refusesTakenIds,
  "changes of one call take effect in their order": changesInOrder,
  "a conflict does not affect the calls beside it": keepsConflictsApart,
  "records are deleted one by one or by their parent, and deleting again is allowed": deletesRecords,
  "a project sees only its own records": keepsProjectsApart,
  "records are listed in order of creation, page by page, and newest first": listsRecords,
  "records are listed from the newest on whose body has at most a number": findsNumbers,
  "a read sees what was called before it": readsBehindWrites,
  "a stored record does not change with the caller's, nor the caller's with each other": copiesRecords,
  "a text that cannot be read back is refused, with nothing of its call": refusesTexts,
};

/** What a store that survives has after it is opened again. */
export async function keepsRecords(open: () => Promise<Store>): Promise<void> {
  const first = await open();
  await first.change([put("a", { payload: bytes("kept") }), put("b", { parent: "t" }), put("c")]);
  await first.change([{ kind: "delete", collection: "thing", id: "c" }]);
  await first.close();
  const second = await open();
  try {
    await second.change([put("d")]);
    assert.deepEqual(await idsOf(second), ["a", "b", "d"]);
    assert.deepEqual(await textOf(second, "a"), "kept");
    assert.deepEqual(await idsOf(second, { parent: "t" }), ["b"]);
  } finally {
    await second.close();
  }
}

async function readsRecords(store: Store): Promise<void> {
  assert.equal(await store.record("p", "thing", "a"), undefined);
  assert.deepEqual(await store.records("p", { collection: "thing", limit: 9 }), []);
  const whole = record("a", { body: '{"ü":"\\u0000"}', parent: "t", payload: bytes("text of a user") });
  await store.change([
    { kind: "put", record: whole },
    put("empty", { payload: new Uint8Array() }),
    put("none"),
    { kind: "put", record: { ...whole, collection: "other" } },
  ]);
  assert.deepEqual(plain(await store.record("p", "thing", "a")), plain(whole));
  assert.deepEqual((await store.record("p", "thing", "empty"))?.payload?.byteLength, 0);
  assert.equal((await store.record("p", "thing", "none"))?.payload, undefined);
  assert.equal((await store.record("p", "other", "a"))?.collection, "other");
  assert.equal(await store.record("p", "other", "none"), undefined);
  await store.change([]);
}

async function replacesRecords(store: Store): Promise<void> {
  await store.change([put("a", { parent: "t", payload: bytes("old") }), put("b")]);
  await store.change([put("a", { parent: "u", body: "new", createdWallMs: 9 })]);
  assert.deepEqual(
    plain(await store.record("p", "thing", "a")),
    plain(record("a", { parent: "u", body: "new", createdWallMs: 9 })),
  );
  assert.deepEqual(await idsOf(store), ["a", "b"]);
  assert.deepEqual([await idsOf(store, { parent: "t" }), await idsOf(store, { parent: "u" })], [[], ["a"]]);
}

async function refusesTakenIds(store: Store): Promise<void> {
  await store.change([insert("a", { body: "first" })]);
  await rejectsWith("conflict", store.change([insert("a", { body: "second" })]));
  await rejectsWith("conflict", store.change([insert("a", { project: "q" })]));
  await rejectsWith("conflict", store.change([put("a", { project: "q", body: "stolen" })]));
  await rejectsWith(
    "conflict",
    store.change([put("b"), { kind: "delete", collection: "thing", id: "a" }, insert("c"), insert("c")]),
  );
  assert.equal((await store.record("p", "thing", "a"))?.body, "first");
  assert.deepEqual(await idsOf(store), ["a"]);
}

async function changesInOrder(store: Store): Promise<void> {
  await store.change([insert("a", { parent: "t" }), insert("b", { parent: "t" })]);
  await store.change([
    { kind: "delete", collection: "thing", id: "a" },
    insert("a", { parent: "t", body: "again" }),
    put("c", { parent: "u" }),
    { kind: "deleteOf", collection: "thing", parent: "t" },
    insert("b", { project: "q" }),
    { kind: "deleteOf", collection: "thing", parent: "u" },
    insert("c", { body: "last" }),
  ]);
  assert.deepEqual(await idsOf(store), ["b", "c"]);
  assert.equal((await store.record("p", "thing", "c"))?.body, "last");
}

async function keepsConflictsApart(store: Store): Promise<void> {
  await store.change([insert("taken")]);
  const calls = [
    store.change([put("a")]),
    store.change([put("lost"), insert("taken"), put("lost too")]),
    store.change([put("b"), { kind: "delete", collection: "thing", id: "a" }]),
  ];
  const settled = await Promise.allSettled(calls);
  assert.deepEqual(
    settled.map((call) => call.status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  assert.deepEqual(await idsOf(store), ["taken", "b"]);
}

async function deletesRecords(store: Store): Promise<void> {
  await store.change([
    put("a", { parent: "t" }),
    put("b", { parent: "t", project: "q" }),
    put("c"),
    put("d"),
  ]);
  await store.change([{ kind: "put", record: record("a", { collection: "other", parent: "t" }) }]);
  await store.change([{ kind: "deleteOf", collection: "thing", parent: "" }]);
  assert.deepEqual(await idsOf(store), ["a", "b", "c", "d"]);
  for (let times = 0; times < 2; times += 1)
    await store.change([
      { kind: "deleteOf", collection: "thing", parent: "t" },
      { kind: "delete", collection: "thing", id: "c" },
    ]);
  assert.deepEqual(await idsOf(store), ["d"]);
  assert.deepEqual(await idsOf(store, { collection: "other" }), ["a"]);
  await store.change([insert("a")]);
  assert.deepEqual(await idsOf(store), ["d", "a"]);
}

async function keepsProjectsApart(store: Store): Promise<void> {
  await store.change([put("a"), put("b", { project: "q" }), put("c", { parent: "t" })]);
  await store.change([put("d", { project: "q", parent: "t" })]);
  assert.equal(await store.record("q", "thing", "a"), undefined);
  assert.equal((await store.record(EVERY_PROJECT, "thing", "b"))?.project, "q");
  const seenBy = async (project: string, query: Partial<RecordQuery> = {}): Promise<string[]> =>
    (await store.records(project, { collection: "thing", limit: 9, ...query })).map((found) => found.id);
  assert.deepEqual([await seenBy("p"), await seenBy("q"), await seenBy("r")], [["a", "c"], ["b", "d"], []]);
  assert.deepEqual([await seenBy("p", { parent: "t" }), await seenBy("q", { parent: "t" })], [["c"], ["d"]]);
  // A foreign id as a place to begin at looks like an unknown one.
  assert.deepEqual([await seenBy("p", { after: "b" }), await seenBy("p", { after: "none" })], [[], []]);
  assert.deepEqual(await idsOf(store, { after: "b" }), ["c", "d"]);
}

async function listsRecords(store: Store): Promise<void> {
  const ids = ["m", "z", "a", "k", "b"];
  for (const id of ids) await store.change([put(id, { parent: "t" }), put(`loose ${id}`)]);
  await store.change([put("z", { parent: "t", body: "again" })]);
  const pages = async (isNewestFirst: boolean): Promise<string[]> => {
    const listed: string[] = [];
    for (;;) {
      const after = listed.at(-1);
      const query = { parent: "t", limit: 2, isNewestFirst, ...(after === undefined ? {} : { after }) };
      const page = await idsOf(store, query);
      assert.ok(page.length <= 2);
      if (page.length === 0) return listed;
      listed.push(...page);
    }
  };
  assert.deepEqual(await pages(false), ids);
  assert.deepEqual(await pages(true), ids.toReversed());
  assert.deepEqual(await idsOf(store, { parent: "" }), []);
  assert.deepEqual(await idsOf(store, { limit: 0 }), []);
  assert.equal((await idsOf(store, { limit: 100 })).length, 10);
}

async function findsNumbers(store: Store): Promise<void> {
  const numbers = [undefined, 0, 3, 3, 3, 7, 9, 9, 12];
  const ids: string[] = [];
  for (const [index, number] of numbers.entries()) {
    const id = `n${index}`;
    const project = index % 3 === 0 ? "q" : "p";
    if (project === "p") ids.unshift(id);
    await store.change([
      put(id, { project, body: JSON.stringify(number === undefined ? {} : { number }) }),
      put(`other ${id}`, { collection: "other" }),
    ]);
  }
  await store.change([{ kind: "delete", collection: "thing", id: "n4" }]);
  for (let value = -1; value <= 13; value += 1) {
    const query = { collection: "thing", isNewestFirst: true, atMost: { member: "number", value } };
    const wanted = ids.filter((id) => id !== "n4" && (numbers[Number(id.slice(1))] ?? 0) <= value);
    for (const limit of [1, 2, 100]) {
      const found = await store.records("p", { ...query, limit });
      assert.deepEqual(
        found.map(({ id }) => id),
        wanted.slice(0, limit),
      );
    }
  }
}

async function readsBehindWrites(store: Store): Promise<void> {
  const calls: Promise<unknown>[] = [];
  const seen: Promise<number>[] = [];
  for (let index = 0; index < 100; index += 1) {
    calls.push(store.change([put("a", { body: String(index) })]));
    seen.push(store.record("p", "thing", "a").then((found) => Number(found?.body)));
  }
  await Promise.all(calls);
  for (const [index, found] of (await Promise.all(seen)).entries()) assert.ok(found >= index);
}

async function copiesRecords(store: Store): Promise<void> {
  const whole = bytes("before and behind");
  const payload = Buffer.from(whole.buffer, whole.byteOffset + 7, 3);
  const changes = [put("a", { payload })];
  const changed = store.change(changes);
  whole.fill(0x78);
  changes.push(put("late"));
  await changed;
  assert.equal(await textOf(store, "a"), "and");
  (await store.record("p", "thing", "a"))?.payload?.fill(0);
  assert.equal(await textOf(store, "a"), "and");
  assert.deepEqual(await idsOf(store), ["a"]);
}

async function refusesTexts(store: Store): Promise<void> {
  for (const text of ["a\u0000b", "\ud800", "\udc00 later"]) {
    for (const parts of [{ id: text }, { project: text }, { parent: text }, { body: text }])
      await rejectsWith("usage", store.change([put("a"), { kind: "put", record: record("b", parts) }]));
    assert.equal(await store.record("p", "thing", text), undefined);
  }
  assert.deepEqual(await idsOf(store), []);
  await store.change([put("😀 \u0001 ü")]);
  assert.deepEqual(await idsOf(store), ["😀 \u0001 ü"]);
}

function record(id: string, parts: Partial<StoredRecord> = {}): StoredRecord {
  return { collection: "thing", id, project: "p", parent: "", createdWallMs: 1, body: "{}", ...parts };
}

function put(id: string, parts: Partial<StoredRecord> = {}): RecordChange {
  return { kind: "put", record: record(id, parts) };
}

function insert(id: string, parts: Partial<StoredRecord> = {}): RecordChange {
  return { kind: "insert", record: record(id, parts) };
}

async function idsOf(store: Store, query: Partial<RecordQuery> = {}): Promise<string[]> {
  const found = await store.records(EVERY_PROJECT, { collection: "thing", limit: 1_000, ...query });
  return found.map((one) => one.id);
}

async function textOf(store: Store, id: string): Promise<string> {
  return new TextDecoder().decode((await store.record("p", "thing", id))?.payload);
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Members that are not there and undefined ones alike; bytes by what they hold. */
function plain(found: StoredRecord | undefined): unknown {
  return { ...found, payload: found?.payload === undefined ? undefined : [...found.payload] };
}
