import { describe, expect, it } from "vitest";
import type { Decoded } from "../../src/providers/index.ts";
import type { ModelRequest } from "../../src/work/request.ts";
import { provider, request, WALL_MS } from "./answers.ts";

const echo = provider("echo");

function answered(given: ModelRequest): Decoded {
  const encoded = echo.encode(given, "any");
  if (!encoded.ok || echo.answerLocally === undefined) throw new Error("echo must answer");
  expect(encoded.dropped).toEqual([]);
  const { status, body } = echo.answerLocally(new TextEncoder().encode(encoded.body));
  return echo.decode({ status, headers: {}, body, wallMs: WALL_MS });
}

describe("echo", () => {
  it("answers with the last user text and counts a token per four characters", () => {
    const given = request({
      system: ["12345678"],
      turns: [
        { role: "user", parts: ["1234"] },
        { role: "model", parts: ["1234"] },
        { role: "user", parts: ["How ", "many?"] },
      ],
    });
    expect(answered(given)).toEqual({
      class: "success",
      text: "How many?",
      finish: "stop",
      usage: {
        inputTokens: 7,
        cachedTokens: 0,
        cacheWriteTokens: 0,
        outputTokens: 3,
        reasoningTokens: 0,
        isEstimated: false,
      },
    });
    expect(answered(given)).toEqual(answered(given));
  });

  it("cuts at the token limit, never inside a character", () => {
    const long = request({ turns: [{ role: "user", parts: ["abc🥚def"] }], config: { maxOutputTokens: 1 } });
    expect(answered(long)).toMatchObject({ text: "abc", finish: "length" });
  });

  it("is never silently empty", () => {
    expect(answered(request({ turns: [{ role: "user", parts: [""] }] }))).toMatchObject({ text: "(empty)" });
    expect(answered(request({ turns: [] }))).toMatchObject({ text: "(empty)" });
    expect(answered(request({ config: { maxOutputTokens: 0 } }))).toMatchObject({
      class: "permanent",
      code: "empty_output",
    });
  });

  it("refuses settings that would change the answer, and names them where they are dropped", () => {
    const encode = (config: ModelRequest["config"], more: Record<string, unknown> = {}) =>
      provider("echo", more).encode(request({ config }), "any");
    const sampling = { temperature: 0, topP: 0.9, topK: 5, seed: 7, presencePenalty: 1, frequencyPenalty: 1 };
    expect(encode({ ...sampling, maxOutputTokens: 5 })).toMatchObject({ ok: true, dropped: [] }); // it has one answer
    expect(encode({ stopSequences: ["x"], responseJsonSchema: { type: "object" } })).toEqual({
      ok: false,
      code: "invalid_config",
      field: "stop_sequences",
      message:
        'echo:any does not take stop_sequences, response_schema; leave them out, or set unsupportedConfig to "drop"',
    });
    expect(
      encode(
        { responseLogprobs: true, thinkingConfig: { thinkingLevel: "low" } },
        { unsupportedConfig: "drop" },
      ),
    ).toMatchObject({ ok: true, dropped: ["logprobs", "thinking_level"] });
    const image = { kind: "media", type: "image", source: { url: "https://x" } } as const;
    expect(echo.encode(request({ turns: [{ role: "user", parts: ["Hi", image] }] }), "any")).toMatchObject({
      ok: false,
      message: "contents[0].parts[1]: echo takes only text",
    });
  });

  it("refuses a body that is not its own", () => {
    expect(echo.answerLocally?.(new TextEncoder().encode("no"))).toMatchObject({ status: 400 });
  });
});
