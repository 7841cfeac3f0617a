/** Laws of counting: equal to tiktoken on any text, and never far from additive. */
import fc from "fast-check";
import { get_encoding } from "tiktoken";
import { afterAll, describe, expect, it } from "vitest";
import { countTokens } from "../../src/tokens/count.ts";

const ENCODINGS = ["o200k_base", "cl100k_base"] as const;
const references = {
  o200k_base: get_encoding("o200k_base"),
  cl100k_base: get_encoding("cl100k_base"),
};

afterAll(() => {
  for (const encoding of ENCODINGS) references[encoding].free();
});

const FRAGMENTS: readonly string[] = [
  ..." \t\n\r'’!?.,;:/\\_-=+*#@$%&(){}[]<>|\"`~^",
  ..."aAbBsStTrRvVeEmMlLdDxX0123456789",
  ...[
    "  ",
    "   ",
    "\r\n",
    "\n\n",
    " \n",
    "\n ",
    "//",
    "/\n",
    "\t\t",
    "\u00a0",
    "\u0085",
    "\ufeff",
    "\u200b",
    "\u2028",
    "\u3000",
  ],
  ...[
    "'s",
    "'S",
    "'ſ",
    "'t",
    "'T",
    "'re",
    "'Re",
    "'rE",
    "'ve",
    "'VE",
    "'m",
    "'ll",
    "'lL",
    "'d",
    "'D",
    "' s",
    "''s",
  ],
  ...[
    "The",
    " the",
    "HELLO",
    "hello",
    "World",
    "camelCase",
    "iOS",
    "McDonald",
    "ISBN",
    " antidisestablishment",
  ],
  ...[
    "Ü",
    "ß",
    "é",
    "e\u0301",
    "İ",
    "ı",
    "ǅ",
    "ʰ",
    "ª",
    "ſ",
    "Ω",
    "щ",
    "Щ",
    "ђ",
    "ა",
    "Ⴀ",
    "𝐀",
    "𝐚",
    "𐐀",
    "𐐨",
  ],
  ...["\u0301", "\u0300\u0327", "\u0903", "\u20dd", "\ufe0f", "\u{e0100}"],
  ...["½", "Ⅷ", "٣", "৩", "๕", "𝟙", "²", "①", "〇"],
  ...[
    "中",
    "文字",
    "東京",
    "かな",
    "カナ",
    "한국어",
    "ภาษา",
    "ไทย",
    "বাংলা",
    "হাঁস",
    "हिन्दी",
    "क्षत्रिय",
    "العربية",
    "عَرَبِيّ",
    "עברית",
  ],
  ...["👍", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "☕️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "\ud800", "\udc00", "\u{10ffff}", "\ue000"],
  ...["<|endoftext|>", "<|im_start|>", "\0", "\u0007", "\u007f", "…", "—", "→", "€", "™", "𠀀"],
];

const fragments = fc.array(fc.constantFrom(...FRAGMENTS), { maxLength: 60 }).map((parts) => parts.join(""));
const runs = fc
  .array(fc.tuple(fc.constantFrom(...FRAGMENTS), fc.integer({ min: 1, max: 40 })), { maxLength: 8 })
  .map((parts) => parts.map(([fragment, times]) => fragment.repeat(times)).join(""));
const anyText = fc.string({ unit: "binary", maxLength: 80 });
const graphemes = fc.string({ unit: "grapheme", maxLength: 80 });
const units = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 60 })
  .map((codes) => String.fromCharCode(...codes));
const lowLetters = fc.string({ unit: fc.constantFrom(..."abcdeéлन中"), maxLength: 200 });

describe.each(ENCODINGS)("counting in %s", (encoding) => {
  const reference = references[encoding];

  it("equals tiktoken's encode_ordinary on any text", () => {
    fc.assert(
      fc.property(fc.oneof(fragments, runs, anyText, graphemes, units, lowLetters), (text) => {
        expect(countTokens(encoding, text)).toBe(reference.encode_ordinary(text).length);
      }),
      { numRuns: 3000 },
    );
  });

  it("does not depend on what was counted before", () => {
    fc.assert(
      fc.property(fragments, fragments, (text, other) => {
        const before = countTokens(encoding, text);
        countTokens(encoding, other);
        expect(countTokens(encoding, text)).toBe(before);
      }),
      { numRuns: 300 },
    );
  });

  it("is between a token per 128 bytes and a token per byte", () => {
    fc.assert(
      fc.property(fc.oneof(fragments, runs), (text) => {
        const bytes = Buffer.byteLength(text);
        const tokens = countTokens(encoding, text);
        expect(tokens).toBeLessThanOrEqual(bytes);
        expect(tokens * 128).toBeGreaterThanOrEqual(bytes);
      }),
      { numRuns: 300 },
    );
  });
});
