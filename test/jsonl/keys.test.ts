import { describe, expect, it } from "vitest";
import { hashKey, type KeyColumns, keyFilter, scanKeys } from "../../src/jsonl/keys.ts";

function scan(text: string, wantKeys = false): KeyColumns {
  return scanKeys({ bytes: new Uint8Array(Buffer.from(text)), firstLine: 10 }, { wantKeys });
}

/** `line:key` of every hash, the key found by comparing with the hashes of `candidates`. */
function found(text: string, candidates: readonly string[]): string[] {
  const columns = scan(text);
  return Array.from({ length: columns.count }, (_, index) => {
    const key = candidates.find((candidate) => {
      const hash = hashKey(Buffer.from(candidate));
      return hash.high === columns.hashes[index * 2] && hash.low === columns.hashes[index * 2 + 1];
    });
    return `${columns.lines[index]}:${key}`;
  });
}

describe("scanKeys", () => {
  it("hashes the keys of all layouts and spellings alike, with their line numbers", () => {
    const lines = [
      '{"key":"a","request":{}}',
      ' { "key" : "a" }\r',
      '{"custom_id":"a","body":{}}',
      '{"request":{},"key":"a"}',
      '{"key":"\\u0061"}',
      '{"\\u006bey":"a"}',
      "",
      '{"key":"é"}',
      '{"key":"\\u00e9"}',
    ];
    expect(found(lines.join("\n"), ["a", "é"])).toEqual([
      "10:a",
      "11:a",
      "12:a",
      "13:a",
      "14:a",
      "15:a",
      "17:é",
      "18:é",
    ]);
  });

  it("fault 7: two lines with one key have one hash, in any spelling of the key", () => {
    const { hashes } = scan('{"key":"same"}\n{"key":"other"}\n{"x":1,"key":"s\\u0061me"}\n');
    expect([hashes[0], hashes[1]]).toEqual([hashes[4], hashes[5]]);
    expect([hashes[0], hashes[1]]).not.toEqual([hashes[2], hashes[3]]);
  });

  it("yields nothing for lines without a readable key", () => {
    const lines = [
      "",
      "  ",
      "[1]",
      "nonsense",
      '{"key":5}',
      '{"key":""}',
      '{"key":"\\ud800"}',
      '{"key":"a',
      "{",
    ];
    expect(scan(lines.join("\n")).count).toBe(0);
    expect(scan(`{"key":"${"k".repeat(513)}"}`).count).toBe(0);
    expect(scan(`{"key":"${"k".repeat(512)}"}`).count).toBe(1);
  });

  it("with wantKeys yields the keys themselves, but not of a line that is broken further on", () => {
    const text = '{"key":"a"}\n{"key":"broken" oops}\n{"key":"c","key":"c"}\n{"key":"\\u00e9"}\n';
    expect(scan(text).count).toBe(4);
    const { count, lines, keys, keyEnds, hashes } = scan(text, true);
    expect(count).toBe(2);
    expect([...lines]).toEqual([10, 13]);
    expect(Buffer.from(keys).toString()).toBe("aé");
    expect([...keyEnds]).toEqual([1, 3]);
    const hash = hashKey(Buffer.from("é"));
    expect([...hashes.subarray(2)]).toEqual([hash.high, hash.low]);
  });

  it("passes over lines whose key is not in the filter, however their keys are written", () => {
    const lines = [
      '{"key":"other"}',
      '{"key":"same"}',
      '{"key":"same" oops}',
      '{"x":1,"key":"s\\u0061me"}',
      '{"x":1,"key":"oth\\u0065r"}',
    ];
    const bytes = new Uint8Array(Buffer.from(lines.join("\n")));
    const filter = keyFilter([hashKey(Buffer.from("same")).high]);
    const { lines: found, keys } = scanKeys({ bytes, firstLine: 1 }, { wantKeys: true, filter });
    expect([...found]).toEqual([2, 4]);
    expect(Buffer.from(keys).toString()).toBe("samesame");
  });

  it("grows past the columns it begins with", () => {
    const columns = scan(Array.from({ length: 1000 }, (_, index) => `{"key":"k${index}"}`).join("\n"));
    expect(columns.count).toBe(1000);
    expect(columns.lines[999]).toBe(1009);
    expect(columns.hashes.length).toBe(2000);
  });
});

describe("hashKey", () => {
  it("has no collision over a million keys in sequence, and none in 32 bits beyond chance", () => {
    const seen = new Set<bigint>();
    const high = new Set<number>();
    const low = new Set<number>();
    const count = 1_000_000;
    const bytes = Buffer.from("item-0000000");
    for (let index = 0; index < count; index++) {
      bytes.write(String(index).padStart(7, "0"), 5, "latin1");
      const hash = hashKey(bytes);
      seen.add((BigInt(hash.high) << 32n) | BigInt(hash.low));
      high.add(hash.high);
      low.add(hash.low);
    }
    expect(seen.size).toBe(count);
    // Birthday: n^2 / 2^33 = 116 pairs expected in each half.
    expect(count - high.size).toBeLessThan(200);
    expect(count - low.size).toBeLessThan(200);
  });

  it("tells keys apart by length and by each byte", () => {
    const keys = [
      "",
      "\0",
      "\0\0",
      "\0\0\0\0",
      "a",
      "aa",
      "aaa",
      "aaaa",
      "aaaaa",
      "baaaa",
      "aaaab",
      "ab",
      "ba",
    ];
    const hashes = keys.map((key) => JSON.stringify(hashKey(Buffer.from(key))));
    expect(new Set(hashes).size).toBe(keys.length);
  });
});
