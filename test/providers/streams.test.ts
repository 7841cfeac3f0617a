/**
 * Event streams of providers: how they are asked for, how their bytes become events, and that a reader of any protocol keeps to its contract.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Protocol } from "../../src/providers/provider.ts";
import { createProvider } from "../../src/providers/registry.ts";
import { SseReader } from "../../src/providers/streams/sse.ts";
import { streamFormOf } from "../../src/providers/streams/stream_form.ts";

function read(bytes: Uint8Array, cuts: readonly number[]): string[] {
  const reader = new SseReader();
  const at = [
    0,
    ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((one, other) => one - other),
    bytes.length,
  ];
  return at.slice(1).flatMap((end, index) => reader.read(bytes.subarray(at[index], end)));
}

/** Data of an event: any text, which has several lines and characters of up to four bytes. */
const line = fc.stringMatching(/^[ -~äß€𝒳:]{0,12}$/u);
const event = fc.record({
  lines: fc.array(line, { minLength: 1, maxLength: 3 }),
  before: fc.array(
    fc.constantFrom(": ping", ":", "event: message", "id: 7", "retry: 10", "dataset: no", "other"),
    {
      maxLength: 2,
    },
  ),
  hasSpace: fc.boolean(),
});

describe("an event stream", () => {
  it("has the same events however its bytes are cut, and by whatever ends its lines", () => {
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 6 }),
        fc.constantFrom("\n", "\r\n", "\r"),
        fc.array(fc.nat(), { maxLength: 12 }),
        (events, end, cuts) => {
          const text = events.map(({ lines, before, hasSpace }) => {
            const data = lines.map((each) =>
              hasSpace || each.startsWith(" ") ? `data: ${each}` : `data:${each}`,
            );
            return [...before, ...data, "", ""].join(end);
          });
          const bytes = Buffer.from(text.join(""));
          const wanted = events.map(({ lines }) => lines.join("\n"));
          expect(read(Buffer.concat([bytes, Buffer.from("data: end\n\n")]), cuts)).toEqual([
            ...wanted,
            "end",
          ]);
        },
      ),
    );
  });

  it("has the same events byte by byte, also at characters of several bytes", () => {
    const bytes = Buffer.from('data: {"text":"über 𝒳 € 語"}\r\n\r\ndata: zwei\r\ndata: Zeilen\r\n\r\n');
    const each = Array.from({ length: bytes.length }, (_, index) => index);
    expect(read(bytes, each)).toEqual(['{"text":"über 𝒳 € 語"}', "zwei\nZeilen"]);
  });

  it("begins after a byte order mark, and a line of only `data` is an empty one", () => {
    expect(read(Buffer.from("\uFEFFdata: one\n\ndata\ndata: two\n\n"), [1, 2])).toEqual(["one", "\ntwo"]);
  });

  it("is given up when an event does not end, however many bytes follow", () => {
    const reader = new SseReader();
    const part = Buffer.alloc(1024 * 1024, 0x78);
    reader.read(Buffer.from("data: "));
    for (let mib = 0; mib < 64 && !reader.isTooLong; mib += 1) expect(reader.read(part)).toEqual([]);
    expect(reader.isTooLong).toBe(true);
    expect(reader.read(Buffer.from("\n\ndata: late\n\n"))).toEqual([]);
  });
});

const json = fc.oneof(
  fc.json(),
  fc
    .record(
      {
        type: fc.constantFrom(
          ...[
            "message_start",
            "content_block_start",
            "content_block_delta",
            "message_delta",
            "message_stop",
            "error",
          ],
          ...["response.created", "response.output_text.delta", "response.completed", "response.failed"],
        ),
        index: fc.oneof(fc.nat(3), fc.string()),
        delta: fc.oneof(
          fc.string(),
          fc.dictionary(fc.constantFrom("text", "content", "stop_reason"), fc.jsonValue()),
        ),
        choices: fc.oneof(
          fc.jsonValue(),
          fc.array(fc.record({ index: fc.nat(20), delta: fc.jsonValue(), text: fc.jsonValue() })),
        ),
        candidates: fc.array(fc.record({ content: fc.record({ parts: fc.array(fc.jsonValue()) }) })),
        response: fc.jsonValue(),
        usage: fc.jsonValue(),
        error: fc.jsonValue(),
      },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value)),
  fc.string(),
);

describe("a reader of a provider's events", () => {
  const forms = (["openai", "anthropic", "gemini"] as const satisfies readonly Protocol[]).flatMap(
    (protocol) => {
      const provider = createProvider({ name: "p", protocol, baseUrl: "http://127.0.0.1:1/v1" });
      const kinds = protocol === "openai" ? (["response", "completion"] as const) : [];
      const codecs = [provider, ...kinds.flatMap((kind) => provider.endpoint?.(kind) ?? [])];
      return codecs.map((codec) => ({ name: `${protocol} ${codec.kind ?? "chat"}`, codec }));
    },
  );

  it.each(forms)(
    "of $name reads any events, and what it kept is an answer that its codec reads",
    ({ codec }) => {
      fc.assert(
        fc.property(fc.array(json, { maxLength: 8 }), (events) => {
          const reader = streamFormOf(codec)?.reader(1);
          for (const data of events)
            for (const chunk of reader?.read(data) ?? []) expect(JSON.parse(chunk.json)).toBeTypeOf("object");
          const body = Buffer.from(JSON.stringify(reader?.whole()));
          expect(codec.decode({ status: 200, headers: {}, body, wallMs: 0 })).toHaveProperty("class");
        }),
        { numRuns: 25 },
      );
    },
  );
});

