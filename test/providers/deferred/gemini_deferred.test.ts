/** Gemini's deferred tier: requests of generateContent as interactions, and interactions as answers of generateContent. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RemoteBatch, RemoteWire } from "../../../src/providers/batches/batch_wire.ts";
import { type DeferredSettings, deferredWireOf } from "../../../src/providers/deferred/gemini_deferred.ts";
import { createProvider } from "../../../src/providers/registry.ts";
import { answer } from "../answers.ts";
import { KEY, lineOf, settingsOf } from "../batches/wires.ts";

const HOST = "https://generativelanguage.googleapis.com";
const MODEL = { model: "gemini-3.8-flash", endpoint: "chat" } as const;
const PAYLOAD = { tag: "01ABCDEFGH", ...MODEL, items: 1, bytes: 10 };
const bytes = new TextEncoder();
const text = new TextDecoder();

function deferred(given: DeferredSettings = {}): RemoteWire {
  const wire = deferredWireOf(settingsOf("gemini"), given);
  if (wire === undefined) throw new Error("no wire");
  return wire;
}

const wire = deferred();

/** What is sent for a body of generateContent; undefined for one that has no place there. */
function sent(body: object): unknown {
  const given = bytes.encode(JSON.stringify(body));
  return wire.takesBody?.(given) === true
    ? JSON.parse(text.decode(wire.line("id", given, MODEL)))
    : undefined;
}

function read(interaction: object): RemoteBatch {
  const result = wire.read(answer(200, { id: "v1_a", ...interaction }), "other");
  if (!result.ok) throw new Error(result.message);
  return result.batch;
}

/** An interaction that has ended, as the codec of generateContent reads it. */
function decoded(interaction: object) {
  const result = wire.result(bytes.encode(JSON.stringify({ id: "v1_a", model: "m", ...interaction })));
  if (result.is !== "answered") return result.is;
  const { status, headers, body } = result;
  return createProvider(settingsOf("gemini")).decode({ status, headers, body, wallMs: 0 });
}

const said = (...texts: string[]): object => ({
  type: "model_output",
  content: texts.map((each) => ({ type: "text", text: each })),
});
const USAGE = {
  total_input_tokens: 12,
  total_output_tokens: 5,
  total_thought_tokens: 2,
  total_cached_tokens: 4,
};
const user = (words: string): object => ({ role: "user", parts: [{ text: words }] });

describe("a request", () => {
  const tier = { service_tier: "deferred", background: true, store: true };

  it("is an interaction in the deferred tier, which runs in the background and is stored", () => {
    expect(sent({ contents: [user("Hi")] })).toEqual({
      model: "gemini-3.8-flash",
      input: [{ type: "user_input", content: [{ type: "text", text: "Hi" }] }],
      ...tier,
    });
  });

  it("keeps its turns, its system instruction and its settings", () => {
    const schema = { type: "object" };
    const body = {
      contents: [user("a"), { role: "model", parts: [{ text: "b" }, { text: "c" }] }, user("d")],
      systemInstruction: { parts: [{ text: "be brief" }] },
      generationConfig: {
        ...{ temperature: 0.5, topP: 0.9, maxOutputTokens: 64, stopSequences: ["x"], seed: 7 },
        thinkingConfig: { thinkingLevel: "LOW" },
        ...{ responseMimeType: "application/json", responseJsonSchema: schema },
      },
    };
    expect(sent(body)).toEqual({
      model: "gemini-3.8-flash",
      input: [
        { type: "user_input", content: [{ type: "text", text: "a" }] },
        said("b", "c"),
        { type: "user_input", content: [{ type: "text", text: "d" }] },
      ],
      system_instruction: "be brief",
      generation_config: {
        ...{ temperature: 0.5, top_p: 0.9, max_output_tokens: 64, stop_sequences: ["x"], seed: 7 },
        thinking_level: "low",
      },
      response_format: { type: "text", mime_type: "application/json", schema },
      ...tier,
    });
  });

  it.each([
    ["tools", { tools: [{}] }],
    ["safety settings", { safetySettings: [] }],
    ["an image", { contents: [{ role: "user", parts: [{ inlineData: {} }] }] }],
    ["a thought signature", { contents: [{ role: "user", parts: [{ text: "a", thoughtSignature: "s" }] }] }],
    ["a role that is not known", { contents: [{ role: "function", parts: [{ text: "a" }] }] }],
    ["no contents", { contents: [] }],
    ["two system parts", { systemInstruction: { parts: [{ text: "a" }, { text: "b" }] } }],
    ["a top k", { generationConfig: { topK: 3 } }],
    ["a penalty", { generationConfig: { presencePenalty: 1 } }],
    ["log probabilities", { generationConfig: { responseLogprobs: true, logprobs: 2 } }],
    ["a thinking budget", { generationConfig: { thinkingConfig: { thinkingBudget: 0 } } }],
    ["thoughts in the answer", { generationConfig: { thinkingConfig: { includeThoughts: true } } }],
    [
      "a schema of OpenAPI",
      { generationConfig: { responseMimeType: "application/json", responseSchema: {} } },
    ],
    ["a seed beyond 2^53", { generationConfig: { seed: 2 ** 60 } }],
  ])("with %s has no place there", (_, more) => {
    expect(sent({ contents: [user("Hi")], ...more })).toBe(undefined);
  });

  it("is never half of itself: what is taken has each text once, in order", () => {
    const turn = fc.record({
      role: fc.constantFrom("user", "model"),
      parts: fc.array(fc.record({ text: fc.string() })),
    });
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1 }), (contents) => {
        const { input } = sent({ contents }) as { readonly input: readonly { readonly content: unknown }[] };
        const texts = contents.map(({ parts }) =>
          parts.map(({ text: words }) => ({ type: "text", text: words })),
        );
        expect(input.map(({ content }) => content)).toEqual(texts);
      }),
    );
  });
});

