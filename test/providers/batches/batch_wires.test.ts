/** Which provider has which batch wire, what a configuration changes of it, and what holds for all of them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { BatchWire } from "../../../src/providers/batches/batch_wire.ts";
import { batchWireOf } from "../../../src/providers/batches/batch_wires.ts";
import { defaultSettings } from "../../../src/providers/index.ts";
import type { answer } from "../answers.ts";
import { bytesOf, PAYLOAD, shortOf, wireOf } from "./wire_answers.ts";

const NAMES = [
  "openai",
  "compatible",
  "groq",
  "azure",
  "doubleword",
  "novita",
  "dashscope",
  "mistral",
  "together",
];
const SEARCH = { payload: PAYLOAD, sinceWallMs: 1_000_000 };

describe("the batch wire of a provider", () => {
  it("is that of its name, and none where no wire is known", () => {
    const has = (name: string): boolean => {
      const settings = defaultSettings(name);
      return settings !== undefined && batchWireOf(settings) !== undefined;
    };
    const known = ["openai", "groq", "mistral", "together", "anthropic", "gemini", "google", "openrouter"];
    expect(known.filter((name) => !has(name))).toEqual([]);
    expect(["echo", "deepseek", "fireworks", "vllm", "ollama"].filter(has)).toEqual([]);
  });

  it("is chosen by the settings for a server of one's own", () => {
    const settings = { name: "mine", protocol: "openai", baseUrl: "http://127.0.0.1:9/v1" } as const;
    expect(batchWireOf(settings)).toBeUndefined();
    expect(batchWireOf(settings, { wire: "compatible" })?.settings).toBe(settings);
    expect(batchWireOf(settings, { wire: "mistral" })?.create(PAYLOAD, "f").path).toBe("/v1/batch/jobs");
  });

  it("is none for another protocol, and a wire that is named must exist and fit", () => {
    const given = { name: "openai", protocol: "own", baseUrl: "https://x.test" } as const;
    expect(batchWireOf(given)).toBeUndefined();
    expect(batchWireOf({ ...given, protocol: "openai", hasOwnCodec: true })).toBeUndefined();
    expect(() => batchWireOf(given, { wire: "openai" })).toThrow(
      'provider openai: batch wire "openai" needs protocol "openai", got "own"',
    );
    expect(() => batchWireOf(given, { wire: "opnai" })).toThrow(
      'batch wire "opnai" is not known; did you mean "openai"?',
    );
  });

  it("has every bound that the settings give, since accounts differ", () => {
    const given = {
      itemsMax: 7,
      bytesMax: 8,
      openMax: 9,
      enqueuedTokensMax: 10,
      inputsMax: 11,
      windowMs: 3_600_000,
      keptMs: 12,
      endpoints: ["chat"],
      takes: { images: false },
    } as const;
    for (const name of NAMES) {
      const { limits, traits } = wireOf(name, {}, given);
      const { endpoints, takes, ...bounds } = given;
      expect(limits, name).toEqual(bounds);
      expect(traits.endpoints, name).toEqual(endpoints);
      expect(traits.takes, name).toEqual({ tools: true, images: false, schemas: true });
      expect(wireOf(name).limits.itemsMax, name).toBeGreaterThan(7);
    }
  });

  it("asks for the window that the settings give, or for the only one that a provider has", () => {
    const window = (name: string, given: object): unknown =>
      shortOf(wireOf(name, {}, given).create(PAYLOAD, "f"));
    const asks = (completion_window: string): unknown => [
      expect.anything(),
      expect.objectContaining({ completion_window }),
    ];
    expect(window("groq", { windowMs: 7 * 86_400_000 })).toEqual(asks("168h"));
    expect(window("compatible", { windowMs: 1 })).toEqual(asks("1h"));
    expect(window("openai", { windowMs: 3_600_000 })).toEqual(asks("24h"));
    expect(window("novita", {})).toEqual(asks("48h"));
    expect(window("doubleword", { completionWindow: "1h" })).toEqual(asks("1h"));
    expect(window("together", { completionWindow: "48h" })).toEqual(asks("48h"));
  });

  it("asks for an expiry of the file only where it is taken, later than the batch, at most 30 days", () => {
    const body = (name: string, given: object): string => {
      const request = wireOf(name, {}, given).upload(PAYLOAD)?.request;
      return request === undefined ? "" : bytesOf(request, []).toString();
    };
    expect(body("openai", { windowMs: 7 * 86_400_000 })).toContain("\r\n\r\n691200\r\n");
    expect(body("openai", { fileExpiryMs: 1e15 })).toContain("\r\n\r\n2592000\r\n");
    for (const name of NAMES.slice(1)) expect(body(name, {}), name).not.toContain("expires_after");
    expect(body("openai", { fileExpiryMs: 0 })).not.toContain("expires_after");
    expect(body("azure", { fileExpiryMs: 1_209_600_000 })).toContain("\r\n\r\n1209600\r\n");
  });
});

/** Members that the decoders read, to meet their paths more often than by chance. */
const MEMBERS = [
  ...[
    "id",
    "status",
    "data",
    "job",
    "has_more",
    "last_id",
    "input_file_id",
    "output_file_id",
    "error_file_id",
    "created_at",
  ],
  ...[
    "errors",
    "error",
    "line",
    "code",
    "message",
    "metadata",
    "perigee_submission",
    "request_counts",
    "total",
    "progress",
  ],
  ...[
    "input_files",
    "output_file",
    "filename",
    "bytes",
    "custom_id",
    "response",
    "status_code",
    "body",
    "Processed",
  ],
];
const VALUES = [
  "completed",
  "FAILED",
  "pending",
  "error",
  "file-1",
  "perigee-01HZTAG000.jsonl",
  "",
  "..",
  1,
  200,
  -1,
  1e300,
  true,
  null,
];

