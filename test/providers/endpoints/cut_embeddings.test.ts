/** Embeddings are cut out of an answer as JSON, and nothing else of it is. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutEmbeddings } from "../../../src/providers/endpoints/cut_embeddings.ts";

const vector = fc.oneof(
  fc.array(
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((each) => !Object.is(each, -0)),
    { minLength: 1 },
  ),
  fc.base64String(),
);
/** Texts that could be taken for the member, its ends or its escapes. */
const text = fc.oneof(
  fc.string(),
  fc.constantFrom('"embedding":[', '\\"', "embedding", "]", '\\\\"', "ü\u2028"),
);

describe("cutting embeddings", () => {
  it("gives the values that JSON.parse gives, and the rest with their places", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ text, embedding: vector, index: fc.nat() })),
        fc.record({ text, other: fc.jsonValue() }),
        fc.constantFrom(undefined, 1, "\t", "\n  "),
        (data, more, space) => {
          const { other, ...named } = more;
          const body = { ...named, data, usage: JSON.stringify(other) };
          const cut = cutEmbeddings(Buffer.from(JSON.stringify(body, undefined, space)), "embedding");
          const values = cut?.values.map((each) => Buffer.from(each).toString());
          expect(values?.map((each) => JSON.parse(each))).toEqual(data.map((each) => each.embedding));
          expect(values?.every((each) => !/\s/.test(each))).toBe(true);
          const places = data.map((each, place) => ({ ...each, embedding: place }));
          expect(cut?.rest).toEqual({ ...body, data: places });
        },
      ),
    );
  });

  it("takes no list that JSON.parse refuses", () => {
    const part = fc.constantFrom(
      "0",
      "1",
      "23",
      "-",
      "+",
      ".",
      "e",
      "E",
      ",",
      " ",
      "\n",
      "00",
      "1.5e-3",
      "-0.1",
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        const body = `{"embedding":[${parts.join("")}]}`;
        const cut = cutEmbeddings(Buffer.from(body), "embedding");
        const isValid = canParse(body) && !/\[\s*\]/.test(body);
        expect(cut !== undefined).toBe(isValid);
      }),
      { numRuns: 2_000 },
    );
  });

  it("cuts nothing of what JSON.parse refuses, wherever the name is", () => {
    const part = fc.constantFrom(
      ...[
        '{"a":',
        "{",
        "}",
        '"',
        "\\",
        "embedding",
        '"embedding"',
        ":",
        ",",
        "[1]",
        "1",
        "e1",
        '"QQ=="',
        " ",
      ],
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 10 }), (parts) => {
        const body = parts.join("");
        if (cutEmbeddings(Buffer.from(body), "embedding") !== undefined) expect(canParse(body)).toBe(true);
      }),
      { numRuns: 5_000 },
    );
  });

  it.each([
    '{"embedding":[1],"a":{"embedding":[1]2}}',
    '{"embedding":[1',
    '{"embedding":"ab',
    '{"embedding":"a\\"b"}',
    '{"embedding":["1"]}',
    '{"embedding":[null]}',
    "<html>",
  ])("refuses %s", (body) => {
    expect(cutEmbeddings(Buffer.from(body), "embedding")).toBeUndefined();
  });
});

function canParse(json: string): boolean {
  try {
    JSON.parse(json);
    return true;
  } catch {
    return false;
  }
}