/** What a client of OpenAI's puts together from chunks. */
function callsIn(events: readonly unknown[], protocol: Protocol): { calls: unknown; decoded: unknown } {
  const provider = createProvider({ name: "p", protocol, baseUrl: "http://127.0.0.1:1" });
  const reader = streamFormOf(provider)?.reader(1);
  const chunks = events.flatMap((each) => reader?.read(JSON.stringify(each)) ?? []);
  const calls: { function: { arguments: string } }[] = [];
  for (const chunk of chunks)
    for (const { index, ...call } of JSON.parse(chunk.json).choices[0]?.delta.tool_calls ?? []) {
      const known = calls[index];
      if (known === undefined) calls[index] = call;
      else known.function.arguments += call.function.arguments;
    }
  const body = Buffer.from(JSON.stringify(reader?.whole()));
  const decoded = provider.decode({ status: 200, headers: {}, body, wallMs: 0 });
  return { calls, decoded: "members" in decoded ? decoded.members?.tool_calls : undefined };
}

const argumentsOf = fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.oneof(fc.string(), fc.integer()), {
  maxKeys: 3,
});

describe("calls of tools in a stream", () => {
  const called = fc.record({ kind: fc.constant("call" as const), input: argumentsOf, cut: fc.nat(40) });
  const thought = fc.record({
    kind: fc.constant("thought" as const),
    signature: fc.stringMatching(/^[a-z]{1,6}$/),
  });
  const hidden = fc.constant({ kind: "hidden" as const });

  it("of Anthropic are those of the whole answer, with the thoughts that it demands back", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(called, thought, hidden), { maxLength: 6 }), called, (blocks, last) => {
        const events = [...blocks, last].flatMap((block, index) => {
          const grow = (delta: object) => ({ type: "content_block_delta", index, delta });
          const start = (content_block: object) => ({ type: "content_block_start", index, content_block });
          const end = { type: "content_block_stop", index };
          if (block.kind === "hidden") return [start({ type: "redacted_thinking", data: "x" }), end];
          if (block.kind === "thought")
            return [
              start({ type: "thinking", thinking: "", signature: "" }),
              grow({ type: "thinking_delta", thinking: "hm" }),
              grow({ type: "signature_delta", signature: block.signature }),
              end,
            ];
          const text = JSON.stringify(block.input);
          const pieces = text === "{}" ? [""] : [text.slice(0, block.cut), text.slice(block.cut)];
          return [
            start({ type: "tool_use", id: `t${index}`, name: "f", input: {} }),
            ...pieces.map((partial_json) => grow({ type: "input_json_delta", partial_json })),
            end,
          ];
        });
        const message = { type: "message_start", message: { id: "m", model: "c", content: [], usage: {} } };
        const stop = { type: "message_delta", delta: { stop_reason: "tool_use" } };
        const { calls, decoded } = callsIn([message, ...events, stop, { type: "message_stop" }], "anthropic");
        expect(calls).toEqual(decoded);
      }),
    );
  });

  it("of Anthropic have an object as their arguments where the model gave none", () => {
    const block = { type: "tool_use", id: "t", name: "now", input: {} };
    const { calls } = callsIn(
      [
        { type: "content_block_start", index: 0, content_block: block },
        { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: "" } },
        { type: "content_block_stop", index: 0 },
      ],
      "anthropic",
    );
    expect(calls).toEqual([{ id: "t", type: "function", function: { name: "now", arguments: "{}" } }]);
  });

  it("of Gemini are those of the whole answer, with the signature that it demands back", () => {
    const signed = fc.record({ args: argumentsOf, thoughtSignature: fc.option(fc.string()) });
    fc.assert(
      fc.property(fc.array(signed, { minLength: 1, maxLength: 4 }), (made) => {
        const events = made.map(({ args, thoughtSignature }) => {
          const part = { functionCall: { name: "f", args }, ...(thoughtSignature && { thoughtSignature }) };
          return { candidates: [{ content: { parts: [part] } }] };
        });
        const end = { candidates: [{ content: { parts: [{ text: "" }] }, finishReason: "STOP" }] };
        const { calls, decoded } = callsIn([...events, end], "gemini");
        expect(calls).toEqual(decoded);
      }),
    );
  });
});

describe("a request for a stream", () => {
  const bodyOf = (name: string, settings: object = {}): unknown => {
    const provider = createProvider({
      name,
      protocol: "openai",
      baseUrl: "http://127.0.0.1:1/v1",
      ...settings,
    });
    const body = streamFormOf(provider)?.body(Buffer.from('{"model":"m","seed":12345678901234567890}'));
    return Buffer.from(body ?? []).toString();
  };

  it("asks for the usage, except at Mistral, which sends it unasked, or as the provider's settings say", () => {
    const asking =
      '{"stream":true,"stream_options":{"include_usage":true},"model":"m","seed":12345678901234567890}';
    const plain = '{"stream":true,"model":"m","seed":12345678901234567890}';
    expect(bodyOf("openai")).toBe(asking);
    expect(bodyOf("mistral")).toBe(plain);
    expect(bodyOf("mistral", { streamUsage: true })).toBe(asking);
    expect(bodyOf("local", { streamUsage: false })).toBe(plain);
  });
});
