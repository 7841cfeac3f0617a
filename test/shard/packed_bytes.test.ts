/** Texts of a shard, one after the other in one buffer. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { PackedBytes } from "../../src/shard/packed_bytes.ts";

it.each([1, 16, 100])("packs texts of every script whole, from a buffer of %i bytes on", (initialBytes) => {
  const texts = fc.array(fc.string({ unit: "grapheme", maxLength: 200 }), { maxLength: 20 });
  fc.assert(
    fc.property(texts, (entries) => {
      const packed = new PackedBytes(initialBytes);
      for (const text of entries) packed.addText(text);
      expect(Buffer.from(packed.toBytes()).toString()).toBe(entries.join(""));
      expect(packed.count).toBe(entries.length);
    }),
  );
});

it("packs one text of three bytes a character that is larger than the buffer", () => {
  const packed = new PackedBytes(64);
  packed.addText("概".repeat(1_000));
  expect(Buffer.from(packed.toBytes()).toString()).toBe("概".repeat(1_000));
});
