/** Regular expressions of others: refused when they hang, bounded when they are used. */
import { describe, expect, it } from "vitest";
import { safePattern } from "../src/safe_pattern.ts";

describe("a pattern of others", () => {
  it.each(["^(a+)+$", "^foo(x+x+)+y", "(\\d+)*!$"])("is refused when it hangs: %s", (source) => {
    expect(() => safePattern(source, "u")).toThrow(RangeError);
  });

  it("is taken with repeated groups that do not hang, and matches as written", () => {
    const slug = safePattern("^[a-z0-9]+(?:-[a-z0-9]+)*$", "u");
    expect([slug.test("one-two-three-four-five"), slug.test("One two three four five")]).toEqual([
      true,
      false,
    ]);
  });

  it("does not match a text that takes too long", () => {
    const pattern = safePattern("^(?:[\\u0430-\\u044f]|[\\u0430-\\u044f])*$", "u"); // hangs on characters that no trial has
    expect(pattern.test(`${"ж".repeat(60)}!`)).toBe(false);
  });
});
