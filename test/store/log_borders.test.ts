/** Every constant of the work log that cuts or pages, crossed and missed by one. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EndedTasks } from "../../src/log/ended_tasks.ts";
import { LaneMemory } from "../../src/log/lane_memory.ts";
import { OpenWork } from "../../src/log/open_work.ts";
import {
  BITS_ITEMS,
  eachRecord,
  LogRecords,
  recordBytes,
  SUMS_ITEM,
  UNCOUNTED_ITEMS,
  writeEntry,
} from "../../src/log/records.ts";
import { StagedCommit } from "../../src/log/staged_commit.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { outcomeOf, settled, text, work } from "../../src/testing/work_log_calls.ts";

const clock = new FakeClock();
const TEXT = { textBytes: 0, textCrc32: 0, isLine: 0 };

/** Work with one task, of which these items ended. */
function workWith(items: number, ended: Iterable<number>): OpenWork {
  const open = new OpenWork(new LaneMemory());
  open.apply({ is: "accepted", task: 1, items, deadlineMs: 1, project: 1, kind: 1 }, 1);
  for (const item of ended) open.apply({ is: "outcome", ...outcomeOf(1, item, { usd: 1 }), ...TEXT }, 1);
  return open;
}

/** The same after it was stated and read. */
function restated(open: OpenWork): { readonly read: OpenWork; readonly bytes: number } {
  const records = new LogRecords();
  for (const task of open.tasks) open.state(task, records, clock.moment());
  const read = new OpenWork(new LaneMemory());
  const header = { firstSequence: 1, nextTask: 2, names: 0, moment: clock.moment() };
  eachRecord(writeEntry(header, [records]), (record) => read.apply(record, 2));
  return { read, bytes: records.byteLength };
}

describe("a statement of a task", () => {
  const borders = [
    BITS_ITEMS - 1,
    BITS_ITEMS,
    BITS_ITEMS + 1,
    2 * BITS_ITEMS - 1,
    2 * BITS_ITEMS,
    2 * BITS_ITEMS + 1,
  ];

  it.each(borders)("says which of %i items have ended, for any ranges", (items) => {
    const range = fc.record({ first: fc.nat({ max: items - 1 }), count: fc.nat({ max: BITS_ITEMS + 2 }) });
    fc.assert(
      fc.property(fc.array(range, { maxLength: 3 }), (ranges) => {
        const ended = new Set(
          ranges.flatMap(({ first, count }) =>
            Array.from({ length: Math.min(count, items - 1 - first) }, (_, index) => first + index),
          ),
        );
        const { read } = restated(workWith(items, ended));
        const open = Array.from({ length: items }, (_, item) => item).filter((item) => read.isOpen(1, item));
        expect(open).toEqual(
          Array.from({ length: items }, (_, item) => item).filter((item) => !ended.has(item)),
        );
        expect(read.tasks.get(1)?.left).toBe(items - ended.size);
        expect(read.sumsOf(1).usd).toBe(ended.size);
        expect(read.isOpen(1, items)).toBe(false);
      }),
      { numRuns: 25 },
    );
  });

  it("takes a range for items that ended one after the other, and bits for others", () => {
    const count = (length: number) => Array.from({ length }, (_, item) => item);
    const head = recordBytes("accepted") + recordBytes("sums");
    const items = 10 * BITS_ITEMS;
    const sizes = [BITS_ITEMS - 1, BITS_ITEMS, BITS_ITEMS + 1, 9 * BITS_ITEMS, 9 * BITS_ITEMS + 1].map(
      (length) => restated(workWith(items, count(length))).bytes - head,
    );
    const [range, bits] = [recordBytes("doneRange"), recordBytes("doneBits")];
    expect(sizes).toEqual([bits, range, range + bits, range, range + bits]);
    const apart = [
      0,
      ...count(items).slice(BITS_ITEMS, 2 * BITS_ITEMS),
      ...count(items).slice(5 * BITS_ITEMS, 6 * BITS_ITEMS),
    ];
    expect(restated(workWith(items, apart)).bytes - head).toBe(bits + 2 * range);
  });

  it.each([0, 1, 2, UNCOUNTED_ITEMS - 1, UNCOUNTED_ITEMS])("of %i items says how many are left", (items) => {
    const open = workWith(items, []);
    const { read } = restated(open);
    expect([read.tasks.get(1)?.items, read.tasks.get(1)?.left]).toEqual([items, items]);
    expect([...read.finished]).toEqual(items === 0 ? [1] : []);
    expect([read.isOpen(1, Math.max(0, items - 1)), read.isOpen(1, items)]).toEqual([items > 0, false]);
  });
});

