/** Lists of numbers in JSON, checked as bytes. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NumberLists } from "../../../src/providers/endpoints/number_list.ts";

const NUMBER = "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?";
const NUMBERS = new RegExp(`^${NUMBER}(?:,${NUMBER})*$`);

const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => JSON.stringify(each)),
  fc.integer().map(String),
  fc.constantFrom("0", "-0", "0.5", "-1e-7", "1E+30", "12.50e0", "9"),
);
const list = fc.array(number, { minLength: 1, maxLength: 200 }).map((numbers) => numbers.join(","));
/** One byte of a list is another one, is missing, or is there twice. */
const broken = fc
  .tuple(
    list,
    fc.nat(),
    fc.oneof(fc.constantFrom(..."0159-+.eE, ]"), fc.string({ unit: "binary" })),
    fc.nat(1),
  )
  .map(([text, at, other, taken]) => {
    const place = at % text.length;
    return `${text.slice(0, place)}${other}${text.slice(place + taken)}`;
  });

/** The list in an answer, at each alignment. */
function isList(text: string, before: string): boolean {
  const bytes = Buffer.from(`${before}${text}],1`);
  const end = bytes.byteLength - 3;
  return new NumberLists(bytes).has(before.length, end);
}

describe("a list of numbers", () => {
  it("is one where all of it is numbers with commas between them, short or long", () => {
    fc.assert(
      fc.property(fc.oneof(list, broken), fc.constantFrom("[", ":[", "[1,2],["), (text, before) => {
        expect(isList(text, before)).toBe(NUMBERS.test(text));
      }),
      { numRuns: 3_000 },
    );
  });

  it("is none if any one byte of it is wrong", () => {
    const text = Array.from({ length: 60 }, (_, index) => (Math.sin(index + 1) / 16).toFixed(8)).join(",");
    expect(isList(text, "[")).toBe(true);
    for (let at = 0; at < text.length; at += 1)
      for (const other of ["", " ", "x", ",", "-", "."]) {
        const changed = `${text.slice(0, at)}${other}${text.slice(at + 1)}`;
        if (changed !== text)
          expect([changed, isList(changed, "[")]).toEqual([changed, NUMBERS.test(changed)]);
      }
  });

  it.each(["", ",", "1,", ",1", "1,,2", "-", "01", "1.", ".5", "1e", "1e+", "+1", "NaN", "1 ", "１"])(
    "is none: %j",
    (text) => {
      expect(isList(text, "[")).toBe(false);
    },
  );
});
