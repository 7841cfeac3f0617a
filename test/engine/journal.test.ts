import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { settledLines } from "../../src/engine/files/settled_lines.ts";
import {
  momentOf,
  NOTHING_SPENT,
  RESTATES,
  readStep,
  StepWriter,
  stamped,
} from "../../src/engine/journal/journal.ts";
import { Replay } from "../../src/engine/journal/replay.ts";
import type { SentFacts } from "../../src/engine/journal/sent_rows.ts";
import type { StoredEntry } from "../../src/store/store.ts";
import { LineSet } from "../../src/work/line_set.ts";

const uint16 = fc.nat({ max: 0xffff });
const uint32 = fc.nat({ max: 0xffffffff });
const usd = fc.double({ min: 0, max: 1e6, noNaN: true }).map((value) => value + 0);
const spent = {
  isEstimated: fc.boolean(),
  inputTokens: uint32,
  cachedTokens: uint32,
  cacheWriteTokens: uint32,
  outputTokens: uint32,
  reasoningTokens: uint32,
  listUsd: usd,
  usd,
  billedUsd: usd,
  ambiguousUsd: usd,
  priceNumber: uint16,
};
const offset = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const intent = fc.record({
  line: uint32,
  offset,
  lengthBytes: uint32,
  attempt: uint16,
  ambiguousAttempts: uint16,
  inputTokens: uint32,
  outputTokens: uint32,
  mostUsd: usd,
});
const closed = fc.record({
  line: uint32,
  attempts: uint16,
  ambiguousAttempts: uint16,
  uncounted: uint16,
  uncountedAmbiguous: uint16,
  unusableAnswers: fc.integer({ min: 0, max: 255 }),
  failure: fc.option(
    fc.record({ code: fc.constantFrom("rate_limited", "timeout", "provider_error"), httpStatus: uint16 }),
    { nil: undefined },
  ),
  ...spent,
});
const outcome = fc.record({
  line: uint32,
  status: fc.constantFrom("completed", "failed", "expired", "cancelled" as const),
  code: fc.constantFrom(undefined, "invalid_json", "ambiguous", "timeout", "input_changed"),
  attempts: uint16,
  ambiguousAttempts: uint16,
  lineBytes: uint32,
  lineCrc32: uint32,
  ...spent,
});
const text = fc.option(fc.string(), { nil: null });
const warned = fc.uniqueArray(fc.tuple(fc.string({ minLength: 1 }), fc.integer({ min: 1, max: 9 })), {
  selector: ([list]) => list,
});
const price = fc.record({
  model: fc.string(),
  source: text,
  as_of: text,
  matched_model: text,
  is_exact: fc.boolean(),
});
const header = fc.record({
  outStart: offset,
  outEnd: offset,
  outCrc32: uint32,
  voids: fc.integer({ min: -1, max: 1e9 }),
  committedUsd: usd,
});

/** As up to version 5, which said nothing of how items were sent. */
function withoutSent(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, 96), bytes.subarray(104)]);
}

