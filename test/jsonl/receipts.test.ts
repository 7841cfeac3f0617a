/**
 * Chains of receipts, and their check: nothing of a file can change unnoticed.
 */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ReceiptCheck, ReceiptChecker } from "../../src/jsonl/receipt_check.ts";
import { lineKeyJson, type Receipt, ReceiptChain } from "../../src/jsonl/receipts.ts";
import { minusUsd, nanoOf, plusUsd } from "../../src/price/nano.ts";

const NO_OTHER = { listNano: 0, billedNano: 0, ambiguousNano: 0 };

function receiptOf(number: number, more: Partial<Receipt> = {}): Receipt {
  return {
    keyJson: JSON.stringify(`k"${number}`),
    lane: "flex",
    provider: "openai",
    model: "openai:gpt-5-mini",
    tierAsked: "flex",
    tier: "flex",
    batch: null,
    inputTokens: 10 + number,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 5,
    priceVersion: "config, 2026-11-01",
    listNano: 12_345 + number,
    billedNano: 6_173,
    ambiguousNano: 0,
    attempts: 1,
    startedWallMs: 1_790_000_000_000,
    endedWallMs: 1_790_000_001_000,
    deadlineWallMs: null,
    isMet: undefined,
    ...more,
  };
}

function fileOf(receipts: readonly Receipt[]): Buffer {
  const chain = new ReceiptChain();
  const lines = receipts.map((receipt) => `${chain.line(receipt)}\n`);
  return Buffer.from(`${lines.join("")}${chain.last("task", NO_OTHER)}\n`);
}

function check(bytes: Uint8Array, pieceBytes = bytes.byteLength): ReceiptCheck {
  const checker = new ReceiptChecker();
  for (let at = 0; at < bytes.byteLength; at += pieceBytes) checker.add(bytes.subarray(at, at + pieceBytes));
  return checker.end();
}

const WHOLE = fileOf(Array.from({ length: 20 }, (_, number) => receiptOf(number)));

describe("a file of receipts", () => {
  it("is whole as it was written, in pieces of any size, and says its sums", () => {
    for (const pieceBytes of [1, 7, 1_000, WHOLE.byteLength])
      expect(check(WHOLE, pieceBytes)).toMatchObject({
        isWhole: true,
        taskId: "task",
        sums: { count: 20, outputTokens: 100, billedNano: 20 * 6_173 },
      });
    expect(check(fileOf([]))).toMatchObject({ isWhole: true, sums: { count: 0 } });
  });

  it("is verified by the rule that its documentation states", () => {
    let last = "";
    for (const line of WHOLE.toString().split("\n").slice(0, -1)) {
      const [body = "", hash] = line.split(',"hash":"');
      last = createHash("sha256").update(`${last}${body}}`).digest("hex");
      expect(hash).toBe(`${last}"}`);
    }
  });

  it("shows each of 1,000 flipped bytes", () => {
    const flips = fc.tuple(fc.nat(WHOLE.byteLength - 1), fc.integer({ min: 1, max: 255 }));
    fc.assert(
      fc.property(flips, ([at, bits]) => {
        const changed = Buffer.from(WHOLE);
        changed[at] = (changed[at] as number) ^ bits;
        return !check(changed).isWhole;
      }),
      { numRuns: 1_000, seed: 31 },
    );
  });

  it("shows where a line was removed, repeated, swapped or added, and where the file was cut", () => {
    const lines = WHOLE.toString().split(/(?<=\n)/);
    const joined = (each: readonly string[]): ReceiptCheck => check(Buffer.from(each.join("")));
    fc.assert(
      fc.property(fc.nat(lines.length - 1), fc.nat(lines.length - 1), (one, other) => {
        expect(joined(lines.toSpliced(one, 1)).isWhole).toBe(false);
        expect(joined(lines.toSpliced(one, 0, lines[other] as string)).isWhole).toBe(false);
        const swapped = [...lines];
        [swapped[one], swapped[other]] = [lines[other] as string, lines[one] as string];
        expect(joined(swapped).isWhole).toBe(one === other);
      }),
      { numRuns: 200, seed: 31 },
    );
    for (let end = 0; end < WHOLE.byteLength; end += 13)
      expect(check(WHOLE.subarray(0, end)).isWhole).toBe(false);
    expect(check(WHOLE.subarray(0, -1))).toMatchObject({ isWhole: false, line: 21 });
    expect(joined(lines.slice(0, -1))).toEqual({
      isWhole: false,
      line: 21,
      fault: "the last line, with count and sums, is missing: the file was cut",
    });
  });

  it("is not read to its end after a line that is longer than any receipt", () => {
    const checker = new ReceiptChecker();
    checker.add(Buffer.alloc(100_000, "x"));
    expect(checker.isOver).toBe(true);
    expect(checker.end()).toMatchObject({ isWhole: false, line: 1 });
  });
});

describe("the key of a receipt", () => {
  it("is the literal of the output line, in each format", () => {
    expect(lineKeyJson('{"key":"a\\"b","output":null}')).toBe('"a\\"b"');
    expect(lineKeyJson('{"key":null,"line":3}')).toBe("null");
    expect(lineKeyJson('{"id":"batch_req_1","custom_id":"é","response":null}')).toBe('"é"');
    expect(lineKeyJson('{"output":1}')).toBeUndefined();
  });
});

describe("nano-USD", () => {
  it("are rounded half up, also where a double is just below a half", () => {
    expect([0, 37.5e-9, 37.4e-9, 12_487.5e-9, 333 * 3.75e-8].map(nanoOf)).toEqual([
      0, 38, 37, 12_488, 12_488,
    ]);
  });

  it("add up to the same sum in any order, and to what is left without a part", () => {
    const usd = fc.double({ min: 0, max: 1_000, noNaN: true });
    fc.assert(
      fc.property(fc.array(usd, { maxLength: 50 }), (amounts) => {
        const sum = amounts.reduce(plusUsd, 0);
        expect(nanoOf(sum)).toBe(amounts.reduce((nano, one) => nano + nanoOf(one), 0));
        expect(amounts.toReversed().reduce(plusUsd, 0)).toBe(sum);
        expect(amounts.reduce(minusUsd, sum)).toBe(0);
      }),
    );
  });
});
