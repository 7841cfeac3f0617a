/** The share of the limit that is sent while part of it is rejected. */
import { describe, expect, it } from "vitest";
import { Throttle } from "../../src/limits/throttle.ts";

function throttleAfter(answers: readonly boolean[]): Throttle {
  const throttle = new Throttle();
  for (const [index, isAccepted] of answers.entries()) throttle.answered(index, isAccepted);
  return throttle;
}

describe("Throttle", () => {
  it("sends all while at least 58 % are accepted", () => {
    expect(throttleAfter(Array.from({ length: 500 }, (_, index) => index % 5 !== 0)).share(500)).toBe(1);
  });

  it("fault 45: sends at most 60 % when 70 % are rejected", () => {
    const share = throttleAfter(Array.from({ length: 5_000 }, (_, index) => index % 10 < 3)).share(5_000);
    expect(share).toBeGreaterThan(0.4);
    expect(share).toBeLessThan(0.62);
  });

  it("keeps a quarter when all is rejected, and is back after 28 accepted answers", () => {
    const throttle = throttleAfter(Array.from({ length: 500 }, () => false));
    expect(throttle.share(500)).toBe(0.25);
    for (let each = 0; each < 28; each++) throttle.answered(501, true);
    expect(throttle.share(501)).toBe(1);
  });

  it("forgets after five quiet minutes", () => {
    const throttle = throttleAfter(Array.from({ length: 500 }, () => false));
    expect(throttle.share(301_000)).toBe(1);
    throttle.answered(302_000, false);
    expect(throttle.share(302_000)).toBe(1);
  });
});
