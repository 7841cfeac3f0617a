import { describe, expect, it } from "vitest";
import { hashApiKey, makeApiKey, randomBase62, shownPartOf } from "../../src/store/keys/api_key.ts";

describe("an API key", () => {
  it("has the form that scanners look for, and is another each time", () => {
    const keys = Array.from({ length: 1_000 }, makeApiKey);
    for (const key of keys) expect(key).toMatch(/^pgk_live_[0-9A-Za-z]{28}$/);
    expect(new Set(keys).size).toBe(1_000);
    const key = keys[0]!;
    expect(key.startsWith(`pgk_live_${shownPartOf(key)}`)).toBe(true);
    expect(shownPartOf(key)).toHaveLength(8);
  });

  it("draws each of 62 characters as often as the others", () => {
    const counts = new Map<string, number>();
    for (const character of randomBase62(62_000)) counts.set(character, (counts.get(character) ?? 0) + 1);
    expect(counts.size).toBe(62);
    for (const count of counts.values()) expect(Math.abs(count - 1_000)).toBeLessThan(200); // six deviations
  });

  it("is hashed when its checksum is right, and refused with any one character changed", () => {
    const key = makeApiKey();
    expect(hashApiKey(key)).toMatch(/^[0-9a-f]{64}$/);
    expect(hashApiKey(key)).toEqual(hashApiKey(key));
    for (let index = 0; index < key.length; index += 1) {
      const other = key[index] === "a" ? "b" : "a";
      expect(hashApiKey(key.slice(0, index) + other + key.slice(index + 1)), `at ${index}`).toBeUndefined();
    }
  });

  it("is refused in every other form", () => {
    const key = makeApiKey();
    const others = [
      "",
      " ",
      `${key} `,
      ` ${key}`,
      `${key}\n`,
      `${key}${key}`,
      key.slice(0, -1),
      key.toUpperCase(),
    ];
    for (const text of [...others, key.replace("live", "test"), `${key.slice(0, -1)}é`, "x".repeat(1e6)])
      expect(hashApiKey(text)).toBeUndefined();
  });
});
