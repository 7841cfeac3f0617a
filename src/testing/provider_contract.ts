/**
 * What every `Provider` must do: a pure, total codec. For all that a server sends, `decode` says what it is and never
 * throws; what `encode` makes is JSON; limits are never negative; nothing that a codec receives is changed.
 */
import assert from "node:assert/strict";
import type { Decoded, HeaderBag, Provider, WireAnswer } from "../providers/provider.ts";
import type { FinishReason } from "../work/outcome.ts";
import type { ModelRequest } from "../work/request.ts";
import type { ContractCase } from "./contract_case.ts";
import { createRandom } from "./random.ts";

const WALL_MS = 1_767_225_600_000;
const STATUSES = [
  100, 200, 201, 204, 301, 400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 425, 429, 498, 499, 500, 502,
  503, 504, 520, 529, 599,
];

/** The cases. `model` is a name that the provider knows, without the provider's own name before it. */
export function providerContract(provider: Provider, model: string = "any-model"): readonly ContractCase[] {
  const cases: Readonly<Record<string, (provider: Provider, model: string) => void>> = {
    "the head of a model is stable, an origin and a path, with lower-case header names": headIsStable,
    "encode returns JSON or a reason, the same each time, and changes nothing": encodeIsPure,
    "decode understands any bytes under any status, the same each time": decodeIsTotal,
    "decode understands JSON of the wrong shape": decodeTakesWrongShapes,
    "a success has text and whole, non-negative usage": successIsWhole,
    "a success says in a common word how it ended": finishIsCommon,
    "names that a server sends are short and printable, or left out": namesAreShort,
    "only a status of success is decoded as success": successNeedsStatus,
    "waits that a provider asks for are finite and not negative": waitsAreFinite,
    "limits are undefined or not negative, for any headers": limitsAreSane,
    "messages do not carry the provider's body": messagesAreOurs,
  };
  return Object.entries(cases).map(([name, run]) => ({ name, run: async () => run(provider, model) }));
}

function headIsStable(provider: Provider, model: string): void {
  const head = provider.head(model);
  assert.deepEqual(provider.head(model), head);
  if (provider.answerLocally === undefined && provider.settings.protocol !== "function") {
    assert.equal(new URL(head.origin).origin, head.origin);
    assert.ok(head.path.startsWith("/"), head.path);
  }
  for (const name of Object.keys(head.headers)) assert.equal(name, name.toLowerCase());
}

function encodeIsPure(provider: Provider, model: string): void {
  for (const request of sampleRequests()) {
    const given = structuredClone(request);
    const encoded = provider.encode(request, model);
    assert.deepEqual(request, given);
    assert.deepEqual(provider.encode(request, model), encoded);
    if (encoded.ok) assert.equal(typeof JSON.parse(encoded.body), "object");
    else assert.notEqual(encoded.message, "");
    const checked = provider.encode(request, model, true);
    assert.deepEqual(checked, encoded.ok && checked.ok ? { ...encoded, body: checked.body } : encoded);
    if (encoded.ok && provider.answerLocally !== undefined) {
      const { status, body } = provider.answerLocally(new TextEncoder().encode(encoded.body));
      assert.equal(decode(provider, { status, body }).class, "success");
    }
  }
}

function decodeIsTotal(provider: Provider): void {
  const random = createRandom(7);
  for (const status of STATUSES) {
    for (const length of [0, 1, 17, 400]) {
      const body = Uint8Array.from({ length }, () => Math.floor(random() * 256));
      const given = body.slice();
      const decoded = decode(provider, { status, body });
      assert.deepEqual(decode(provider, { status, body }), decoded);
      assert.deepEqual(body, given);
    }
  }
}

function decodeTakesWrongShapes(provider: Provider): void {
  const shapes = wrongShapes();
  for (const status of STATUSES)
    for (const shape of shapes) decode(provider, { status, body: bytesOf(shape) });
}

