/** Keys of requests: what can change an answer changes the key, and what cannot does not. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createInlineMeasurer } from "../../src/shard/measurer.ts";

const PROVIDERS = [
  { name: "alpha", protocol: "openai", baseUrl: "http://alpha.test/v1" },
  { name: "twin", protocol: "openai", baseUrl: "http://alpha.test/v1", key: "another" },
  { name: "other", protocol: "openai", baseUrl: "http://other.test/v1" },
  { name: "claude", protocol: "anthropic", baseUrl: "http://claude.test", apiVersion: "2023-06-01" },
  { name: "own", protocol: "function", baseUrl: "" },
] as const;

const measurer = createInlineMeasurer({
  providers: PROVIDERS,
  lineBytesMax: 1 << 20,
  depthMax: 100,
  keyBytesMax: 512,
});

interface Body {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly [setting: string]: unknown;
}

/** The key of each body as text, and whether its answer is not left to chance. */
async function keysOf(...bodies: readonly Body[]) {
  const call = { method: "POST", url: "/v1/chat/completions" };
  const lines = bodies.map((body, index) => JSON.stringify({ custom_id: `k${index}`, ...call, body }));
  const bytes = Uint8Array.from(Buffer.from(`${lines.join("\n")}\n`));
  const block = { bytes, offset: 0, firstLine: 1, lineCount: bodies.length };
  const { requests, rejected } = await measurer.measure(block, { wantBodies: true, wantsKeys: true });
  expect(rejected).toEqual([]);
  const { keys, areCertain } = requests ?? { keys: new Uint8Array(), areCertain: new Uint8Array() };
  const hex = Buffer.from(keys).toString("hex");
  return {
    keys: bodies.map((_, index) => hex.slice(64 * index, 64 * index + 64)),
    areCertain: [...areCertain],
  };
}

const body = fc.record({
  model: fc.constantFrom("alpha:m1", "alpha:m2", "other:m1"),
  messages: fc.array(
    fc.record({
      role: fc.constantFrom("user", "assistant"),
      content: fc.string({ unit: "binary" }).filter((text) => text !== ""),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  temperature: fc.constantFrom(0, 0.5, 1),
  max_tokens: fc.constantFrom(5, 6),
  seed: fc.constantFrom(1, 2),
});

describe("the key of a request", () => {
  it("is the same only for the same request", async () => {
    await fc.assert(
      fc.asyncProperty(body, body, async (one, other) => {
        const { keys } = await keysOf(one, other, one);
        expect(keys[0]).toBe(keys[2]);
        expect(keys[0] === keys[1]).toBe(JSON.stringify(one) === JSON.stringify(other));
      }),
    );
  });

  it("does not depend on tiers and prompt caches, nor on the provider's name and key", async () => {
    await fc.assert(
      fc.asyncProperty(body, async (one) => {
        const same = [
          { ...one, service_tier: "flex" },
          { ...one, prompt_cache_key: "x" },
          { ...one, model: one.model.replace("alpha:", "twin:") },
        ];
        const { keys } = await keysOf(one, ...same);
        expect(new Set(keys).size).toBe(1);
      }),
    );
  });

  it("depends on text that only looks like such a member", async () => {
    const said = (content: string): Body => ({ model: "alpha:m1", messages: [{ role: "user", content }] });
    const { keys } = await keysOf(
      said('{"service_tier":"flex"}'),
      said('{"service_tier":"slow"}'),
      said("{}"),
    );
    expect(new Set(keys).size).toBe(3);
  });

  it("keeps a property of a tool that has the name of such a member", async () => {
    const withTool = (type: string): Body => ({
      model: "alpha:m1",
      messages: [{ role: "user", content: "hi" }],
      tools: [
        {
          type: "function",
          function: { name: "f", parameters: { type: "object", properties: { cache_control: { type } } } },
        },
      ],
    });
    const { keys } = await keysOf(withTool("string"), withTool("number"));
    expect(new Set(keys).size).toBe(2);
  });

  it("tells numbers apart that JavaScript does not", async () => {
    const lines = ["9007199254740992", "9007199254740993"].map(
      (seed) =>
        `{"custom_id":"k${seed}","method":"POST","url":"/v1/chat/completions","body":{"model":"alpha:m1","service_tier":"flex","messages":[{"role":"user","content":"hi"}],"seed":${seed}}}`,
    );
    const bytes = Uint8Array.from(Buffer.from(`${lines.join("\n")}\n`));
    const block = { bytes, offset: 0, firstLine: 1, lineCount: 2 };
    const { requests } = await measurer.measure(block, { wantBodies: true, wantsKeys: true });
    const hex = Buffer.from(requests?.keys ?? []).toString("hex");
    expect(hex.slice(0, 64)).not.toBe(hex.slice(64));
  });

  it("is zeros for functions in this process, and says that only a temperature of 0 leaves nothing to chance", async () => {
    const messages = [{ role: "user", content: "hi" }];
    const { keys, areCertain } = await keysOf(
      { model: "own:m", messages, temperature: 0 },
      { model: "alpha:m1", messages, temperature: 0 },
      { model: "alpha:m1", messages },
    );
    expect(keys[0]).toBe("0".repeat(64));
    expect(areCertain).toEqual([0, 1, 0]);
  });

  it("is not made where it is not wanted", async () => {
    const bytes = Uint8Array.from(Buffer.from('{"key":"k","request":{"model":"alpha:m1","input":"hi"}}\n'));
    const measured = await measurer.measure(
      { bytes, offset: 0, firstLine: 1, lineCount: 1 },
      { wantBodies: true },
    );
    expect(measured).not.toHaveProperty("requests");
  });
});
