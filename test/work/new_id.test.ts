import { describe, expect, it } from "vitest";
import { newId } from "../../src/work/new_id.ts";
import { stemOf } from "../../src/work/object_id.ts";

describe("newId", () => {
  it("is a UUID of version 7 in small letters", () => {
    expect(newId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it("begins with the time in milliseconds", () => {
    const beforeMs = idMs(newId());
    expect(idMs(newId())).toBeGreaterThanOrEqual(beforeMs);
    expect(new Date(beforeMs).getUTCFullYear()).toBeGreaterThanOrEqual(2026);
  });

  it("makes no two ids with one stem, however many in a millisecond, nor with one ending", () => {
    const ids = Array.from({ length: 100_000 }, newId);
    expect(new Set(ids.map(stemOf)).size).toBe(ids.length);
    expect(new Set(ids.map((id) => id.slice(-8))).size).toBeGreaterThan(ids.length - 20);
  });
});

function idMs(id: string): number {
  return Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
}
