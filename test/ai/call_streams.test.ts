/**
 * The parts of a streamed call, for drawn answers in drawn pieces, before an engine that a test scripts.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AskedEngine, createPerigee, type StreamedPart } from "../../src/ai/index.ts";
import { PerigeeError } from "../../src/errors.ts";
import type { JsonObject } from "../../src/work/json.ts";

const prompt = [{ role: "user" as const, content: [{ type: "text", text: "?" }] }];

interface Answer {
  readonly reasoning: readonly string[];
  readonly text: readonly string[];
  readonly refusal: readonly string[];
  readonly calls: readonly { readonly name: string; readonly input: readonly string[] }[];
}

type OnChunk = NonNullable<NonNullable<Parameters<AskedEngine["submit"]>[1]>["onChunk"]>;

/** An engine whose only list is answered so. */
function engineOf(
  chunks: (onChunk: OnChunk | undefined) => Promise<void>,
  object: object,
  status = "completed",
): AskedEngine {
  const task = {
    taskId: "t",
    objects: [{ objectId: "o", status, usage: { inputTokens: 1, outputTokens: 1 }, ...object }],
  };
  const submit = (_items: unknown, { onChunk }: { readonly onChunk?: OnChunk } = {}): object => {
    const answered = chunks(onChunk).then(() => task);
    return Object.assign(answered, { finished: answered });
  };
  const unknown = (): Promise<never> => Promise.reject(new PerigeeError("not_found", "no such task"));
  const others = { task: unknown, cancel: unknown, holds: () => [] };
  return { submit, ...others } as unknown as AskedEngine; // as far as it is used here
}

function chunkOf(delta: object): JsonObject {
  return { choices: [{ index: 0, delta: { ...delta }, finish_reason: null }] };
}

function deltasOf({ reasoning, text, refusal, calls }: Answer): object[] {
  return [
    { role: "assistant", content: "" },
    ...reasoning.map((piece) => ({ reasoning_content: piece })),
    ...text.map((piece) => ({ content: piece })),
    ...refusal.map((piece) => ({ refusal: piece })),
    ...calls.flatMap(({ name, input }, index) => [
      { tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name, arguments: "" } }] },
      ...input.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ]),
  ];
}

function objectOf({ reasoning, text, refusal, calls }: Answer): object {
  const thought = reasoning.join("");
  const refused = refusal.join("");
  const toolCalls = calls.map(({ name, input }, index) => {
    const called = { name, arguments: input.join("") };
    return { id: `call_${index}`, type: "function", function: called };
  });
  return {
    output: { type: "text", text: text.join("") },
    finishReason: "stop",
    ...(thought === "" ? {} : { reasoning: thought }),
    ...(refused === "" ? {} : { refusal: refused }),
    ...(calls.length === 0 ? {} : { toolCalls }),
  };
}