const { value: anyValue } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(...VALUES),
    fc.jsonValue({ maxDepth: 2 }),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...MEMBERS), tie("value"), { maxKeys: 6 }),
  ),
}));
const anyMembers = fc.dictionary(fc.constantFrom(...MEMBERS), anyValue, { maxKeys: 10 });
const anyId = fc.constantFrom("b-1", "../b?c#d", "e/f");
/** A batch or a line, with anything in its other members. */
const nearly = fc
  .record({
    id: anyId,
    custom_id: fc.constant("t-1"),
    status: fc.constantFrom("completed", "SUCCESS", "running"),
    input_file_id: anyId,
    output_file_id: anyId,
    error_file: anyId,
    others: anyMembers,
  })
  .map(({ others, ...members }) => ({ ...members, ...others, id: members.id }));
const anyBytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.oneof(nearly, anyValue).map((value) => Buffer.from(JSON.stringify(value) ?? "")),
  nearly.map((value) => Buffer.from(JSON.stringify(value).slice(0, -1))),
);
const anyAnswer = fc.record({
  status: fc.constantFrom(200, 200, 201, 302, 400, 404, 429, 500, 0),
  headers: fc.dictionary(
    fc.constantFrom("location", "x-together-file-id", "retry-after"),
    fc.string({ maxLength: 12 }),
  ),
  body: anyBytes,
  wallMs: fc.constant(0),
});

/** An answer that most wires read as a batch. */
const nearAnswer = anyAnswer.chain((given) =>
  nearly.map((value) => ({ ...given, status: 200, body: Buffer.from(JSON.stringify(value)) })),
);

function everyReader(wire: BatchWire): readonly ((given: ReturnType<typeof answer>) => unknown)[] {
  return [
    (given) => wire.read(given),
    (given) => wire.readPage(given, SEARCH, wire.list(SEARCH)),
    (given) => wire.findFile?.(PAYLOAD).read(given),
    (given) => {
      const read = wire.upload(PAYLOAD)?.read(given);
      return read !== undefined && "next" in read ? read.next.read(given) : read;
    },
  ];
}

describe("every batch wire", () => {
  const wires = NAMES.map((name) => wireOf(name));

  it("returns a value for any answer and any line, and never throws", () => {
    const isRead = (wire: BatchWire, given: ReturnType<typeof answer>): boolean =>
      everyReader(wire).every((read) => typeof read(given) === "object") &&
      wire.result(given.body).is !== undefined;
    fc.assert(fc.property(fc.constantFrom(...wires), anyAnswer, isRead), { numRuns: 1_000 });
  });

  it("names only requests below its own base URL in a batch that it reads, with its key", () => {
    let readCount = 0;
    fc.assert(
      fc.property(fc.constantFrom(...wires), nearAnswer, (wire, given) => {
        const read = wire.read(given);
        if (!read.ok) return true;
        readCount += 1;
        const { id, results, files } = read.batch;
        const named = [...results.map(({ request }) => request), ...wire.remove({ id, files }), wire.get(id)];
        return named.every(({ origin, path, headers }) => {
          const url = new URL(`${origin}${path}`);
          const isBelow = /^\/v1\/(batches|files|batch\/jobs)\/[^/]+(\/content)?$/.test(url.pathname);
          return url.origin === "https://batches.test" && isBelow && headers["authorization"] === "Bearer k";
        });
      }),
      { numRuns: 1_000 },
    );
    expect(readCount).toBeGreaterThan(200);
  });

  it("writes lines as long as it promises, each one a JSON object with its id and its body", () => {
    const endpoint = fc.constantFrom("chat", "responses", "embeddings");
    const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/);
    const body = fc
      .dictionary(fc.string(), fc.jsonValue())
      .map((value) => Buffer.from(JSON.stringify(value)));
    fc.assert(
      fc.property(
        fc.constantFrom(...wires),
        fc.array(fc.tuple(id, body), { minLength: 1 }),
        endpoint,
        (wire, given, asked) => {
          const payload = { model: "m", endpoint: asked } as const;
          const lines = given.map(([name, bytes]) => wire.line(name, bytes, payload));
          lines.forEach((line, index) => {
            const [name, bytes] = given[index] ?? ["", Buffer.alloc(0)];
            const promised = bytes.byteLength + wire.lineOverheadBytes(payload, name.length);
            expect(line.byteLength + 1).toBe(promised);
            const read = JSON.parse(Buffer.from(line).toString());
            expect(read).toMatchObject({ custom_id: name });
            expect(JSON.stringify(read.body)).toBe(JSON.stringify(JSON.parse(bytes.toString())));
            expect(line.includes(0x0a)).toBe(false);
          });
        },
      ),
    );
  });
});
