/** What holds for every batch wire, whatever an answer is. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { BatchWire, UploadStep } from "../../../src/providers/batches/batch_wire.ts";
import type { WireAnswer } from "../../../src/providers/index.ts";
import { answer } from "../answers.ts";
import { KEY, linesOf, sentBody, TAG, WIRES } from "./wires.ts";

const bytes = new TextEncoder();
const payload = { tag: TAG, model: "m-1", endpoint: "chat", items: 3, bytes: 300 } as const;
const search = { payload, sinceWallMs: 0 };

/** Names that any of the wires reads, so that random JSON gets past the first look. */
const NAMES = [
  "id batch_id name data batches operations results metadata response error state status processing_status",
  "request_counts results_url created_at last_id has_more batchStats requestCount output responsesFile done",
  "inlinedResponses inputConfig fileName displayName custom_id result type message key batch_request_id",
  "batch_result chat_get_completion code num_requests num_pending expire_time cancel_time usage cost files",
  "next_cursor pagination_token nextPageToken status_code body request_id file cost_breakdown total",
].flatMap((names) => names.split(" "));
const VALUES = [
  "ended",
  "succeeded",
  "errored",
  "completed",
  "BATCH_STATE_SUCCEEDED",
  "batches/b1",
  "files/f1",
];

const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 6 },
    fc.constantFrom(null, true, false, 0, -1, 7, 1e300, "12", "", ...VALUES, "https://x.test/a", "not a url"),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie("value"), { maxKeys: 6 }),
  ),
})).value;

const body = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  json.map((value) => bytes.encode(JSON.stringify(value))),
  fc.json().map((text) => bytes.encode(text)),
);
const answers = fc.record<WireAnswer>({
  status: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(200, 202) }, fc.integer({ min: 100, max: 599 })),
  headers: fc.dictionary(fc.constantFrom("x-goog-upload-url", "retry-after", "content-type"), fc.string()),
  body,
  wallMs: fc.integer({ min: 0, max: 4e12 }),
});

/** Everything that reads an answer. */
function readAll(wire: BatchWire, given: WireAnswer): void {
  const read = wire.read(given, "other");
  if (read.ok) {
    expect(read.batch.id).not.toBe("");
    for (const source of read.batch.results) source.next?.(membersOf(given));
    wire.remove(read.batch);
  }
  const page = wire.readPage(given, search);
  if (page.ok) expect(Array.isArray(page.batches)).toBe(true);
  wire.readAdded?.(given);
  wire.findFile?.(payload).read(given);
  let step: UploadStep | undefined = wire.upload(payload);
  while (step !== undefined) {
    const next: ReturnType<UploadStep["read"]> = step.read(given);
    step = next.ok && "next" in next ? next.next : undefined;
  }
  wire.result(given.body);
}

function membersOf(given: WireAnswer): Record<string, string | number | boolean | null> {
  return { next_cursor: new TextDecoder().decode(given.body.subarray(0, 5)), pagination_token: null };
}

describe.each(WIRES)("%s", (_, wire) => {
  it("reads any answer without throwing", () => {
    fc.assert(
      fc.property(answers, (given) => readAll(wire, given)),
      { numRuns: 2_000 },
    );
  });

  it("reads any element of results without throwing, and torn ones as unreadable", () => {
    const id = `${TAG}-1`;
    const line = `{"custom_id":"${id}","key":"${id}","batch_request_id":"${id}","result":{"type":"succeeded","message":{"a":1}},"response":{"status_code":200,"body":{"b":"é"}},"batch_result":{"response":{"chat_get_completion":{}}}}`;
    const whole = bytes.encode(line);
    const result = wire.result(whole);
    if (result.is !== "answered") throw new Error(result.is);
    expect(JSON.parse(Buffer.from(result.body).toString())).toEqual(result.value);
    for (let end = 0; end < whole.byteLength; end++)
      expect(wire.result(whole.subarray(0, end)).is, `cut at ${end}`).toBe("unreadable");
    for (const broken of [
      "",
      "null",
      "[]",
      "1",
      '"text"',
      "{}",
      '{"custom_id":7,"key":null,"batch_request_id":{}}',
    ])
      expect(wire.result(bytes.encode(broken)).is, broken).toBe("unreadable");
  });

  it("makes lines and bodies no larger than promised", () => {
    const bodies = fc.array(
      fc.jsonValue().map((value) => JSON.stringify(value)),
      { minLength: 1, maxLength: 20 },
    );
    fc.assert(
      fc.property(bodies, (given) => {
        const { lines, payload: described } = linesOf(wire, given);
        const promised = given.reduce(
          (sum, each, index) =>
            sum + bytes.encode(each).byteLength + wire.lineOverheadBytes(described, `${TAG}-${index}`.length),
          0,
        );
        expect(described.bytes).toBeLessThanOrEqual(promised);
        for (const line of lines) expect(new TextDecoder().decode(line)).not.toContain("\n");
        const step = wire.upload(described);
        const carrier =
          step?.request ?? wire.add?.(described, "b1", 0, lines.length) ?? wire.create(described, undefined);
        if (step !== undefined) return;
        const frame = sentBody(carrier, []).length;
        expect(bytes.encode(sentBody(carrier, lines)).byteLength - frame).toBeLessThanOrEqual(promised);
        JSON.parse(sentBody(carrier, lines));
      }),
    );
  });

  it("sends the key to the provider's own host, in each request", () => {
    const requests = [
      wire.create(payload, "files/f1"),
      wire.get("b1"),
      wire.list(search),
      wire.cancel("b1"),
      wire.add?.(payload, "b1", 0, 1),
      wire.upload(payload)?.request,
      wire.findFile?.(payload).request,
      ...wire.remove({ id: "batches/b1", files: ["files/f1"] }),
    ].filter((request) => request !== undefined);
    const own = new URL(wire.settings.baseUrl).origin;
    for (const request of requests) {
      expect(request.origin).toBe(own);
      expect(JSON.stringify(request.headers)).toContain(KEY);
      expect(Object.keys(request.headers).every((name) => name === name.toLowerCase())).toBe(true);
    }
  });

  it("keeps an id inside its part of the path", () => {
    for (const id of ["..", "a/../b", "a?b", "a#b", "../../v1/files", ""]) {
      const given = answer(200, { id, batch_id: id, name: `batches/${id}`, status: "completed" });
      expect(wire.read(given).ok, id).toBe(false);
    }
  });

  it("takes no success without a batch for a batch, and does not say that a create had no effect", () => {
    for (const given of [
      "",
      "<html>ok</html>",
      "{}",
      "[]",
      "null",
      '{"id":null,"batch_id":null,"name":null}',
    ])
      expect(wire.read(answer(200, given))).toMatchObject({ ok: false, is: "unknown" });
  });
});