function successIsWhole(provider: Provider): void {
  for (const shape of wrongShapes()) {
    const decoded = decode(provider, { status: 200, body: bytesOf(shape) });
    if (decoded.class !== "success") continue;
    assert.notEqual(decoded.text, "");
    const { isEstimated, ...counts } = decoded.usage ?? { isEstimated: true };
    assert.equal(typeof isEstimated, "boolean");
    for (const [name, count] of Object.entries(counts)) {
      if (count === undefined) continue;
      assert.ok(count >= 0 && Number.isFinite(count), `${name} is ${count}`);
      if (name !== "chargedUsd") assert.ok(Number.isInteger(count), `${name} is ${count}`);
    }
  }
}

const FINISHES: readonly FinishReason[] = ["stop", "length", "tool_calls", "content_filter", "refusal"];

function finishIsCommon(provider: Provider): void {
  for (const shape of [...wrongShapes(), ...wholeAnswers()]) {
    const decoded = decode(provider, { status: 200, body: bytesOf(shape) });
    if (decoded.class === "success") assert.ok(FINISHES.includes(decoded.finish), decoded.finish);
  }
}

function namesAreShort(provider: Provider): void {
  const names = [
    "a name",
    "x".repeat(256),
    "x".repeat(257),
    "",
    "line\nend",
    "naïve",
    "\ud800",
    "\u0000",
    7,
    null,
    {},
  ];
  for (const name of names) {
    for (const answer of wholeAnswers()) {
      const body = bytesOf({ ...answer, id: name, responseId: name, model: name, modelVersion: name });
      const headers = typeof name === "string" ? { "x-request-id": name, "request-id": name } : {};
      for (const status of [200, 400, 500]) {
        const decoded = decode(provider, { status, body, headers });
        const given = [decoded.requestId, ...(decoded.class === "success" ? [decoded.model] : [])];
        for (const each of given) if (each !== undefined) assert.match(each, /^[\x20-\x7e]{1,256}$/);
      }
    }
  }
}

/** A plain answer in the words of each protocol. */
function wholeAnswers(): readonly object[] {
  const text = "text";
  return [
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "refusal",
    "pause_turn",
    "tool_use",
    "MAX_TOKENS",
    "SAFETY",
    "new",
  ].flatMap((reason) => [
    { choices: [{ message: { content: text }, finish_reason: reason }] },
    { content: [{ type: "text", text }], stop_reason: reason },
    { candidates: [{ content: { parts: [{ text }] }, finishReason: reason }] },
    { text, finish: reason },
  ]);
}

function successNeedsStatus(provider: Provider): void {
  for (const status of STATUSES.filter((code) => code >= 300 || code < 200)) {
    for (const shape of wrongShapes()) {
      assert.notEqual(decode(provider, { status, body: bytesOf(shape) }).class, "success");
    }
  }
}

function waitsAreFinite(provider: Provider): void {
  for (const headers of sampleHeaders()) {
    for (const status of [429, 503, 529]) {
      const decoded = decode(provider, {
        status,
        headers,
        body: bytesOf({ error: { message: "slow down" } }),
      });
      if (decoded.class === "success" || decoded.retryAfterMs === undefined) continue;
      assert.ok(
        decoded.retryAfterMs >= 0 && Number.isFinite(decoded.retryAfterMs),
        `${decoded.retryAfterMs}`,
      );
    }
  }
}

function limitsAreSane(provider: Provider): void {
  for (const headers of sampleHeaders()) {
    const limits = provider.limits(headers);
    assert.deepEqual(provider.limits(headers), limits);
    for (const [name, value] of Object.entries(limits ?? {})) {
      assert.ok(value === undefined || (value >= 0 && Number.isFinite(value)), `${name} is ${value}`);
    }
  }
}

/** Of what concerns an item nothing of the body is shown; of a key, an account or a model at most the error's message. */
function messagesAreOurs(provider: Provider): void {
  const canary = "canary-5f1d";
  for (const status of STATUSES) {
    const error = { message: `a ${canary} `.repeat(100), type: "server_error", status: "INTERNAL" };
    const decoded = decode(provider, { status, body: bytesOf({ error, echoed: "canary-in-the-body" }) });
    if (decoded.class === "success") continue;
    const { message, scope } = decoded;
    assert.ok(!message.includes("canary-in-the-body"), message);
    if (scope === "item") assert.ok(!message.includes(canary), message);
    else assert.ok(message.length < 500, message);
  }
}

