/** How many other items a lane fails at a moment. */
import { describe, expect, it } from "vitest";
import { OtherFailures } from "../../src/queue/failures/other_failures.ts";

/** Items 0 to `count` - 1 have failed, each in a request that was sent at its number in ms. */
function failed(count: number): OtherFailures<number> {
  const failures = new OtherFailures<number>();
  for (let item = 0; item < count; item++) failures.failed(item, item);
  return failures;
}

describe("failures of other items", () => {
  it("count each item once, and not the one that asks", () => {
    const failures = failed(3);
    failures.failed(0, 10);
    expect([0, 1, 2, 3].map((item) => failures.beside(item))).toEqual([2, 2, 2, 3]);
  });

  it("count only those that the caller asks for", () => {
    expect(failed(4).beside(0, (item) => item % 2 === 1)).toBe(2);
  });

  it("count six items at most, the last ones", () => {
    const failures = failed(10);
    expect(failures.beside(99)).toBe(6);
    expect(failures.beside(9)).toBe(5);
    expect(failures.beside(3)).toBe(6);
    expect(failures.beside(4)).toBe(5);
  });

  it("are over with an answer to a request that was sent after theirs, or at the same time", () => {
    const failures = failed(5);
    failures.answered(3);
    expect(failures.beside(99)).toBe(1);
    failures.answered(4);
    expect(failures.beside(99)).toBe(0);
  });

  it("lose one, the oldest, by an answer to an earlier request", () => {
    const failures = failed(5);
    failures.answered(-1);
    expect([0, 1].map((item) => failures.beside(item))).toEqual([4, 3]);
    for (let answers = 0; answers < 4; answers++) failures.answered(-1);
    expect(failures.beside(99)).toBe(0);
  });
});
