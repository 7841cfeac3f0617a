/** The columns of open tasks against a map, over the borders where they grow, close their holes and wrap their index. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OpenColumns, type OpenTask } from "../../src/log/open_columns.ts";

const row = (number: number, parts: Partial<OpenTask> = {}): OpenTask => ({
  ...{
    number,
    items: 1,
    left: 1,
    deadlineMs: number + 0.5,
    project: 0xffff_ffff,
    kind: 255,
    restStatus: 4,
    sequence: 2 ** 40,
  },
  ...parts,
});

describe("columns of open tasks", () => {
  it("hold what a map holds, in the order in which rows were put", () => {
    // As many as the index takes before it grows: they collide.
    const number = fc.nat({ max: 60 }).map((low) => 1 + low * 16);
    const step = fc.record({ is: fc.constantFrom("put", "put", "delete", "update"), number, left: fc.nat() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const columns = new OpenColumns();
        const model = new Map<number, OpenTask>();
        for (let each = 1; each <= 1_000; each += 1) {
          columns.put(row(each));
          model.set(each, row(each));
        }
        for (const { is, number, left } of steps) {
          if (is === "put") {
            columns.put(row(number, { left }));
            model.delete(number);
            model.set(number, row(number, { left }));
          } else if (is === "delete") {
            columns.delete(number);
            model.delete(number);
          } else {
            const change = { items: 7, left, restStatus: 0, kind: 0 };
            columns.update(number, change);
            const known = model.get(number);
            if (known !== undefined) model.set(number, { ...known, ...change });
          }
        }
        expect([...columns]).toEqual([...model.values()]);
        expect(columns.size).toBe(model.size);
        for (const { number } of steps) expect(columns.get(number)).toEqual(model.get(number));
      }),
    );
  });

  it("go one by one, the oldest first, beside 300,000 others", () => {
    const columns = new OpenColumns();
    const count = 300_000;
    for (let number = 1; number <= count; number += 1) columns.put(row(number));
    for (let number = 1; number < count; number += 1) columns.delete(number); // quadratic: minutes
    expect([...columns]).toEqual([row(count)]);
  });

  it.each([1_023, 1_024, 1_025, 2_047, 2_048, 2_049, 5_000])(
    "find each of %i rows, and again when half are gone",
    (count) => {
      const columns = new OpenColumns();
      for (let number = 1; number <= count; number += 1) columns.put(row(number));
      for (let number = 1; number <= count; number += 1) expect(columns.get(number)).toEqual(row(number));
      for (let number = 1; number <= count; number += 2) columns.delete(number);
      for (let number = count + 1; number <= count * 2; number += 1) columns.put(row(number * 1_000_003));
      for (let number = 1; number <= count; number += 1)
        expect(columns.get(number)?.number).toBe(number % 2 === 0 ? number : undefined);
      expect(columns.get((count + 1) * 1_000_003)?.number).toBe((count + 1) * 1_000_003);
      expect(columns.get(count * 3)).toBeUndefined();
      expect([...columns]).toHaveLength(count + Math.floor(count / 2));
    },
  );

  it("take no more place while rows come and go", () => {
    const columns = new OpenColumns();
    for (let number = 1; number <= 200_000; number += 1) {
      columns.put(row(number));
      if (number > 100) columns.delete(number - 100);
    }
    expect([...columns].map(({ number }) => number)).toEqual(
      Array.from({ length: 100 }, (_, index) => 199_901 + index),
    );
  });
});
