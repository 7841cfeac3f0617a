import { describe, expect, it } from "vitest";
import { rangeOf } from "../../src/service/files/byte_range.ts";
import { dispositionOf } from "../../src/service/files/download.ts";

describe("ranges of ten bytes", () => {
  it.each([
    ["bytes=0-0", 0, 1],
    ["bytes=2-4", 2, 5],
    ["bytes=5-", 5, 10],
    ["bytes=5-99", 5, 10],
    ["bytes=-3", 7, 10],
    ["bytes=-99", 0, 10],
    ["Bytes= 0-1 ", 0, 2],
  ])("%s is a part", (header, start, end) => {
    expect(rangeOf(header, 10)).toEqual({ kind: "part", start, end });
  });

  it.each(["bytes=10-", "bytes=10-12", "bytes=-0"])("%s cannot be returned", (header) => {
    expect(rangeOf(header, 10)).toEqual({ kind: "unsatisfiable" });
  });

  it.each([
    undefined,
    "",
    "bytes=",
    "bytes=-",
    "bytes=4-2",
    "bytes=0-1,3-4",
    "lines=0-1",
    "bytes=a-b",
    "bytes=0x1-2",
  ])("%s is ignored", (header) => {
    expect(rangeOf(header, 10)).toEqual({ kind: "all" });
  });

  it("of nothing cannot be returned", () => {
    expect(rangeOf("bytes=0-", 0)).toEqual({ kind: "unsatisfiable" });
    expect(rangeOf("bytes=-1", 0)).toEqual({ kind: "unsatisfiable" });
  });
});

describe("names in Content-Disposition", () => {
  it.each([
    ["in.jsonl", `attachment; filename="in.jsonl"; filename*=UTF-8''in.jsonl`],
    [`a"b\\c%.txt`, `attachment; filename="a_b_c_.txt"; filename*=UTF-8''a%22b%5Cc%25.txt`],
    ["(it's)*", `attachment; filename="(it's)*"; filename*=UTF-8''%28it%27s%29%2A`],
    ["你好", `attachment; filename="__"; filename*=UTF-8''%E4%BD%A0%E5%A5%BD`],
    [
      "x\r\nSet-Cookie: a",
      `attachment; filename="x__Set-Cookie: a"; filename*=UTF-8''x%0D%0ASet-Cookie%3A%20a`,
    ],
    ["half \ud800", `attachment; filename="half _"; filename*=UTF-8''half%20%EF%BF%BD`],
  ])("%s is in it safely", (name, header) => {
    expect(dispositionOf(name)).toBe(header);
  });
});
