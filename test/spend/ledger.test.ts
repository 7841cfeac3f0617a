/** Sums of a log are those of its parts, however it is cut. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { PriceBook } from "../../src/price/price_book.ts";
import { addCounted, type CountedLines, countLines } from "../../src/spend/count_lines.ts";
import { DatedPrices } from "../../src/spend/dated_prices.ts";
import { addLedger } from "../../src/spend/ledger.ts";
import { countLog, ledgerTerms } from "../../src/spend/log_parts.ts";
import { auditReport } from "../../src/spend/report.ts";
import { StreamFile } from "../../src/spend/stream_file.ts";
import { waitMsOf } from "../../src/spend/what_if.ts";

const SLAS = [15, 60, 1_440];
const TERMS = { prices: {}, waitsMs: SLAS.map(waitMsOf), nowMs: Date.UTC(2026, 9, 15) };
const LEDGER_TERMS = ledgerTerms(TERMS);
const START_MS = Date.UTC(2026, 8, 20);

const dir = mkdtempSync(join(tmpdir(), "perigee-test-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const models = fc.constantFrom(
  ["openai", "gpt-5"],
  ["anthropic", "claude-sonnet-4-5"],
  ["gemini", "gemini-2.5-pro"],
  ["deepseek", "deepseek-v4-flash"],
  ["acme", "unpriced"],
);
const lines = fc.oneof(
  fc
    .record({
      model: models,
      atMinute: fc.nat(30 * 1_440),
      input: fc.nat(400_000),
      cached: fc.nat(400_000),
      output: fc.nat(5_000),
      spend: fc.option(fc.double({ min: 0, max: 10, noNaN: true }), { nil: undefined }),
      tier: fc.constantFrom(undefined, "flex", "batch", "priority", "ultra"),
    })
    .map(({ model: [provider, model], atMinute, input, cached, output, spend, tier }) =>
      JSON.stringify({
        prompt_tokens: input,
        completion_tokens: output,
        cache_read_input_tokens: cached,
        model,
        custom_llm_provider: provider,
        startTime: new Date(START_MS + atMinute * 60_000).toISOString(),
        spend,
        service_tier: tier,
      }),
    ),
  fc.constantFrom(
    "",
    "not json",
    '{"amount":"12.5","currency":"USD"}',
    '{"attributes":{"http.method":"GET"}}',
    '{"type":"message","model":"claude-sonnet-4-5","usage":{"input_tokens":7,"output_tokens":9}}',
    '{"object":"organization.usage.completions.result","input_tokens":900,"output_tokens":5,"num_model_requests":2,"model":"gpt-5","start_time":1790000000}',
  ),
);

function counted(some: readonly string[], chunkBytes = Number.MAX_SAFE_INTEGER): Promise<CountedLines> {
  const bytes = Buffer.from(some.map((line) => `${line}\n`).join(""));
  const stream = (async function* () {
    for (let at = 0; at < bytes.length; at += chunkBytes)
      yield await Promise.resolve(bytes.subarray(at, at + chunkBytes));
  })();
  return countLines(new StreamFile(stream), LEDGER_TERMS);
}

it("are equal for any cut of the lines into two", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(lines, { maxLength: 30 }), fc.nat(30), async (all, cut) => {
      const whole = await counted(all);
      const [first, second] = [await counted(all.slice(0, cut)), await counted(all.slice(cut))];
      const together = addCounted(first, second, addLedger(first.ledger, second.ledger));
      expect(auditReport(together, SLAS)).toEqual(auditReport(whole, SLAS));
    }),
    { numRuns: 100 },
  );
});

it("are equal for a stream in chunks of any size", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(lines, { maxLength: 8 }),
      fc.integer({ min: 1, max: 300 }),
      async (all, bytes) => {
        expect(auditReport(await counted(all, bytes), SLAS)).toEqual(auditReport(await counted(all), SLAS));
      },
    ),
    { numRuns: 50 },
  );
});

it("are equal for a file that is counted in parts, also in another thread", async () => {
  const path = join(dir, "log.jsonl");
  await fc.assert(
    fc.asyncProperty(
      fc.array(lines, { maxLength: 40 }),
      fc.integer({ min: 1, max: 5_000 }),
      fc.constantFrom(0, 1),
      fc.boolean(),
      async (all, partBytes, threads, endsInLineEnd) => {
        const text = all.join("\n") + (endsInLineEnd && all.length > 0 ? "\n" : "");
        writeFileSync(path, text);
        const file = await systemDisk.open(path, "read");
        const bytes = Buffer.byteLength(text);
        const inParts = await countLog(path, file, bytes, TERMS, { partBytes, threads });
        const atOnce = await countLines(file, LEDGER_TERMS);
        await file.close();
        expect(auditReport(inParts, SLAS)).toEqual(auditReport(atOnce, SLAS));
      },
    ),
    { numRuns: 20 },
  );
}, 60_000);

it("are counted in two threads at once: the second part by the other, which opens the path", async () => {
  const row = (input: number): string =>
    `${JSON.stringify({ prompt_tokens: input, completion_tokens: 1, model: "gpt-5", custom_llm_provider: "openai" })}\n`;
  const [here, there] = [join(dir, "here.jsonl"), join(dir, "there.jsonl")];
  writeFileSync(here, row(1_000) + row(1_000));
  writeFileSync(there, row(9_000) + row(9_000));
  const file = await systemDisk.open(here, "read");
  const bytes = await file.sizeBytes();
  const found = await countLog(there, file, bytes, TERMS, { partBytes: bytes / 2 - 1, threads: 1 });
  await file.close();
  expect(auditReport(found, SLAS).tokens.fresh_input).toBe(10_000);
});

it("names the lines that were not understood by their numbers in the file, blank lines counted", async () => {
  const {
    lines_not_understood,
    not_understood,
    lines: count,
  } = auditReport(await counted(["", '{"attributes":{}}', "what", "", "{}"]), SLAS);
  expect({ lines_not_understood, count }).toEqual({ lines_not_understood: 2, count: 3 });
  expect(not_understood.map(({ line }) => line)).toEqual([3, 5]);
});

it("refuses more kinds of use than are kept", async () => {
  const rows = Array.from({ length: 25_001 }, (_, index) =>
    JSON.stringify({
      prompt_tokens: 1,
      completion_tokens: 1,
      model: `m${index}`,
    }),
  );
  await expect(counted(rows)).rejects.toMatchObject({ code: "too_many" });
});

it("finds for each moment, asked in any order, the price that the price book has", () => {
  const book = new PriceBook();
  fc.assert(
    fc.property(
      fc.constantFrom("deepseek-v4-flash", "deepseek-chat"),
      fc.array(fc.nat(40 * 1_440), { maxLength: 60 }),
      (name, minutes) => {
        const prices = new DatedPrices(book, "deepseek", name);
        for (const minute of minutes) {
          const atMs = START_MS + minute * 60_000;
          const expected = book.price({ provider: "deepseek", name }, atMs);
          expect(prices.at(atMs).price?.inputUsdPerMillion).toBe(expected?.inputUsdPerMillion);
        }
      },
    ),
    { numRuns: 30 },
  );
});
