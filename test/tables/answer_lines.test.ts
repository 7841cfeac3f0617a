/**
 * Answers found by the keys of rows: whatever the order of the file, each once, and with few reads.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Disk, DiskFile } from "../../src/disk.ts";
import { AnswerLines } from "../../src/tables/answer_lines.ts";
import { PlacesByHash } from "../../src/tables/places_by_hash.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";

const lineOf = (key: string, text: string): string => JSON.stringify({ key, output: { type: "text", text } });

describe("answers of a file", () => {
  it("are found by their keys in any order, with lines of any length", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.record({ key: fc.string({ unit: "binary" }), length: fc.nat(300_000) }), {
          selector: ({ key }) => key,
          maxLength: 20,
        }),
        fc.infiniteStream(fc.nat()),
        async (answers, chances) => {
          const lines = answers.map(({ key, length }, index) => lineOf(key, `${index}`.padEnd(length)));
          const disk = new MemoryDisk();
          disk.put("answers", lines.map((line) => `${line}\n`).join(""));
          const found = await AnswerLines.open(disk, "answers");
          for (const index of shuffled(lines.length, chances)) {
            const key = answers[index]?.key ?? "";
            expect((found.take(key) ?? (await found.find(key))) === lines[index]).toBe(true);
          }
          expect(await found.find("no key of them".repeat(9))).toBe(undefined);
          await found.close();
        },
      ),
      { numRuns: 12 },
    );
  });

  it("are read once where 512 are in flight, and twice where the first row is answered last", async () => {
    const keys = Array.from({ length: 6_000 }, (_, index) => String(index + 1));
    const text = "x".repeat(1_000);
    const inFlight = keys.toSorted((one, other) => turnOf(Number(one)) - turnOf(Number(other)));
    const [first = "", ...others] = keys;
    for (const [order, readsMost] of [
      [keys, 1.03],
      [inFlight, 1.03],
      [[...others, first], 2.04],
    ] as const) {
      const content = order.map((key) => `${lineOf(key, text)}\n`).join("");
      const { disk, bytesRead } = countedDisk(content);
      const found = await AnswerLines.open(disk, "answers");
      let right = 0;
      for (const key of keys)
        if ((found.take(key) ?? (await found.find(key))) === lineOf(key, text)) right += 1;
      expect(right).toBe(keys.length);
      expect(bytesRead() / content.length).toBeLessThan(readsMost);
    }
  });

  it("are told apart where their keys have one hash", async () => {
    const keys = ["797186", "40189"]; // FNV-1a of both is 270439499
    const disk = new MemoryDisk();
    disk.put("answers", [...keys, "last"].map((key) => `${lineOf(key, key)}\n`).join(""));
    for (const asked of [keys, keys.toReversed()]) {
      const found = await AnswerLines.open(disk, "answers");
      for (const key of ["last", ...asked]) expect(await found.find(key)).toBe(lineOf(key, key));
    }
  });
});

describe("places by hash", () => {
  it("are those that were added and not removed, whatever their hashes", () => {
    const changes = fc.array(
      fc.record({
        hash: fc.oneof(
          fc.nat(5),
          fc.nat(0xffff_ffff),
          fc.nat(1_000).map((n) => n * 2 ** 17),
        ),
        isRemoved: fc.boolean(),
      }),
      { maxLength: 2_000, size: "max" },
    );
    fc.assert(
      fc.property(changes, (list) => {
        const table = new PlacesByHash();
        const expected = new Map<number, number[]>();
        for (const [place, { hash, isRemoved }] of list.entries()) {
          const places = expected.get(hash) ?? [];
          expected.set(hash, places);
          if (!isRemoved) {
            table.add(hash, place);
            places.push(place);
          } else if (places.length > 0) {
            const slot = table.first(hash);
            places.splice(places.indexOf(table.placeAt(slot)), 1);
            table.remove(slot);
          }
        }
        for (const [hash, places] of expected) {
          const found: number[] = [];
          for (let slot = table.first(hash); slot >= 0; slot = table.after(slot))
            found.push(table.placeAt(slot));
          expect(found.toSorted((a, b) => a - b)).toEqual(places.toSorted((a, b) => a - b));
        }
        expect(table.count).toBe([...expected.values()].flat().length);
      }),
      { numRuns: 30 },
    );
  });
});

/** When the item is answered: within 512 of its place. */
function turnOf(number: number): number {
  return number + ((number * 7_919) % 512);
}

function shuffled(count: number, chances: Iterator<number>): number[] {
  const order = Array.from({ length: count }, (_, index) => index);
  for (let last = count - 1; last > 0; last -= 1) {
    const other = (chances.next().value as number) % (last + 1);
    [order[last], order[other]] = [order[other] as number, order[last] as number];
  }
  return order;
}

/** A disk with one file that counts what is read of it. */
function countedDisk(content: string): {
  readonly disk: Pick<Disk, "open">;
  readonly bytesRead: () => number;
} {
  const memory = new MemoryDisk();
  memory.put("answers", content);
  let bytesRead = 0;
  const open: Disk["open"] = async (path, mode) => {
    const file = await memory.open(path, mode);
    const read: DiskFile["read"] = async (into, position) => {
      const length = await file.read(into, position);
      bytesRead += length;
      return length;
    };
    return { ...file, read };
  };
  return { disk: { open }, bytesRead: () => bytesRead };
}
