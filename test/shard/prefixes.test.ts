/** Prefixes that requests share are found by the hashes of their ends, in a bounded memory. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockMeasurer, type MeasureSettings } from "../../src/shard/measure.ts";
import { hashOfTexts, type PrefixTexts, prefixEnds } from "../../src/shard/prefix_ends.ts";
import { SeenPrefixes } from "../../src/shard/seen_prefixes.ts";
import { blockOf, SETTINGS } from "./blocks.ts";

const CHARACTERS_PER_TOKEN = 5;

function textsOf(texts: readonly string[], endsAnywhere: boolean): PrefixTexts {
  const units = texts.reduce((sum, { length }) => sum + length, 0);
  const turns = texts.map((text) => ({ role: "user", parts: [text] }));
  return { headHash: 7, headTokens: 0, tokens: units / CHARACTERS_PER_TOKEN, turns, endsAnywhere };
}

const long = fc.string({ minLength: 0, maxLength: 20_000, unit: fc.constantFrom("a", "b", "ü") });

describe("the ends of a prefix", () => {
  it("are equal up to where two requests differ, and nowhere after it", () => {
    fc.assert(
      fc.property(
        fc.array(long, { maxLength: 3 }),
        long,
        long,
        fc.boolean(),
        (shared, one, other, anywhere) => {
          fc.pre(one !== other);
          const ends = [one, other].map((last) => prefixEnds(textsOf([...shared, `${last}.`], anywhere)));
          const sharedUnits = shared.join("").length + commonLength(`${one}.`, `${other}.`);
          const hashes = new Set(ends[1]?.map(({ hash }) => hash));
          for (const end of ends[0] ?? []) {
            const units = end.tokens * CHARACTERS_PER_TOKEN;
            if (hashes.has(end.hash)) expect(units).toBeLessThanOrEqual(sharedUnits + CHARACTERS_PER_TOKEN);
            else expect(units).toBeGreaterThan(sharedUnits - 2_048 - CHARACTERS_PER_TOKEN);
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  it("are only those of whole texts where a prefix has to be marked", () => {
    const texts = ["a".repeat(8_000), "b".repeat(300), "c".repeat(7_000), "d"];
    expect(prefixEnds(textsOf(texts, false)).map(({ tokens, parts }) => [tokens, parts])).toEqual([
      [1_600, 1],
      [3_060, 3],
    ]);
    expect(prefixEnds(textsOf(texts, true)).length).toBeGreaterThan(4);
  });

  it("are at most 128, of a text of any length", () => {
    expect(prefixEnds(textsOf(["x".repeat(12_000_000)], true)).length).toBe(128);
  });

  it("begin with the system instruction if that is long enough, and know its tools", () => {
    const texts = { ...textsOf(["short"], true), headTokens: 1_024 };
    expect(prefixEnds(texts)).toMatchObject([{ hash: 7, tokens: 1_024, parts: 0 }]);
    expect(prefixEnds({ ...texts, headTokens: 1_023 })).toEqual([]);
  });
});

describe("prefixes that were seen", () => {
  it("are shared when another line has them, and not when the same line is read again", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 4 }))),
        (uses) => {
          const seen = new SeenPrefixes(8);
          const lines = new Map<number, Set<number>>();
          for (const [prefix, line] of uses) {
            seen.add(hashOfTexts([`${prefix}`]), line);
            lines.set(prefix, (lines.get(prefix) ?? new Set()).add(line));
          }
          for (const [prefix, its] of lines)
            expect(seen.isShared(hashOfTexts([`${prefix}`]))).toBe(its.size > 1);
        },
      ),
    );
  });

  it("are forgotten when many others were used since, and kept while they are used", () => {
    const seen = new SeenPrefixes(6);
    const [used, left] = [hashOfTexts(["used"]), hashOfTexts(["left"])];
    for (const hash of [used, left]) for (const line of [1, 2]) seen.add(hash, line);
    for (let other = 0; other < 200; other += 1) {
      seen.add(hashOfTexts([`other ${other}`]), 10 + other);
      seen.add(used, 3);
    }
    expect([seen.isShared(used), seen.isShared(left)]).toEqual([true, false]);
  });
});

interface Shared {
  readonly hash: number;
  readonly tokens: number;
  readonly parts: number;
}

function sharedOf(
  requests: readonly object[],
  settings: MeasureSettings = SETTINGS,
): readonly (Shared | undefined)[] {
  const lines = requests.map((request, index) => JSON.stringify({ key: `k${index}`, request }));
  const block = new BlockMeasurer(settings).measure(blockOf(lines.join("\n")), { wantBodies: true });
  expect(block.rejected).toEqual([]);
  return Array.from({ length: block.count }, (_, index) => {
    const shared = block.groups[block.groupOf[index] as number]?.shared;
    return shared;
  });
}

const WORDS = "word ".repeat(1_500);

function requestOf(model: string, system: string, ...parts: string[]): object {
  return {
    model,
    ...(system === "" ? {} : { system_instruction: { parts: [{ text: system }] } }),
    contents: [{ role: "user", parts: parts.map((text) => ({ text })) }],
  };
}

describe("items of a block", () => {
  const CLAUDE = "anthropic:claude-haiku-4-5";
  it("share the longest prefix that several of them have: system instruction, then leading turns", () => {
    const shared = sharedOf([
      requestOf(CLAUDE, WORDS, `${WORDS}one`, "question"),
      requestOf(CLAUDE, WORDS, "short"),
      requestOf(CLAUDE, WORDS, `${WORDS}one`, "another"),
      requestOf(CLAUDE, "", WORDS),
    ]);
    const [first, system, same, none] = shared;
    expect(first).toEqual(same);
    expect([first?.parts, system?.parts, none]).toEqual([1, 0, undefined]);
    expect(first?.tokens).toBeGreaterThan(1.9 * (system?.tokens ?? 0));
  });

  it("share the beginning of a text where the provider's cache needs no mark", () => {
    const requests = (model: string) => [
      requestOf(model, "", `${WORDS}why?`),
      requestOf(model, "", `${WORDS}how?`),
    ];
    expect(sharedOf(requests("openai:gpt-5-mini")).map((shared) => shared?.tokens)).toEqual([1_235, 1_235]);
    expect(sharedOf(requests(CLAUDE))).toEqual([undefined, undefined]);
  });

  it("share nothing with another model, or where a cache costs nothing or is not to be used", () => {
    const of = (model: string) => requestOf(model, WORDS, "hi");
    const [claude, gpt, ...echo] = sharedOf([
      of(CLAUDE),
      of("openai:gpt-5-mini"),
      of("echo:a"),
      of("echo:a"),
    ]);
    expect(claude?.hash).not.toBe(gpt?.hash);
    expect(echo).toEqual([undefined, undefined]);
    expect(sharedOf([of(CLAUDE), of(CLAUDE)], { ...SETTINGS, findsPrefixes: false })).toEqual([
      undefined,
      undefined,
    ]);
  });

  it("share no more than their tools and their system instruction do", () => {
    const of = (name: string) => ({
      model: "openai:gpt-5-mini",
      messages: [
        { role: "system", content: WORDS },
        { role: "user", content: "hi" },
      ],
      tools: [{ type: "function", function: { name, parameters: {} } }],
    });
    const lines = ["a", "a", "b"].map((name, index) =>
      JSON.stringify({ custom_id: `k${index}`, method: "POST", url: "/v1/chat/completions", body: of(name) }),
    );
    const block = new BlockMeasurer(SETTINGS).measure(blockOf(lines.join("\n")), { wantBodies: true });
    expect(block.rejected).toEqual([]);
    const hashes = [0, 1, 2].map((index) => block.groups[block.groupOf[index] as number]?.shared?.hash);
    expect(hashes[0]).toBeDefined();
    expect(hashes[1]).toBe(hashes[0]);
    expect(hashes[2]).not.toBe(hashes[0]);
  });
});

function commonLength(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return length;
}