describe("the sums of a task", () => {
  const NUMBERS = [
    ...["attempts", "ambiguousAttempts", "inputTokens", "cachedTokens", "cacheWriteTokens", "outputTokens"],
    ...["reasoningTokens", "listUsd", "usd", "billedUsd", "ambiguousUsd"],
  ] as const;
  const taken = fc.record(Object.fromEntries(NUMBERS.map((name) => [name, fc.nat({ max: 999 })])));

  it("are those of its outcomes in each of their parts, stated again or not", () => {
    fc.assert(
      fc.property(fc.array(taken, { minLength: 1, maxLength: 6 }), (all) => {
        const open = workWith(all.length + 1, []);
        for (const [item, parts] of all.entries())
          open.apply({ is: "outcome", ...outcomeOf(1, item, parts), ...TEXT }, 1);
        for (const work of [open, restated(open).read]) {
          const sums: Readonly<Record<string, number>> = { ...work.sumsOf(1) };
          for (const name of NUMBERS)
            expect([name, sums[name]]).toEqual([
              name,
              all.reduce((sum, parts) => sum + (parts[name] ?? 0), 0),
            ]);
        }
      }),
    );
  });
});

describe("what is staged for a commit", () => {
  it("counts with its records and with each of its texts, so that its bound holds for all of them", () => {
    const staged = new StagedCommit();
    const row = { number: 1, id: "a", project: 1, kind: 1, parent: "", createdWallMs: 1, body: "" };
    const record = staged.records.addOutcome(outcomeOf(1, 0), 1, 0, true);
    const recordOnly = staged.byteLength;
    expect(recordOnly).toBe(recordBytes("outcome"));
    staged.accept(row, text("ü"));
    staged.answer(1, 0, record, text("four"));
    staged.line(1, 1, record, text("sixsix"));
    expect(staged.byteLength).toBe(recordOnly + 2 + 4 + 6);
  });
});

describe("a work log", () => {
  it.each([255, 256, 257, 513])("returns all of %i answers, page by page", async (count) => {
    const log = await openWorkLog({ store: createMemoryStore(), clock });
    const { task } = log.accept(work("a", { items: count }));
    for (let item = 0; item < count; item += 1) void log.end(outcomeOf(task, item), text(String(item)));
    await settled(log);
    const found: number[] = [];
    for (let from = 0; from <= SUMS_ITEM; from = (found.at(-1) ?? 0) + 1) {
      const page = await log.rows.loggedAnswers(task, from, 1_000);
      found.push(...page.map(({ item }) => item));
    }
    expect(found).toEqual([...Array.from({ length: count }, (_, item) => item), SUMS_ITEM]);
    await log.close();
  });

  it.each([
    [{ items: -1 }, /count of 32 bits/],
    [{ items: UNCOUNTED_ITEMS + 1 }, /count of 32 bits/],
    [{ items: 1.5 }, /count of 32 bits/],
    [{ kind: -1 }, /8 bits/],
    [{ kind: 256 }, /8 bits/],
  ])("takes no task of %o", async (parts, message) => {
    const log = await openWorkLog({ store: createMemoryStore(), clock });
    expect(() => log.accept(work("a", parts))).toThrow(message);
    for (const fits of [{ items: UNCOUNTED_ITEMS - 1 }, { kind: 0 }, { kind: 255 }])
      await log.accept(work(JSON.stringify(fits), fits)).durable;
    await log.close();
  });

  it("is cut when it passes its floor, and not at it", async () => {
    const entryBytes = async (cutFloorBytes: number): Promise<number[]> => {
      const log = await openWorkLog({
        store: createMemoryStore(),
        clock,
        cutFloorBytes,
        restatedBytesMin: 0,
      });
      const sizes: number[] = [];
      for (let round = 0; round < 12; round += 1) {
        await log.hold({ task: 9, reason: 1, sinceMs: 1, nextMs: 1 });
        sizes.push(log.logBytes);
      }
      await log.close();
      return sizes;
    };
    const [one = 0] = await entryBytes(1 << 20);
    expect(await entryBytes(5 * one)).toEqual(
      [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6].map((count) => count * one),
    );
    expect(await entryBytes(5 * one - 1)).toEqual(
      [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2].map((count) => count * one),
    );
  });
});

describe("tasks that ended", () => {
  it.each([
    [4, [5, 6]],
    [5, [6]],
    [6, []],
  ])("are forgotten up to entry %i, and with it", (upTo, left) => {
    const ended = new EndedTasks();
    ended.add(1, 5);
    ended.add(2, 6);
    ended.forget(upTo);
    expect([...ended].map(([, sequence]) => sequence)).toEqual(left);
    expect(ended.firstSequence).toBe(left[0] ?? Number.POSITIVE_INFINITY);
  });
});