describe("the requests of its life", () => {
  it("go to the interactions of the provider, with its key", () => {
    const create = wire.create(PAYLOAD, undefined);
    expect(lineOf(create)).toBe(`POST ${HOST}/v1beta/interactions`);
    expect(create.headers).toMatchObject({ "x-goog-api-key": KEY, "content-type": "application/json" });
    expect(create.body).toEqual({ kind: "lines", before: "", separator: ",", after: "" });
    expect(lineOf(wire.get("v1_a"))).toBe(`GET ${HOST}/v1beta/interactions/v1_a?stream=false`);
    expect(lineOf(wire.cancel("v1_a"))).toBe(`POST ${HOST}/v1beta/interactions/v1_a/cancel`);
    expect(wire.remove({ id: "v1_a", files: [] }).map(lineOf)).toEqual([
      `DELETE ${HOST}/v1beta/interactions/v1_a`,
    ]);
  });

  it("keep an id one part of the path, whatever is in it", () => {
    expect(lineOf(wire.get("../models?x=/y"))).toBe(
      `GET ${HOST}/v1beta/interactions/..%2Fmodels%3Fx%3D%2Fy?stream=false`,
    );
  });

  it("go to another path, and with other limits, where the settings say so", () => {
    const own = deferred({ path: "/v2/answers", openMax: 7 });
    expect(lineOf(own.get("a"))).toBe(`GET ${HOST}/v2/answers/a?stream=false`);
    expect(own.limits).toMatchObject({ itemsMax: 1, openMax: 7, windowMs: 86_400_000 });
  });

  it("exist for Gemini's protocol only, and list nothing", () => {
    expect(deferredWireOf(settingsOf("openai"))).toBe(undefined);
    expect(wire.list).toBe(undefined);
  });
});

describe("an interaction", () => {
  it.each([
    ["queued", undefined, 0],
    ["in_progress", undefined, 0],
    ["paused_by_somebody", undefined, 0],
    ["completed", "completed", 1],
    ["incomplete", "completed", 1],
    ["requires_action", "completed", 1],
    ["requires_continuation", "completed", 1],
    ["budget_exceeded", "completed", 1],
    ["failed", "failed", 0],
    ["cancelled", "cancelled", 0],
  ])("that is %s has ended as %s, with %i results", (status, end, results) => {
    const batch = read({ status, created: "2026-11-20T10:00:00Z" });
    expect(batch).toMatchObject({ id: "v1_a", rawState: status, createdWallMs: Date.UTC(2026, 10, 20, 10) });
    expect(batch.end).toBe(end);
    expect(batch.results).toHaveLength(results);
  });

  it("that failed says why, and has a result where it was billed", () => {
    const { faults } = read({ status: "failed", errors: [{ code: "X", message: "out of cheese" }] });
    expect(faults).toMatchObject([{ is: "batch", message: "out of cheese" }]);
    expect(read({ status: "failed", usage: { total_tokens: 9 } }).results).toHaveLength(1);
    expect(read({ status: "failed", usage: { total_tokens: 0 } }).results).toHaveLength(0);
  });

  it("of a create without an id leaves in doubt whether it exists", () => {
    expect(wire.read(answer(200, { status: "queued" }))).toMatchObject({ ok: false, is: "unknown" });
    expect(wire.read(answer(200, "not JSON"))).toMatchObject({ ok: false, is: "unknown" });
    expect(wire.read(answer(503, ""))).toMatchObject({ ok: false, is: "unknown" });
    expect(wire.read(answer(429, ""))).toMatchObject({ ok: false, is: "refused" });
    expect(wire.read(answer(400, { error: { code: 400, message: "tier" } }))).toMatchObject({
      ...{ ok: false, is: "permanent", status: 400 },
    });
    expect(wire.read(answer(404, ""), "other")).toMatchObject({ ok: false, is: "gone" });
  });
});

describe("an answer", () => {
  const completed = { status: "completed", usage: USAGE, service_tier: "deferred" };

  it("is what the model said after the last input, with its tokens and its tier", () => {
    const steps = [said("old"), { type: "user_input" }, { type: "thought" }, said("one ", "two"), said("!")];
    expect(decoded({ ...completed, steps })).toMatchObject({
      ...{ class: "success", servedTier: "deferred" },
      ...{ text: "one two!", finish: "stop", requestId: "v1_a" },
      usage: { inputTokens: 12, cachedTokens: 4, outputTokens: 7, reasoningTokens: 2 },
    });
  });

  it.each([
    ["incomplete", { class: "success", finish: "length" }],
    ["requires_action", { class: "ambiguous" }],
    ["requires_continuation", { class: "ambiguous" }],
    ["budget_exceeded", { class: "ambiguous" }],
    ["failed", { class: "ambiguous" }],
  ])("of an interaction that is %s is billed as its usage says", (status, expected) => {
    expect(decoded({ ...completed, status, steps: [said("a")] })).toMatchObject({
      ...expected,
      usage: { inputTokens: 12, outputTokens: 7 },
    });
  });

  it("is unreadable before the end", () => {
    expect(decoded({ status: "in_progress" })).toBe("unreadable");
  });
});

it("reads any bytes without throwing", () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string()), (given) => {
      expect(["answered", "unreadable"]).toContain(wire.result(bytes.encode(given)).is);
      wire.read(answer(200, given));
      wire.takesBody?.(bytes.encode(given));
    }),
  );
});
