/** Embeddings of a provider that is a function: its member `embed`. */
import { describe, expect, it } from "vitest";
import type {
  EmbedAnswer,
  EmbedFunction,
  EmbedRequest,
  ProviderFunction,
} from "../../src/providers/index.ts";
import { OUTPUT, World } from "./world.ts";

interface EmbeddingLine {
  readonly key: string;
  readonly status: string;
  readonly output: { readonly embedding: readonly number[] | string } | null;
  readonly usage: { readonly input_tokens: number };
  readonly error?: { readonly code: string; readonly message: string };
}

const vectorOf = (text: string): number[] => [text.length, Number(/\d+/.exec(text)?.[0])];
const chat: ProviderFunction = () => ({ text: "a chat" });

/** Runs items of the provider `mine`, and returns their lines by key. */
async function linesOf(embed: EmbedFunction | undefined, items: readonly object[]) {
  const mine: ProviderFunction =
    embed === undefined ? chat : Object.assign((() => ({ text: "a chat" })) as ProviderFunction, { embed });
  const world = new World({ config: { providers: { mine } } });
  const lines = items.map((item, index) => ({
    key: `k${index + 1}`,
    kind: "embedding",
    model: "mine:e",
    ...item,
  }));
  world.disk.put("/in.jsonl", lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const engine = await world.engine();
  await world.settle(engine.run("/in.jsonl", { out: OUTPUT }).finished);
  await world.settle(engine.close());
  const found = world.output() as unknown as EmbeddingLine[]; // its records of embeddings
  return found.toSorted((one, other) => Number(one.key.slice(1)) - Number(other.key.slice(1)));
}

const texts = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ input: `text ${index + 1}` }));
const answered = ({ texts: given }: EmbedRequest): EmbedAnswer => ({ embeddings: given.map(vectorOf) });

describe("a function with embed", () => {
  it("gets the texts of many items at once, and each item has its own vector and tokens", async () => {
    const requests: EmbedRequest[] = [];
    const embed: EmbedFunction = (request) => {
      requests.push(request);
      return { ...answered(request), inputTokens: 5 * request.texts.length };
    };
    const lines = await linesOf(embed, texts(300));
    expect(lines.map(({ output }) => output?.embedding)).toEqual(
      texts(300).map(({ input }) => vectorOf(input)),
    );
    expect(new Set(lines.map(({ usage }) => usage.input_tokens))).toEqual(new Set([5]));
    expect(requests.length).toBeLessThan(12);
    expect(requests[0]).toMatchObject({ model: "e", texts: expect.any(Array) });
  });

  it("gets no more texts at once than it says, the settings of items, and no format of the wire", async () => {
    const requests: EmbedRequest[] = [];
    const embed: EmbedFunction = Object.assign(
      (request: EmbedRequest) => {
        requests.push(request);
        return { embeddings: request.texts.map((text) => new Float32Array(vectorOf(text))) };
      },
      { inputsMax: 2 },
    );
    const settings = { dimensions: 2, user: "u", encoding_format: "base64" };
    const lines = await linesOf(embed, [
      ...texts(4).map((item) => ({ ...item, ...settings })),
      { input: ["text 5", "text 6", "text 7"] },
    ]);
    const [first] = lines;
    const bytes = Uint8Array.from(Buffer.from(String(first?.output?.embedding), "base64"));
    expect([...new Float32Array(bytes.buffer)]).toEqual(vectorOf("text 1"));
    expect(lines[4]?.output).toEqual({
      type: "embedding",
      embeddings: [5, 6, 7].map((each) => vectorOf(`text ${each}`)),
    });
    const shared = requests.filter(({ dimensions }) => dimensions !== undefined);
    expect(Math.max(...shared.map(({ texts: given }) => given.length))).toBe(2);
    expect(shared[0]).toEqual({
      model: "e",
      texts: ["text 1", "text 2"],
      dimensions: 2,
      more: { user: "u" },
    });
  });

  it.each<[string, () => unknown, string, RegExp]>([
    [
      "an error of an SDK",
      () => {
        throw Object.assign(new Error("no"), { status: 400 });
      },
      "invalid_request",
      /400/,
    ],
    [
      "an error that is not to be repeated",
      () => {
        throw Object.assign(new Error("too odd"), { retryable: false });
      },
      "invalid_request",
      /too odd/,
    ],
    ["too few vectors", () => ({ embeddings: [] }), "invalid_response", /without embeddings/],
    [
      "numbers that are none",
      () => ({ embeddings: [[Number.NaN]] }),
      "invalid_response",
      /without embeddings/,
    ],
    ["nothing", () => undefined, "invalid_response", /without embeddings/],
  ])("that ends with %s fails its item, and no other", async (_what, end, code, words) => {
    const embed: EmbedFunction = (request) =>
      request.texts.includes("text 3") ? (end() as EmbedAnswer) : answered(request);
    const lines = await linesOf(embed, texts(20));
    expect(lines.filter(({ output }) => output !== null)).toHaveLength(19);
    expect(lines[2]).toMatchObject({ output: null, error: { code, message: expect.stringMatching(words) } });
  });

  it("embeds texts, and no token ids", async () => {
    const [line] = await linesOf(answered, [{ input: [1, 2, 3] }]);
    expect(line?.error).toMatchObject({
      code: "unsupported_request",
      message: expect.stringContaining("token ids"),
    });
  });

  it("that is not a function, or has no valid inputsMax, is refused when the engine opens", async () => {
    for (const embed of [5, Object.assign(() => answered, { inputsMax: 0 })]) {
      const mine = Object.assign(() => ({ text: "" }), { embed }) as unknown as ProviderFunction;
      await expect(new World({ config: { providers: { mine } } }).engine()).rejects.toMatchObject({
        code: "invalid_config",
        message: expect.stringContaining("providers.mine: embed"),
      });
    }
  });
});

it("a function without embed is not called for embeddings", async () => {
  const [line] = await linesOf(undefined, texts(1));
  expect(line?.error).toMatchObject({ code: "unsupported_request" });
});