async function partsOf(engine: AskedEngine): Promise<StreamedPart<"v3">[]> {
  const { stream } = await createPerigee(engine)("openai:m").doStream({ prompt });
  const parts: StreamedPart<"v3">[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** What the parts say together; throws for a delta outside of its start and end, and for an id that is used twice. */
function joined(parts: readonly StreamedPart<"v3">[]): object {
  const open = new Map<string, { readonly kind: string; text: string }>();
  const used = new Set<string>();
  const said: { kind: string; text: string }[] = [];
  const calls: object[] = [];
  for (const part of parts) {
    const [, kind = "", what] = /^(text|reasoning|tool-input)-(start|delta|end)$/.exec(part.type) ?? [];
    if (part.type === "tool-call") calls.push({ name: part.toolName, input: part.input });
    if (what === undefined || !("id" in part) || part.id === undefined) continue;
    const id = `${kind} ${part.id}`;
    if (what === "start") {
      expect(used.has(id)).toBe(false);
      used.add(id);
      open.set(id, { kind, text: "" });
      said.push(open.get(id) as { kind: string; text: string });
    }
    const known = open.get(id);
    if (known === undefined) throw new Error(`${part.type} of ${id}, which is not open`);
    if ("delta" in part) known.text += part.delta;
    if (what === "end") open.delete(id);
  }
  expect([...open.keys()]).toEqual([]);
  const textOf = (kind: string): string =>
    said.flatMap((each) => (each.kind === kind ? [each.text] : [])).join("");
  const inputs = said.flatMap((each) => (each.kind === "tool-input" ? [each.text] : []));
  return { reasoning: textOf("reasoning"), text: textOf("text"), inputs, calls };
}

const pieces = fc.array(fc.string({ maxLength: 4 }), { maxLength: 4 });
const answers: fc.Arbitrary<Answer> = fc.record({
  reasoning: pieces,
  text: pieces,
  refusal: pieces,
  calls: fc.array(fc.record({ name: fc.constantFrom("a", "b"), input: pieces }), { maxLength: 3 }),
});

describe("the parts of a stream", () => {
  it("say together what the recorded answer says, in whichever pieces it arrives, or as a whole", async () => {
    await fc.assert(
      fc.asyncProperty(answers, fc.boolean(), async (answer, isStreamed) => {
        const engine = engineOf(async (onChunk) => {
          if (isStreamed) for (const delta of deltasOf(answer)) await onChunk?.(chunkOf(delta));
        }, objectOf(answer));
        const parts = await partsOf(engine);
        expect(parts[0]).toMatchObject({ type: "stream-start" });
        expect(parts.at(-1)).toMatchObject({ type: "finish", finishReason: { unified: "stop" } });
        const text = answer.text.join("");
        expect(joined(parts)).toEqual({
          reasoning: answer.reasoning.join(""),
          text: text === "" ? answer.refusal.join("") : text,
          inputs: isStreamed ? answer.calls.map(({ input }) => input.join("")) : [],
          calls: answer.calls.map(({ name, input }) => ({ name, input: input.join("") })),
        });
      }),
      { numRuns: 200 },
    );
  });

  it("wait for their reader, chunk by chunk", async () => {
    const taken: string[] = [];
    const engine = engineOf(async (onChunk) => {
      for (const content of ["a", "b", "c"]) {
        await onChunk?.(chunkOf({ content }));
        taken.push(content);
      }
    }, {});
    const { stream } = await createPerigee(engine)("openai:m").doStream({ prompt });
    const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    await settled();
    expect(taken).toEqual([]); // stream-start, text-start and the delta wait
    const reader = stream.getReader();
    for (let parts = 0; parts < 3; parts += 1) await reader.read();
    await settled();
    expect(taken).toEqual(["a"]);
    await reader.cancel();
    await settled();
    expect(taken).toEqual(["a", "b", "c"]); // nobody is waited for
  });

  it("have the choice that is first by its index, and nothing of chunks in another form", async () => {
    const other = { index: 1, delta: { content: "other" } };
    const first = { index: 0, delta: { content: [{ type: "text", text: "first" }, "x", null] } };
    const odd: readonly JsonObject[] = [
      {},
      { choices: null },
      { choices: [7, { index: 0 }, { index: 0, delta: "x" }] },
      { choices: [{ index: 0, delta: { content: 7, tool_calls: [null, { function: "f" }, { index: 0 }] } }] },
      { choices: [other, first] },
    ];
    const engine = engineOf(
      async (onChunk) => {
        for (const chunk of odd) await onChunk?.(chunk);
      },
      objectOf({ reasoning: [], text: ["first"], refusal: [], calls: [] }),
    );
    expect(joined(await partsOf(engine))).toEqual({ reasoning: "", text: "first", inputs: [], calls: [] });
  });

  it("have a tool call without an id at its begin when it is recorded", async () => {
    const toolCalls = [{ id: "late", type: "function", function: { name: "f", arguments: "{}" } }];
    const engine = engineOf(
      async (onChunk) => {
        await onChunk?.(chunkOf({ tool_calls: [{ index: 0, function: { name: "f", arguments: "{" } }] }));
        await onChunk?.(chunkOf({ tool_calls: [{ index: 0, function: { arguments: "}" } }] }));
      },
      { toolCalls },
    );
    expect(joined(await partsOf(engine))).toMatchObject({ inputs: [], calls: [{ name: "f", input: "{}" }] });
  });
});