describe("a step of the journal", () => {
  it("reads back as it was written, with any contents", () => {
    const lists = [fc.array(intent), fc.array(closed), fc.array(outcome), fc.array(price), warned] as const;
    fc.assert(
      fc.property(
        ...lists,
        fc.uint8Array(),
        header,
        (intents, closes, outcomes, prices, warnings, held, head) => {
          const writer = new StepWriter();
          for (const one of intents) writer.intent(one, `lane${one.line % 3}`);
          for (const one of closes) writer.closed(one);
          for (const { lineBytes, lineCrc32, ...one } of outcomes)
            writer.outcome(one as never, lineBytes, lineCrc32);
          for (const one of prices) writer.price(one);
          for (const [list, lines] of warnings)
            for (let line = 0; line < lines; line += 1) writer.warned(list);
          writer.hold(held);
          const step = readStep(writer.finish(head));
          expect(step).toMatchObject({
            ...head,
            intents,
            closed: closes,
            outcomes,
            prices,
            warned: warnings,
          });
          expect([...step.held]).toEqual([...held]);
          const requests = step.sent.reduce((sum, one) => sum + one.requests, 0);
          expect(requests).toBe(intents.length);
        },
      ),
    );
  });

  it("says what holds its lanes back, or nothing of them", () => {
    const lane = fc.record(
      { lane: fc.string({ minLength: 1 }), cooldownMs: fc.nat(), rampTokensPerMinute: fc.nat() },
      { requiredKeys: ["lane", "cooldownMs"] },
    );
    fc.assert(
      fc.property(fc.option(fc.array(lane), { nil: undefined }), header, (lanes, head) => {
        const writer = new StepWriter();
        if (lanes !== undefined) writer.lanes(lanes);
        expect(readStep(writer.finish(head)).lanes).toEqual(lanes);
      }),
    );
  });

  it("says when it was stamped, the last time, with the boot or without", () => {
    const uuid = fc.uuid().filter((id) => !/^[0-]+$/.test(id));
    const moment = fc.record({
      wallMs: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
      bootId: fc.option(uuid, { nil: undefined }),
      sinceBootMs: fc.double({ min: 0, max: 1e11, noNaN: true }).map((value) => value + 0),
    });
    fc.assert(
      fc.property(moment, moment, header, (first, second, head) => {
        const entry = stamped({ taskId: "a", records: new StepWriter().finish(head) }, first);
        expect(momentOf(entry)).toEqual(first);
        const again = stamped(entry, second);
        expect(momentOf(again)).toEqual(second);
        expect(readStep(again.records)).toMatchObject(head);
      }),
    );
  });

  it("of version 1 is read, but does not say when it was", () => {
    const writer = new StepWriter();
    writer.hold(Uint8Array.of(1, 2, 3));
    const bytes = writer.finish({ outStart: 1, outEnd: 2, outCrc32: 3, voids: 0, committedUsd: 4 });
    const old = Buffer.concat([bytes.subarray(0, 64), bytes.subarray(104)]); // what versions 2 and 6 added to the header
    old[0] = 1;
    expect(readStep(old)).toMatchObject({ outEnd: 2, committedUsd: 4, held: Buffer.from([1, 2, 3]) });
    expect(momentOf({ taskId: "a", wallMs: 1, records: old })).toBeUndefined();
  });

  it("of version 2 is read: what was billed was the list price, and what is in doubt is not said", () => {
    const writer = new StepWriter();
    const money = { listUsd: 4, usd: 2, billedUsd: 9, ambiguousUsd: 9 };
    const counted = { inputTokens: 10, cachedTokens: 1, outputTokens: 5, reasoningTokens: 2 };
    const tokens = { ...counted, cacheWriteTokens: 3 };
    const spent = { isEstimated: true, priceNumber: 7, ...tokens, ...money };
    const counts = { attempts: 3, ambiguousAttempts: 1 };
    const reserved = { inputTokens: 10, outputTokens: 5 };
    const place = { offset: 9, lengthBytes: 8 };
    writer.intent({ line: 1, ...place, attempt: 1, ambiguousAttempts: 0, ...reserved, mostUsd: 9 }, "a");
    writer.closed({ line: 2, ...counts, uncounted: 1, uncountedAmbiguous: 1, unusableAnswers: 2, ...spent });
    writer.outcome({ line: 3, status: "failed", code: "timeout", ...counts, ...spent }, 77, 1_234);
    const bytes = withoutSent(
      writer.finish({ outStart: 1, outEnd: 78, outCrc32: 3, voids: 0, committedUsd: 6 }),
    );
    const [intent, closed, outcome] = [bytes.subarray(96), bytes.subarray(132), bytes.subarray(204)];
    const old = Buffer.concat([
      bytes.subarray(0, 96),
      intent.subarray(0, 28),
      closed.subarray(0, 48),
      outcome.subarray(0, 48),
      outcome.subarray(64, 72), // the number of its price was there
      bytes.subarray(280),
    ]);
    old[0] = 2;
    for (const [at, length] of [28, 48, 56].entries()) old.writeUInt32LE(length, 32 + 4 * at);
    const before = { ...money, cacheWriteTokens: 0, billedUsd: 4, ambiguousUsd: 0 };
    expect(readStep(old)).toMatchObject({
      hasMoney: false,
      committedUsd: 6,
      intents: [{ line: 1, offset: 9, outputTokens: 5, mostUsd: 0 }],
      closed: [
        { line: 2, ...counts, uncounted: 1, uncountedAmbiguous: 1, unusableAnswers: 2, ...spent, ...before },
      ],
      outcomes: [{ line: 3, code: "timeout", lineBytes: 77, lineCrc32: 1_234, ...spent, ...before }],
      sent: [{ lane: "a", requests: 1, ...reserved }],
    });
  });

  it("of version 3 is read: what was written to a cache is not said", () => {
    const writer = new StepWriter();
    const money = { listUsd: 4, usd: 2, billedUsd: 3, ambiguousUsd: 1 };
    const tokens = { inputTokens: 10, cachedTokens: 1, outputTokens: 5, reasoningTokens: 2 };
    const spent = { isEstimated: true, priceNumber: 7, ...tokens, cacheWriteTokens: 3, ...money };
    const counts = { attempts: 3, ambiguousAttempts: 1 };
    const closedRow = {
      line: 2,
      ...counts,
      uncounted: 1,
      uncountedAmbiguous: 1,
      unusableAnswers: 2,
      ...spent,
    };
    const outcomeRow = { line: 3, status: "failed", code: "timeout", ...counts, ...spent } as const;
    for (const line of [2, 4]) writer.closed({ ...closedRow, line });
    for (const line of [3, 5]) writer.outcome({ ...outcomeRow, line }, 77, 1_234);
    const bytes = withoutSent(
      writer.finish({ outStart: 1, outEnd: 78, outCrc32: 3, voids: 0, committedUsd: 6 }),
    );
    const rows = Buffer.from(bytes.subarray(96));
    const old = Buffer.concat([
      bytes.subarray(0, 96),
      ...[0, 72].map((at) => rows.subarray(at, at + 64)),
      ...[144, 220].map((at) => rows.subarray(at, at + 72)),
      rows.subarray(296),
    ]);
    old[0] = 3;
    old.writeUInt32LE(128, 36);
    old.writeUInt32LE(144, 40);
    const before = { ...spent, cacheWriteTokens: 0 };
    expect(readStep(old)).toMatchObject({
      hasMoney: true,
      closed: [2, 4].map((line) => ({ ...closedRow, ...before, line })),
      outcomes: [3, 5].map((line) => ({ ...outcomeRow, ...before, line, lineBytes: 77, lineCrc32: 1_234 })),
    });
  });

  it("says how items were sent, each statement once, and up to version 5 nothing of it", () => {
    const writer = new StepWriter();
    const as: SentFacts["as"] = {
      model: "alpha:m1",
      lane: "batch",
      tierAsked: null,
      tier: "batch",
      batch: "b1",
      deadlineWallMs: 9,
    };
    const counts = { attempts: 1, ambiguousAttempts: 0, code: undefined };
    const record = { status: "completed", ...counts, ...NOTHING_SPENT } as const;
    const facts: (SentFacts | undefined)[] = [
      { as, startedWallMs: 1.5, endedWallMs: 7, isMet: true },
      undefined,
      { as, startedWallMs: undefined, endedWallMs: 8, isMet: undefined },
      { as: { ...as, batch: "b2" }, startedWallMs: 2, endedWallMs: 10, isMet: false },
    ];
    for (const [index, sent] of facts.entries()) writer.outcome({ ...record, line: index + 1, sent }, 5, 1);
    const bytes = writer.finish({ outStart: 0, outEnd: 20, outCrc32: 0, voids: 0, committedUsd: 0 });
    expect(readStep(bytes).outcomes.map(({ sent }) => sent)).toEqual(facts);
    expect(Buffer.from(bytes).toString("latin1").split('"b1"')).toHaveLength(2);
    const none = new StepWriter();
    none.outcome({ ...record, line: 1 }, 5, 1);
    const old = withoutSent(none.finish({ outStart: 0, outEnd: 5, outCrc32: 0, voids: 0, committedUsd: 0 }));
    old[0] = 5;
    expect(readStep(old).outcomes).toMatchObject([{ line: 1, lineBytes: 5 }]);
    expect(readStep(old).outcomes[0]?.sent).toBeUndefined();
  });

  it("of version 4 is read: how attempts failed is not said", () => {
    const writer = new StepWriter();
    const counts = {
      attempts: 3,
      ambiguousAttempts: 1,
      uncounted: 1,
      uncountedAmbiguous: 1,
      unusableAnswers: 2,
    };
    const failure = { code: "rate_limited", httpStatus: 429 } as const;
    const spent = { ...NOTHING_SPENT, cacheWriteTokens: 3, ambiguousUsd: 1 };
    for (const line of [2, 4]) writer.closed({ line, ...counts, ...spent, failure });
    writer.outcome({ line: 3, status: "failed", code: "timeout", ...counts, ...spent }, 77, 1_234);
    const whole = writer.finish({ outStart: 1, outEnd: 78, outCrc32: 3, voids: 0, committedUsd: 6 });
    expect(readStep(whole).closed.map((record) => record.failure)).toEqual([failure, failure]);
    const bytes = withoutSent(whole);
    const rows = bytes.subarray(96);
    const old = Buffer.concat([
      bytes.subarray(0, 96),
      ...[0, 72].map((at) => rows.subarray(at, at + 68)),
      rows.subarray(144),
    ]);
    old[0] = 4;
    old.writeUInt32LE(136, 36);
    const step = readStep(old);
    expect(step.closed).toEqual([2, 4].map((line) => ({ line, ...counts, ...spent })));
    expect(step.outcomes).toMatchObject([{ line: 3, code: "timeout", lineBytes: 77, lineCrc32: 1_234 }]);
  });

  it("refuses a step of another version", () => {
    const bytes = new StepWriter().finish({ outStart: 0, outEnd: 0, outCrc32: 0, voids: 0, committedUsd: 0 });
    bytes[0] = 9;
    expect(() => readStep(bytes)).toThrow(/version 9/);
  });
});

