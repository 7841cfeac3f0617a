/** Marks of prompt caches are added to encoded requests without changing anything else in them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  MARK_BYTES_MAX,
  namesCacheKey,
  withCacheControl,
  withCacheKey,
} from "../../src/providers/cache_marks.ts";
import { createProvider } from "../../src/providers/registry.ts";

const ANTHROPIC = createProvider({ name: "anthropic", protocol: "anthropic", baseUrl: "https://a.test" });

function encoded(system: readonly string[], turns: readonly (readonly string[])[]): Uint8Array {
  const made = ANTHROPIC.encode(
    {
      system,
      turns: turns.map((of, index) => ({ role: index % 2 === 0 ? "user" : "model", parts: of })),
      config: { maxOutputTokens: 5 },
      unknownFields: [],
    },
    "claude-sonnet-4-5",
    false,
  );
  if (!made.ok) throw new Error(made.message);
  return Buffer.from(made.body);
}

const parsed = (bytes: Uint8Array): unknown => JSON.parse(Buffer.from(bytes).toString());
const texts = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.constant('"system":"x\\'));

const MARK = { cache_control: { type: "ephemeral" } };

interface SentBody {
  readonly system?: string | readonly object[];
  readonly messages: readonly { readonly content: string | readonly object[] }[];
}

/** The texts of a body as blocks, in their order. */
function blocksOf(content: string | readonly object[]): readonly object[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

/** Its blocks, and all else of it. */
function splitOf(bytes: Uint8Array): { instruction: readonly object[]; inTurns: readonly object[] } {
  const { system: instruction = [], messages, ...rest } = parsed(bytes) as SentBody;
  const inTurns = messages.flatMap(({ content }) => blocksOf(content));
  return { ...rest, instruction: blocksOf(instruction), inTurns };
}

describe("a request to Anthropic", () => {
  it("gets breakpoints on its system instruction and on one text of its turns, and is otherwise the same", () => {
    const turn = fc.array(texts, { minLength: 1, maxLength: 3 });
    const turns = fc.array(turn, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.array(texts, { maxLength: 4 }), turns, fc.nat(), (system, of, nth) => {
        const count = of.flat().length;
        const parts = nth % (count + 1);
        const body = encoded(system, of);
        const before = splitOf(body);
        const marked = before.inTurns.map((block, index) =>
          index === parts - 1 ? { ...block, ...MARK } : block,
        );
        const last = before.instruction.length - 1;
        const instruction = before.instruction.map((block, index) =>
          index === last ? { ...block, ...MARK } : block,
        );
        expect(splitOf(withCacheControl(body, parts, "5m"))).toEqual({
          ...before,
          inTurns: marked,
          instruction,
        });
      }),
    );
  });

  it("asks for an hour where that is wanted", () => {
    const body = Buffer.from(withCacheControl(encoded(["be brief"], [["hi"]]), 0, "1h")).toString();
    expect(body).toContain('"cache_control":{"type":"ephemeral","ttl":"1h"}');
  });

  it("grows by no more than a mark may", () => {
    const body = encoded(["be brief"], [["hi"]]);
    expect(withCacheControl(body, 1, "1h").byteLength - body.byteLength).toBeLessThanOrEqual(MARK_BYTES_MAX);
  });

  it("is left alone without anything to mark, and with breakpoints of its own", () => {
    const bare = encoded([], [['say "system": please']]);
    expect(withCacheControl(bare, 0, "5m")).toBe(bare);
    const marked = withCacheControl(encoded(["be brief"], [["hi"]]), 0, "5m");
    expect(withCacheControl(marked, 1, "5m")).toBe(marked);
  });
});

describe("a request to OpenAI", () => {
  it("gets a cache key, and is otherwise the same", () => {
    const body = Buffer.from('{"model":"gpt-5-mini","messages":[]}');
    expect(parsed(withCacheKey(body, "perigee-1x"))).toEqual({
      prompt_cache_key: "perigee-1x",
      model: "gpt-5-mini",
      messages: [],
    });
  });

  it("is known to name a key itself", () => {
    expect(namesCacheKey(Buffer.from('{"model":"m","prompt_cache_key":"own"}'))).toBe(true);
    expect(namesCacheKey(Buffer.from(JSON.stringify({ model: '"prompt_cache_key"' })))).toBe(false);
  });
});
