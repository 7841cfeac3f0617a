import fc from "fast-check";
import { expect, it } from "vitest";
import { wallMsOf } from "../../src/spend/times.ts";

it("reads what JavaScript writes as ISO 8601, with any zone", () => {
  const years = { min: new Date("1971-01-01"), max: new Date("2099-12-31"), noInvalidDate: true };
  fc.assert(
    fc.property(fc.date(years), fc.integer({ min: -14, max: 14 }), (date, hours) => {
      const iso = date.toISOString();
      expect(wallMsOf(iso)).toBe(date.getTime());
      expect(wallMsOf(iso.replace("T", " ").slice(0, -1))).toBe(date.getTime());
      const zone = `${hours < 0 ? "-" : "+"}${String(Math.abs(hours)).padStart(2, "0")}:30`;
      const zoned = `${iso.slice(0, -1)}${zone}`;
      expect(wallMsOf(zoned)).toBe(Date.parse(zoned));
    }),
  );
});

it("tells Unix seconds, milliseconds and nanoseconds apart", () => {
  const ms = Date.UTC(2026, 9, 24, 22, 2, 42, 975);
  expect(wallMsOf(ms / 1_000)).toBe(ms);
  expect(wallMsOf(ms)).toBe(ms);
  expect(wallMsOf(`${ms}000000`)).toBe(ms);
});

it.each([
  undefined,
  null,
  "",
  "yesterday",
  "2026-13-01T00:00:00Z",
  "2026-10-2xT00:00:00Z",
  -1,
  Number.NaN,
  {},
])("takes %s for no time", (value) => {
  expect(wallMsOf(value)).toBeNaN();
});