describe("a line set", () => {
  it("does what a set does", () => {
    const line = fc.integer({ min: 1, max: 30_000 });
    const step = fc.tuple(fc.constantFrom("add", "delete"), line);
    fc.assert(
      fc.property(fc.array(step), line, fc.nat({ max: 600 }), (steps, first, count) => {
        const lines = new LineSet();
        const model = new Set<number>();
        for (const [what, number] of steps) {
          if (what === "add") {
            expect(lines.add(number)).toBe(!model.has(number));
            model.add(number);
          } else {
            lines.delete(number);
            model.delete(number);
          }
        }
        expect(lines.size).toBe(model.size);
        const within = Array.from({ length: count }, (_, index) => model.has(first + index));
        expect(lines.countWithin(first, first + count - 1)).toBe(within.filter(Boolean).length);
        const table = lines.slice(first, count);
        const bits = within.map((_, index) => (((table?.[index >> 3] ?? 0) >> (index & 7)) & 1) === 1);
        expect(bits).toEqual(within);
      }),
    );
  });
});

describe("a journal that a repair of an earlier version has stated again", () => {
  it("counts from there", async () => {
    const none = { ...NOTHING_SPENT, status: "completed" as const, code: undefined };
    const step = (line: number, voids: number, outStart: number): Uint8Array => {
      const writer = new StepWriter();
      writer.outcome({ ...none, line, attempts: 1, ambiguousAttempts: 0, billedUsd: line }, 5, 1);
      return writer.finish({ outStart, outEnd: outStart + 5, outCrc32: 1, voids, committedUsd: 0 });
    };
    const entries = [step(1, 0, 0), step(2, 0, 5), step(2, RESTATES, 0), step(3, 0, 5)];
    const replay = new Replay();
    entries.forEach((records, index) => {
      replay.apply(index + 1, readStep(records));
    });
    expect([1, 2, 3].filter((line) => replay.done.has(line))).toEqual([2, 3]);
    expect(replay.taken().billedUsd).toBe(5);
    expect(replay.outEnd).toBe(10);
    async function* journal(): AsyncGenerator<StoredEntry> {
      for (const [index, records] of entries.entries())
        yield { taskId: "t", sequence: index + 1, wallMs: 0, records };
    }
    const places: [number, number | undefined][] = [];
    for await (const each of settledLines({ journal }, "t", {}))
      places.push([each.outcome.line, "start" in each ? each.start : undefined]);
    expect(places).toEqual([
      [2, 0],
      [3, 5],
    ]);
  });
});