/** Decodes, and checks what holds of every answer. */
function decode(provider: Provider, answer: Partial<WireAnswer>): Decoded {
  const decoded = provider.decode({
    status: 200,
    headers: {},
    body: new Uint8Array(),
    wallMs: WALL_MS,
    ...answer,
  });
  assert.ok(["success", "refused", "ambiguous", "permanent"].includes(decoded.class));
  if (decoded.class !== "success") {
    assert.notEqual(decoded.message, "");
    assert.ok(["item", "model", "provider"].includes(decoded.scope));
  }
  return decoded;
}

function sampleRequests(): ModelRequest[] {
  const plain: ModelRequest = {
    system: [],
    turns: [{ role: "user", parts: ["Hello"] }],
    config: {},
    unknownFields: [],
  };
  return [
    plain,
    { ...plain, system: ["Be brief.", "Be kind."] },
    { ...plain, turns: [{ role: "user", parts: ["", '"\\\u2028\ud83d\ude00', "line\nline"] }] },
    {
      ...plain,
      turns: [
        { role: "user", parts: ["One?"] },
        { role: "model", parts: ["One."] },
        { role: "user", parts: ["Two?"] },
      ],
    },
    { ...plain, config: { temperature: 0.5, topP: 0.9, maxOutputTokens: 10, stopSequences: ["end"] } },
    { ...plain, config: { seed: 7, presencePenalty: 1, frequencyPenalty: -1, topK: 40 } },
    { ...plain, config: { responseMimeType: "application/json", responseJsonSchema: { type: "object" } } },
    { ...plain, config: { thinkingConfig: { thinkingBudget: 1_024 }, maxOutputTokens: 4_096 } },
    { ...plain, unknownFields: ["user"] },
  ];
}

function wrongShapes(): unknown[] {
  const odd = [null, true, 0, -1, 1e308, "", "text", [], [null], {}, { length: 1 }];
  return [
    ...odd,
    ...odd.flatMap((value) => [
      { error: value },
      { choices: value },
      { choices: [value] },
      { choices: [{ message: value, finish_reason: value }] },
      { choices: [{ message: { content: "text" }, finish_reason: value }], usage: value },
      { choices: [{ message: { content: value }, finish_reason: "stop" }], usage: { prompt_tokens: value } },
      { content: value, stop_reason: value, usage: value },
      { type: "message", content: [value], stop_reason: "end_turn", usage: { input_tokens: value } },
      {
        type: "message",
        content: [{ type: "text", text: "text" }],
        stop_reason: value,
        usage: { output_tokens: value },
      },
      { candidates: value },
      { candidates: [{ content: { parts: value }, finishReason: value }] },
      {
        candidates: [{ content: { parts: [{ text: "text" }] }, finishReason: "STOP" }],
        usageMetadata: value,
      },
      { text: value, output: value },
    ]),
  ];
}

function sampleHeaders(): HeaderBag[] {
  const values = [
    "",
    "0",
    "1",
    "100",
    "-5",
    "1e99",
    "NaN",
    "Infinity",
    "1s",
    "6m0s",
    "12ms",
    "soon",
    "2026-01-01T00:00:09Z",
  ];
  values.push("Thu, 01 Jan 2026 00:00:07 GMT", "Thu, 01 Jan 1970 00:00:07 GMT", "1, 2");
  const names = ["retry-after", "retry-after-ms", "x-should-retry"];
  for (const kind of ["requests", "tokens", "input-tokens", "output-tokens"]) {
    for (const what of ["limit", "remaining", "reset"]) {
      names.push(`x-ratelimit-${what}-${kind}`, `anthropic-ratelimit-${kind}-${what}`, `x-ratelimit-${what}`);
    }
  }
  return [{}, ...values.map((value) => Object.fromEntries(names.map((name) => [name, value])))];
}

function bytesOf(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}
