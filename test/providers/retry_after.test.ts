/** What counts as a wait, for providers, executions and webhooks. */
import { describe, expect, it } from "vitest";
import { protoDurationMs, refusalWaitMs, retryAfterMs } from "../../src/providers/retry_after.ts";

const NOW = Date.parse("2026-11-20T11:00:00Z");
const DAY = 86_400_000;

describe("a Retry-After", () => {
  const waits: readonly (readonly [string, number | undefined])[] = [
    ["7", 7_000],
    [" 7 ", 7_000],
    ["0.25", 250],
    [" 0.2504 ", 251],
    ["Fri, 20 Nov 2026 11:00:07 GMT", 7_000],
    ["86400", DAY],
    ["86401", DAY],
    ["999999999999999999", DAY],
    ["9".repeat(400), DAY], // no finite number
    ["Thu, 20 Nov 2127 11:00:00 GMT", DAY],
    ["Fri, 31 Dec 9999 23:59:59 GMT", DAY],
    ["", undefined],
    ["0", undefined],
    ["0.001", undefined],
    ["-5", undefined],
    ["+5", undefined],
    ["1e3", undefined],
    ["0x10", undefined],
    ["Fri, 20 Nov 2026", undefined],
    ["5s", undefined],
    ["soon", undefined],
    ["NaN", undefined],
    ["Infinity", undefined],
    ["5, 10", undefined], // two headers
    ["Fri, 20 Nov 2026 11:00:07 GMT, Fri, 20 Nov 2026 11:00:09 GMT", undefined],
    ["Wed, 21 Oct 2015 07:28:00 GMT", undefined],
    ["2026-11-20T12:00:00Z", undefined],
  ];
  for (const [text, waitMs] of waits)
    it(`of ${JSON.stringify(text.slice(0, 64))} is ${waitMs === undefined ? "no wait" : `${waitMs} ms`}`, () => {
      expect(retryAfterMs({ "retry-after": text }, NOW)).toBe(waitMs);
    });

  it("counts after the one in milliseconds, unless that is nonsense", () => {
    const both = (precise: string) => retryAfterMs({ "retry-after-ms": precise, "retry-after": "7" }, NOW);
    expect(["250", "9".repeat(18), "0", "-1", "", "1e3"].map(both)).toEqual([
      250,
      DAY,
      ...Array(4).fill(7_000),
    ]);
  });
});

it("a wait in a body is a proto duration, of any length", () => {
  expect(["37s", "0.5s", "86401s"].map(protoDurationMs)).toEqual([37_000, 500, DAY + 1_000]);
  expect(refusalWaitMs(protoDurationMs("37s"))).toBe(37_000);
  expect(refusalWaitMs(protoDurationMs(`${"9".repeat(18)}s`))).toBeUndefined();
  for (const text of ["37", "-1s", "0.05s", "s", "1m", 37, null])
    expect(protoDurationMs(text)).toBeUndefined();
  expect(retryAfterMs({}, NOW)).toBeUndefined();
});

it("a time of a reset is one in milliseconds within a day, and else in another unit", () => {
  const resets = (ms: number) => retryAfterMs({ "x-ratelimit-reset": String(ms) }, NOW);
  expect(resets(NOW + 9_000)).toBe(9_000);
  expect([NOW / 1_000 + 9, NOW - 1, NOW + DAY + 1, NOW * 1_000].map(resets)).toEqual(
    Array(4).fill(undefined),
  );
});
