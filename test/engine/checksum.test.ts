/** Checksums that are put together from those of the parts. */
import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { combineCrc32 } from "../../src/engine/journal/checksum.ts";

const MIB = 2 ** 20;
/** Of zeros of a power of two of MiB, by their exponent. */
const ZEROS = [crc32(Buffer.alloc(MIB))];
while (ZEROS.length <= 16) {
  const last = ZEROS.at(-1) ?? 0;
  ZEROS.push(combineCrc32(last, last, MIB * 2 ** (ZEROS.length - 1)));
}

describe("a checksum of two parts", () => {
  it("is that of the whole", () => {
    expect(ZEROS[4]).toBe(crc32(Buffer.alloc(16 * MIB)));
  });

  it.each([8, 9, 10, 12, 16])("is the same in one step and in two, 2^%i MiB long", (exponent) => {
    const before = crc32(Buffer.from("Grüße"));
    const [whole = 0, part = 0] = [ZEROS[exponent], ZEROS[exponent - 1]];
    const partBytes = MIB * 2 ** (exponent - 1);
    const inTwo = combineCrc32(combineCrc32(before, part, partBytes), part, partBytes);
    expect(combineCrc32(before, whole, 2 * partBytes)).toBe(inTwo);
  });
});
