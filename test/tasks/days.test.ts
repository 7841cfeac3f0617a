/** Months between two days, which sums of usage are read by. */
import { expect, it } from "vitest";
import { DAY_MS, dayStartMs, monthsBetween } from "../../src/tasks/usage/days.ts";

it("months between two days are those of all days between them, each once and in order", () => {
  for (const from of ["2025-12-31", "2026-01-01", "2026-01-31", "2028-02-29"])
    for (let days = -1; days <= 400; days += 1) {
      const fromMs = dayStartMs(from);
      const all = Array.from({ length: days + 1 }, (_, day) => new Date(fromMs + day * DAY_MS));
      const months = new Set(all.map((day) => day.toISOString().slice(0, 7)));
      expect(monthsBetween(fromMs, fromMs + days * DAY_MS), `${from}, ${days} days`).toEqual([...months]);
    }
});
