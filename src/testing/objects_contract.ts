/**
 * The contract of `Objects`: what every place promises.
 */
import assert from "node:assert/strict";
import type { ListedObject, Objects } from "../store/objects/objects.ts";
import { type ContractCase, rejectsWith } from "./contract_case.ts";

const CHUNK_BYTES = 1 << 20;

/** `open` opens a place that has no objects; two of one case open the same. */
export function objectsContract(place: () => Promise<() => Promise<Objects>>): ContractCase[] {
  const with2 = (run: (one: Objects, other: Objects) => Promise<void>) => async (): Promise<void> => {
    const open = await place();
    const [one, other] = [await open(), await open()];
    try {
      await run(one, other);
    } finally {
      await one.close();
      await other.close();
    }
  };
  const named = (name: string, run: (one: Objects, other: Objects) => Promise<void>): ContractCase => ({
    name,
    run: with2(run),
  });
  return [
    named("an object that is stored is read by another process, whole and in ranges", async (one, other) => {
      const bytes = patterned(2 * CHUNK_BYTES + 77);
      await one.put("p1/7/0-1.e1", bytes);
      assert.deepEqual(same(await other.get("p1/7/0-1.e1", 0, bytes.byteLength), bytes), "same");
      for (const [start, end] of [
        [0, 1],
        [CHUNK_BYTES - 3, CHUNK_BYTES + 5],
        [CHUNK_BYTES, 2 * CHUNK_BYTES],
        [10, 2 * CHUNK_BYTES + 50],
      ] as const)
        assert.equal(
          same(await other.get("p1/7/0-1.e1", start, end - start), bytes.subarray(start, end)),
          "same",
          `${start} to ${end}`,
        );
    }),
    named("a range is shorter at the end of an object, and empty behind it", async (one) => {
      await one.put("p1/short", patterned(10));
      assert.equal((await one.get("p1/short", 7, 100))?.byteLength, 3);
      assert.equal((await one.get("p1/short", 10, 100))?.byteLength, 0);
    }),
    named("an object that does not exist is undefined, and may be removed", async (one) => {
      assert.equal(await one.get("p1/none", 0, 10), undefined);
      await one.remove("p1/none");
    }),
    named("a put may be repeated, with the same bytes only", async (one, other) => {
      await one.put("p1/again", patterned(100));
      await other.put("p1/again", patterned(100));
      assert.equal(same(await one.get("p1/again", 0, 200), patterned(100)), "same");
    }),
    named("an object that was removed is gone for others", async (one, other) => {
      await one.put("p1/gone", patterned(5));
      await other.remove("p1/gone");
      assert.equal(await one.get("p1/gone", 0, 5), undefined);
    }),
    named("objects are listed by prefix, each once, with their age", async (one, other) => {
      for (const name of ["p1/1/a", "p1/1/b", "p1/2/a", "p11/1/a", "p2/1/a"])
        await one.put(name, patterned(3));
      assert.deepEqual(names(await all(other.list("p1/"))), ["p1/1/a", "p1/1/b", "p1/2/a"]);
      assert.deepEqual(names(await all(other.list("p2/1/"))), ["p2/1/a"]);
      assert.deepEqual(names(await all(other.list("p3/"))), []);
      for (const { ageMs } of await all(other.list("p1/")))
        assert.ok(ageMs >= 0 && ageMs < 60_000, `${ageMs}`);
    }),
  ];
}

/** For places that refuse to replace an object. */
export function keepingObjectsContract(open: () => Promise<Objects>): ContractCase[] {
  return [
    {
      name: "a put with other bytes is a conflict, and what was stored stays",
      run: async () => {
        const objects = await open();
        await objects.put("p1/once", patterned(100));
        await rejectsWith("conflict", objects.put("p1/once", patterned(99)));
        await rejectsWith("conflict", objects.put("p1/once", patterned(100).fill(1)));
        assert.equal(same(await objects.get("p1/once", 0, 200), patterned(100)), "same");
        await objects.close();
      },
    },
  ];
}

function patterned(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, index) => (index * 31 + (index >> 8)) & 255);
}

function same(found: Uint8Array | undefined, expected: Uint8Array): string {
  if (found === undefined) return "nothing";
  return Buffer.compare(found, expected) === 0 ? "same" : `other: ${found.byteLength} bytes`;
}

async function all(listed: AsyncIterable<ListedObject>): Promise<ListedObject[]> {
  const found: ListedObject[] = [];
  for await (const one of listed) found.push(one);
  return found;
}

function names(listed: readonly ListedObject[]): string[] {
  return listed.map(({ name }) => name).toSorted();
}
