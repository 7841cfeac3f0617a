/** Marks of prompt caches are added to encoded requests without changing anything else in them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { namesCacheKey, withCacheControl, withCacheKey } from "../../src/providers/cache_marks.ts";
import { createProvider } from "../../src/providers/registry.ts";

const ANTHROPIC = createProvider({ name: "anthropic", protocol: "anthropic", baseUrl: "https://a.test" });

function encoded(system: readonly string[], text: string): Uint8Array {
  const made = ANTHROPIC.encode(
    { system, turns: [{ role: "user", texts: [text] }], config: { maxOutputTokens: 5 }, unknownFields: [] },
    "claude-sonnet-4-5",
    false,
  );
  if (!made.ok) throw new Error(made.message);
  return Buffer.from(made.body);
}

const parsed = (bytes: Uint8Array): unknown => JSON.parse(Buffer.from(bytes).toString());
const texts = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.constant('"system":"x\\'));

describe("a request to Anthropic", () => {
  it("gets a breakpoint on the last block of its system instruction, and is otherwise the same", () => {
    fc.assert(
      fc.property(fc.array(texts, { minLength: 1, maxLength: 4 }), texts, (system, text) => {
        const body = encoded(system, text);
        const blocks = system.map((one) => ({ type: "text", text: one }));
        const last = { ...blocks.at(-1), cache_control: { type: "ephemeral" } };
        expect(parsed(withCacheControl(body, "5m"))).toEqual({
          ...(parsed(body) as object),
          system: JSON.parse(JSON.stringify([...blocks.slice(0, -1), last])),
        });
      }),
    );
  });

  it("asks for an hour where that is wanted", () => {
    const body = Buffer.from(withCacheControl(encoded(["be brief"], "hi"), "1h")).toString();
    expect(body).toContain('"cache_control":{"type":"ephemeral","ttl":"1h"}');
  });

  it("is left alone without a system instruction, and with breakpoints of its own", () => {
    const bare = encoded([], 'say "system": please');
    expect(withCacheControl(bare, "5m")).toBe(bare);
    const marked = withCacheControl(encoded(["be brief"], "hi"), "5m");
    expect(withCacheControl(marked, "5m")).toBe(marked);
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
