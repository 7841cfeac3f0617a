/**
 * Refusals over HTTP name the member that is at fault, as the caller's own request calls it.
 */
import { expect, it } from "vitest";
import { completion, frontOfEachTest, sendJson } from "./front_world.ts";

const front = frontOfEachTest();

const OPENAI = "openai:gpt-4o-mini";
const ANTHROPIC = "anthropic:claude-haiku-4-5";
const messages = [{ role: "user", content: "x" }];
const badFormat = { type: "json_schema", json_schema: { name: "a", schema: "text" } };
const bad = { type: "objct" };

/** What each request is refused with: its place, and the beginning of its message. */
const REFUSED: readonly (readonly [path: string, body: object, param: string, message: string])[] = [
  [
    ...(["/v1/chat/completions", { model: OPENAI, messages, response_format: badFormat }] as const),
    ...(["response_format", "response_format.json_schema.schema must be"] as const),
  ],
  [
    ...([
      "/v1/chat/completions",
      { model: OPENAI, messages, response_format: badFormat, stream: true },
    ] as const),
    ...(["response_format", "response_format.json_schema.schema must be"] as const),
  ],
  ["/v1/chat/completions", { model: OPENAI, messages, temperature: 9 }, "temperature", "temperature must be"],
  ["/v1/chat/completions", { model: ANTHROPIC, messages, n: 2 }, "n", `${ANTHROPIC} does not take n;`],
  ["/v1/chat/completions", { model: ANTHROPIC, messages, constructor: 1 }, "constructor", ANTHROPIC],
  [
    "/v1/chat/completions",
    { model: ANTHROPIC, messages: [{ role: "x", content: "x" }] },
    "messages",
    "messages[0]",
  ],
  [
    ...([
      "/v1/responses",
      { model: ANTHROPIC, input: "x", text: { format: { type: "json_schema", schema: "x" } } },
    ] as const),
    ...(["text.format", "text.format.schema must be an object"] as const),
  ],
  [
    ...(["/v1/responses", { model: ANTHROPIC, input: "x", max_output_tokens: -1 }] as const),
    ...(["max_output_tokens", "max_output_tokens must be"] as const),
  ],
  [
    "/v1/embeddings",
    { model: OPENAI, input: "x", metadata: "run 7" },
    "metadata",
    "metadata: Invalid input: expected record",
  ],
  [
    "/v1/completions",
    { model: OPENAI, prompt: "x", metadata: [1] },
    "metadata",
    "metadata: Invalid input: expected record",
  ],
  [
    "/v1/completions",
    { model: OPENAI, prompt: "x", service_tier: 1 },
    "service_tier",
    "service_tier: Invalid input: expected string",
  ],
  ["/v1/embeddings", { model: "gemini:gemini-embedding-001", input: [1, "x"] }, "input", "input"],
  [
    "/v0/infer/",
    [{ model: OPENAI, input: "x", schema: bad }],
    "0.schema",
    "item 0: the schema cannot be used",
  ],
  ["/v0/infer/", [{ model: OPENAI, input: "x", schema: "x" }], "0.schema", "item 0: schema must be"],
  [
    "/v0/infer/",
    [{ model: OPENAI, messages, temperature: 9 }],
    "0.temperature",
    "item 0: temperature must be",
  ],
  [
    ...(["/v0/infer/", [{ model: OPENAI, messages, response_format: badFormat }]] as const),
    ...(["0.response_format", "item 0: response_format"] as const),
  ],
  [
    ...(["/v0/infer/", [{ model: OPENAI, input: "x", generation_config: { temperature: 9 } }]] as const),
    ...(["0.generation_config.temperature", "item 0: temperature must be"] as const),
  ],
];

it("a refused request names the member by the caller's own name, and nothing is sent", async () => {
  const { call, received } = await front((_request, response) => sendJson(response, completion({})));
  const found = [];
  for (const [path, body] of REFUSED) {
    const answer = await call(path, { method: "POST", body: JSON.stringify(body) });
    const { error } = (await answer.json()) as { error?: { param: string; message: string } };
    found.push([path, answer.status, error?.param, error?.message]);
  }
  expect(found).toEqual(
    REFUSED.map(([path, , param, message]) => [path, 422, param, expect.stringContaining(message)]),
  );
  expect(received).toHaveLength(0);
});

it.each([
  `{"model":"${OPENAI}","messages":[{"role":"user","content":"x"}],"__proto__":{"a":1}}`,
  `{"model":"${OPENAI}","messages":[{"role":"user","content":"x","__proto__":{"a":1}}]}`,
])("a member that is called __proto__ is refused, because it would not be passed on: %s", async (body) => {
  const { call, received } = await front((_request, response) => sendJson(response, completion({})));
  const answer = await call("/v1/chat/completions", { method: "POST", body });
  expect(answer.status).toBe(422);
  expect(await answer.text()).toContain("__proto__");
  expect(received).toHaveLength(0);
});
