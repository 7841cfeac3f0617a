/** What a codec keeps of an item for the next one changes no request. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readEndpointRequest } from "../../../src/jsonl/endpoint_item.ts";
import { LineFault } from "../../../src/jsonl/fault.ts";
import type { Encoded, Provider } from "../../../src/providers/index.ts";
import type { JsonObject } from "../../../src/work/json.ts";
import { provider } from "../answers.ts";

const MODELS = ["e", "f"];

/** Members in any order, a few of them as in the item before. */
const item = fc
  .tuple(
    fc.constantFrom<JsonObject>({ input: "a" }, { input: 'b"' }, { input: ["a", "b"] }, { input: [1, 2] }),
    fc.subarray<JsonObject>([{ dimensions: 2 }, { dimensions: 3 }, { user: "u" }]),
    fc.constantFrom<JsonObject>(
      {},
      {},
      { dimensions: null },
      { stream: false },
      { top_k: 1 },
      { tags: ["t"] },
    ),
    fc.boolean(),
  )
  .map(([input, members, other, isFirst]): JsonObject => {
    const all: JsonObject[] = isFirst ? [input, ...members, other] : [other, ...members, input];
    return Object.assign({}, ...all) as JsonObject;
  });

function codec(name: string): Provider {
  const found = provider(name, { baseUrl: "http://server.test/v1", key: "k" }).endpoint?.("embedding");
  if (found === undefined) throw new Error(`${name} has no embeddings`);
  return found;
}

/** Without the order of the members. */
function meaning(encoded: Encoded): unknown {
  if (!encoded.ok) return encoded;
  const { joins } = encoded;
  if (joins === undefined) return { ...encoded, body: JSON.parse(encoded.body) as unknown };
  const { open, close, listOpen, listClose, ...bounds } = joins;
  const one: unknown = JSON.parse(`${open}"x"${close}`);
  const several: unknown = JSON.parse(`${listOpen}"x","y"${listClose}`);
  return { ...encoded, body: JSON.parse(encoded.body) as unknown, joins: { one, several, ...bounds } };
}

describe("the codec of embeddings", () => {
  it("encodes an item the same after any others", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("openai", "mistral", "vllm"),
        fc.array(fc.tuple(item, fc.constantFrom(...MODELS)), { maxLength: 6 }),
        (name, items) => {
          const used = codec(name);
          for (const [given, model] of items) {
            const request = readEndpointRequest("embedding", given);
            if (request instanceof LineFault) throw new Error(request.message);
            expect(meaning(used.encode(request, model))).toEqual(meaning(codec(name).encode(request, model)));
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
