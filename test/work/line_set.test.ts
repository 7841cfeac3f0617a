/** The bit table against a set of numbers. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { LineSet } from "../../src/work/line_set.ts";

const line = fc.integer({ min: 0, max: 300 });

it("holds what a set of numbers holds, for all that is added, taken away and added in ranges", () => {
  const step = fc.oneof(
    fc.record({ is: fc.constant("add" as const), line, count: fc.constant(1) }),
    fc.record({ is: fc.constant("delete" as const), line, count: fc.constant(1) }),
    fc.record({ is: fc.constant("range" as const), line, count: fc.integer({ min: 0, max: 70 }) }),
  );
  fc.assert(
    fc.property(fc.array(step), fc.integer({ min: 0, max: 100 }), (steps, room) => {
      const lines = new LineSet(room);
      const model = new Set<number>();
      for (const { is, line: first, count } of steps) {
        if (is === "delete") lines.delete(first);
        else if (is === "add") expect(lines.add(first)).toBe(!model.has(first));
        else lines.addRange(first, count);
        for (let each = first; each < first + count; each += 1)
          if (is === "delete") model.delete(each);
          else model.add(each);
      }
      expect(lines.size).toBe(model.size);
      expect(lines.highest).toBe(Math.max(0, ...model));
      for (let each = 0; each < 400; each += 1) expect(lines.has(each)).toBe(model.has(each));
    }),
  );
});

it("gives a table of a part of it, at any border", () => {
  fc.assert(
    fc.property(fc.uniqueArray(line), line, fc.integer({ min: 0, max: 90 }), (added, first, count) => {
      const lines = new LineSet();
      for (const each of added) lines.add(each);
      const expected = Array.from({ length: count }, (_, index) => added.includes(first + index));
      const table = lines.slice(first, count);
      const found = expected.map((_, index) => ((table?.[index >>> 3] ?? 0) & (1 << (index & 7))) !== 0);
      expect(found).toEqual(expected);
      expect(table === undefined).toBe(!expected.includes(true));
    }),
  );
});
