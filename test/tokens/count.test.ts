/** Counts of texts and chats: golden numbers, agreement with tiktoken on awkward texts, and work that stays linear. */
import { get_encoding } from "tiktoken";
import { afterAll, describe, expect, it } from "vitest";
import { countChat, countTokens, tokenizerOf } from "../../src/tokens/count.ts";
import { TokenCounter } from "../../src/tokens/counter.ts";
import { type EncodingName, readTables } from "../../src/tokens/ranks.ts";

const ENCODINGS: readonly EncodingName[] = ["o200k_base", "cl100k_base"];
const references = {
  o200k_base: get_encoding("o200k_base"),
  cl100k_base: get_encoding("cl100k_base"),
};

afterAll(() => {
  for (const encoding of ENCODINGS) references[encoding].free();
});

/** Texts in which every alternative of the split patterns has its say, and the ways in which they give way. */
const AWKWARD: readonly string[] = [
  "",
  " ",
  "a",
  "Hello, world! It's 2026, isn't it? WE'LL SEE; THEY'D'VE",
  "'s'S'ſ'tart 'T're'RE'rE've'm'll'LL'lL'd'D ''s ' s 'x I'M i'Ll",
  "HTTPServer camelCase PascalCaseX XMLHttp ǅungla ǅ ªAB 中AB ABC中 中ABc ʰAʰ",
  "1 12 123 1234 12345678 ٠١٢٣٤ ½⅓ Ⅷ 𝟙𝟚𝟛𝟜",
  "a  b   c\td\t\te \n f\r\n\r\ng \n\n  \n h  ",
  "\u00a0\u2003x \u0085y \ufeffz \u200bq \u3000w",
  "!!! ... //// \n// ///\r\n/ a/b //\n/\n x!\n\n/ y",
  "e\u0301 \u0301 \u0301a \u0301A \u0301AB \u0301's !\u0301 !\u0301\u0301!",
  "<|endoftext|> <|fim_prefix|><|endofprompt|>",
  "জেনেট প্রতিদিন ১৬টি ডিম পায়। नमस्ते दुनिया, यह परीक्षण है। สวัสดีชาวโลก นี่คือการทดสอบ",
  "你好,世界!这是一个测试。東京は日本の首都です。안녕하세요 세계",
  "مرحبا بالعالم، هذا اختبارٌ صغير. Привет, МИР! Γειά σου Κόσμε. ĐƯỜNG đi",
  "👩‍👩‍👧‍👦👍🏽🇩🇪🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☕️❤️‍🔥 1️⃣",
  "𝓐𝓫𝓒 𐐀𐐨 𠀀𠀁 \u{10ffff}\u{e0100}\u{f0000}",
  "\ud800 \udc00 a\ud83d b\ude00\ud83d c\ud800",
  "const f = (a: number[]): void => { return a?.map((x) => x ** 2)[0]!; };\n\n\t// done\n",
  "\0\u0001\u001f\u007f \0\0\0\0\0\0\0\0\0\0",
];

