import { describe, expect, it } from "vitest";
import { derivedId } from "../../src/work/derived_id.ts";

describe("derivedId", () => {
  it("is a UUID of version 8, the same for the same parent and name, and another for any other", () => {
    const id = derivedId("a", "b");
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(derivedId("a", "b")).toBe(id);
    expect(
      new Set([id, derivedId("a", "c"), derivedId("b", "b"), derivedId("ab", ""), derivedId("", "ab")]).size,
    ).toBe(5);
  });
});