describe.each(ENCODINGS)("counting in %s", (encoding) => {
  it.each(AWKWARD.map((text) => [text]))("agrees with tiktoken on %j", (text) => {
    expect(countTokens(encoding, text)).toBe(references[encoding].encode_ordinary(text).length);
  });

  it("agrees with tiktoken on every token of the encoding, once and twice", () => {
    const reference = references[encoding];
    const size = readTables(encoding).lefts.length;
    const decoder = new TextDecoder();
    const wrong: string[] = [];
    for (let token = 0; token < size; token += 7) {
      const text = decoder.decode(reference.decode_single_token_bytes(token));
      for (const probe of [text, text + text]) {
        if (countTokens(encoding, probe) !== reference.encode_ordinary(probe).length) wrong.push(probe);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("agrees with tiktoken on characters of every kind between letters", () => {
    const wrong: string[] = [];
    for (let codePoint = 0; codePoint < 0x33480; codePoint += codePoint < 0x3100 ? 1 : 37) {
      const text = `a${String.fromCodePoint(codePoint)}B ${String.fromCodePoint(codePoint)}'s`;
      if (countTokens(encoding, text) !== references[encoding].encode_ordinary(text).length) wrong.push(text);
    }
    expect(wrong).toEqual([]);
  });

  it("counts a text longer than its buffer as the sum of its lines", () => {
    const line = "The quick brown fox, Größe 12345, 日本語テスト.\n";
    const one = references[encoding].encode_ordinary(line).length;
    expect(countTokens(encoding, line.repeat(5000))).toBe(one * 5000);
    expect(countTokens(encoding, line)).toBe(one);
  });
});

describe("counting", () => {
  it("knows these numbers", () => {
    expect(countTokens("o200k_base", "Hello")).toBe(1);
    expect(countTokens("o200k_base", "antidisestablishmentarianism")).toBe(6);
    expect(countTokens("cl100k_base", "antidisestablishmentarianism")).toBe(6);
    expect(countTokens("o200k_base", "Größenwahnsinnige 東京 🦊")).toBe(11);
    expect(countTokens("cl100k_base", "Größenwahnsinnige 東京 🦊")).toBe(14);
  });

  it("fault 10: counts a lone surrogate as U+FFFD", () => {
    for (const encoding of ENCODINGS) {
      expect(countTokens(encoding, "a\ud800b")).toBe(countTokens(encoding, "a\ufffdb"));
      expect(countTokens(encoding, "\udfff")).toBe(countTokens(encoding, "\ufffd"));
    }
  });

  it("fault 16: counts the names of special tokens as plain text", () => {
    expect(countTokens("o200k_base", "<|endoftext|>")).toBe(7);
    expect(countTokens("cl100k_base", "<|endoftext|>")).toBe(7);
    expect(countTokens("o200k_base", "<|im_start|>system<|im_end|>")).toBeGreaterThan(8);
  });
});

describe.each(ENCODINGS)("hostile texts in %s", (encoding) => {
  const letters = Array.from(
    { length: 4096 },
    (_, index) => "abcdefghijklmnopqrstuvwxyz"[(index * index * 7 + index) % 26],
  );
  const hostile: readonly (readonly [string, string])[] = [
    ["a", "a"],
    ["spaces", " "],
    ["newlines", "\n"],
    ["underscores", "_"],
    ["equal signs and dashes", "=-"],
    ["Chinese", "中文字符"],
    ["Thai", "ภาษาไทย"],
    ["emoji families", "👩‍👩‍👧‍👦"],
    ["combining marks", "\u0301\u0302"],
    ["capitals after a letter without case", "中AAAAAAAA"],
    ["letters", letters.join("")],
    ["base64", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0123+/"],
  ];

  it.each(hostile)("fault 15: 100,000 units of %s take work in proportion to the length", (_, unit) => {
    const counter = new TokenCounter(readTables(encoding));
    const whole = unit.repeat(Math.ceil(100_000 / unit.length)).slice(0, 100_000);
    const stepsFor = (text: string): number => {
      const before = counter.mergeSteps;
      counter.count(text);
      return counter.mergeSteps - before;
    };
    const quarterSteps = stepsFor(whole.slice(0, 25_000));
    const steps = stepsFor(whole);
    expect(steps).toBeLessThanOrEqual(4.2 * quarterSteps + 1000);
    expect(steps).toBeLessThanOrEqual(5 * Buffer.byteLength(whole));
  });

  it.each(hostile)("counts 2,000 units of %s as tiktoken does", (_, unit) => {
    const text = unit.repeat(Math.ceil(2000 / unit.length)).slice(0, 2000);
    expect(countTokens(encoding, text)).toBe(references[encoding].encode_ordinary(text).length);
  });
});

describe("counting a chat", () => {
  const gpt = tokenizerOf("openai", "gpt-4o");

  it("adds what the protocol adds: 3 a message, 1 a role, 3 for the reply", () => {
    expect(countChat({ system: [], turns: [{ parts: ["Hello"] }] }, gpt)).toEqual({
      inputTokens: 8,
      prefixTokens: 0,
    });
    expect(countChat({ system: ["Hello"], turns: [{ parts: ["Hello", "Hello"] }] }, gpt)).toEqual({
      inputTokens: 5 + 6 + 3,
      prefixTokens: 5,
    });
  });

  it("multiplies an estimate by its factor and rounds up, without a token for noise in the last digit", () => {
    const request = { system: ["Hello"], turns: [{ parts: ["Hello"] }] };
    expect(countChat(request, tokenizerOf("anthropic", "claude-sonnet-4-5"))).toEqual({
      inputTokens: Math.ceil(13 * 1.2),
      prefixTokens: 6,
    });
    expect(
      countChat(
        { system: [], turns: [{ parts: ["Hello Hello Hello"] }] },
        tokenizerOf("gemini", "gemini-2.5-pro"),
      ),
    ).toEqual({
      inputTokens: 11,
      prefixTokens: 0,
    });
  });

  it("returns the same count for a system instruction that it has seen, also after many others", () => {
    const request = (text: string) => ({ system: [text], turns: [{ parts: ["x"] }] });
    const first = countChat(request("You are a careful assistant."), gpt);
    for (let index = 0; index < 20; index++) countChat(request(`You are assistant number ${index}.`), gpt);
    expect(countChat(request("You are a careful assistant."), gpt)).toEqual(first);
    expect(countChat(request("You are a careful assistant."), gpt)).toEqual(first);
  });
});
