/**
 * Batches on this machine, without a network: filled, collected, polled.
 *
 *   node --import tsx bench/lanes.ts [--items 200000] [--rounds 5]
 *
 *   spool     items written as lines of batches and their rows, synced while the next batch is filled; beside it the same bytes copied
 *             and synced; medians of `--rounds`, the ratio of each round by itself
 *   collect   result lines read from a stream, decoded, priced and settled; the journal is not part of it
 *   receipts  a run on a local provider with and without `receipts`: CPU time of the one over that of the other, less 1
 *   poll      1,000 open batches over ten virtual minutes at `lanes.pollSeconds` of 30 to 300: CPU time as a share of that time
 *
 * Prints one line of JSON for each: items a second, ratios, and peak resident memory of the process in MiB.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { systemDisk } from "../src/disk.ts";
import type { Transport, WireChunks } from "../src/dispatch/transport.ts";
import { BatchCalls } from "../src/engine/batches/batch_calls.ts";
import { BatchCollection } from "../src/engine/batches/batch_collection.ts";
import { BatchItems, BatchLinesWriter } from "../src/engine/batches/batch_lines.ts";
import { BatchMoney } from "../src/engine/batches/batch_money.ts";
import { BatchPolling } from "../src/engine/batches/batch_polling.ts";
import type { BatchRecord } from "../src/engine/batches/batch_record.ts";
import { BatchSettler } from "../src/engine/batches/batch_settler.ts";
import { KeptBatch } from "../src/engine/batches/kept_batch.ts";
import { openEngine } from "../src/engine/engine.ts";
import { BatchTally } from "../src/engine/items/batch_tally.ts";
import type { ItemCall } from "../src/engine/items/item_call.ts";
import type { ItemOwner } from "../src/engine/items/item_owner.ts";
import { ItemStates } from "../src/engine/items/item_states.ts";
import type { Spent } from "../src/engine/journal/journal.ts";
import { NOTHING_SPENT } from "../src/engine/journal/journal.ts";
import { Budget } from "../src/price/budget.ts";
import { batchWireOf } from "../src/providers/batches/batch_wires.ts";
import { createProvider, defaultSettings } from "../src/providers/registry.ts";
import { FakeClock } from "../src/testing/fake_clock.ts";
import { LineSet } from "../src/work/line_set.ts";
import { median } from "./shared/harness.ts";
import { freePort, startProvider, writeInput } from "./shared/main_job.ts";

const { values } = parseArgs({
  options: { items: { type: "string", default: "200000" }, rounds: { type: "string", default: "5" } },
});
const ITEMS = Number(values.items);
/** As a batch of OpenAI holds. */
const BATCH_ITEMS = 47_500;
const TAG = "pg0123456789abcd";
const MODEL = "openai:gpt-5-mini";
const SETTINGS = { ...defaultSettings("openai", "https://api.openai.test/v1"), key: "sk-a" } as NonNullable<
  ReturnType<typeof defaultSettings>
>;
const WIRE = batchWireOf(SETTINGS) as NonNullable<ReturnType<typeof batchWireOf>>;
const PAYLOAD = { model: "gpt-5-mini", endpoint: "chat" } as const;
/** Of one run with receipts, and how often each kind runs. */
const RECEIPTED_ITEMS = 20_000;
const RECEIPTED_TURNS = 5;
const clock = new FakeClock();
const folder = mkdtempSync(join(tmpdir(), "perigee-lanes-"));

/** Only what rows of a batch need of a call. */
function callOf(line: number): ItemCall {
  return {
    line,
    index: 0,
    shard: { offsets: [line * 600], lengths: [600] },
    most: { inputTokens: 150, maxOutputTokens: 64 },
    inputTokens: 140,
    maxOutputTokens: 64,
    keyJson: `"item-${line}"`,
    metadata: "",
    warnings: "",
  } as unknown as ItemCall;
}

const BODY = Buffer.from(
  JSON.stringify({
    model: "gpt-5-mini",
    messages: [{ role: "user", content: "word ".repeat(90) }],
    max_completion_tokens: 64,
  }),
);

function report(name: string, facts: Readonly<Record<string, number>>): void {
  const rssMib = process.resourceUsage().maxRSS / 1_024;
  console.log(JSON.stringify({ name, ...facts, peakRssMib: Math.round(rssMib) }));
}

async function spooled(): Promise<readonly string[]> {
  const all: number[] = [];
  const ratios: number[] = [];
  let paths: readonly string[] = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const path of paths) removeBatch(path);
    const startMs = performance.now();
    paths = await filled();
    const ms = performance.now() - startMs;
    const copyMs = await copied(paths.flatMap((path) => [`${path}.jsonl`, `${path}.items`]));
    all.push((ITEMS / ms) * 1_000);
    ratios.push(copyMs / ms);
  }
  report("spool", { items: ITEMS, perSecond: Math.round(median(all)), ofCopy: round(median(ratios)) });
  return paths;
}

/** Batches of all items; each is sealed while the next one is filled, as the engine does it. */
async function filled(): Promise<readonly string[]> {
  const paths: string[] = [];
  const sealing: Promise<unknown>[] = [];
  for (let from = 0; from < ITEMS; from += BATCH_ITEMS) {
    const path = join(folder, `${from}`);
    const writer = new BatchLinesWriter(systemDisk, [`${path}.jsonl`, `${path}.items`]);
    const items = Math.min(BATCH_ITEMS, ITEMS - from);
    for (let place = 0; place < items; place += 1) {
      writer.add(callOf(from + place + 1), 0, WIRE.line(`${TAG}-${place}`, BODY, PAYLOAD));
      if (writer.unwrittenBytes > 8 * 1_024 * 1_024) await writer.written();
    }
    sealing.push(writer.seal());
    paths.push(path);
  }
  await Promise.all(sealing);
  return paths;
}

function removeBatch(path: string): void {
  for (const ending of [".jsonl", ".items", ".jsonl.copy", ".items.copy"]) rmSync(`${path}${ending}`);
}

async function copied(paths: readonly string[]): Promise<number> {
  const startMs = performance.now();
  const chunk = Buffer.alloc(1_024 * 1_024);
  for (const path of paths) {
    const from = await systemDisk.open(path, "read");
    const to = await systemDisk.open(`${path}.copy`, "write");
    for (let at = 0; ; ) {
      const bytes = await from.read(chunk, at);
      if (bytes === 0) break;
      await to.write(chunk.subarray(0, bytes), at);
      at += bytes;
    }
    await to.sync();
    await Promise.all([from.close(), to.close()]);
  }
  return performance.now() - startMs;
}

function recordOf(items: number): BatchRecord {
  return {
    ...{ tag: TAG, taskId: "task", project: "", lane: "openai:gpt-5-mini", model: MODEL, endpoint: "chat" },
    ...{ keyPrint: "", sha256: "", lines: [[1, items]], items, bytes: 0, inputTokens: 0, outputTokens: 0 },
    ...{ mostUsd: 1, spooledWallMs: 0, state: "running", batchId: "batch_1", createdWallMs: clock.wallMs() },
  } as BatchRecord; // a literal of its shape, in three rows
}

/** The answer to every request, read to its end: results of a file, or a batch that runs. */
function transportOf(chunks: () => AsyncIterable<Uint8Array>): Transport {
  return {
    send: () => Promise.reject(new Error("not used")),
    stream: async () => ({ ok: true, status: 200, headers: {}, chunks: chunks() as WireChunks }),
    close: async () => undefined,
  };
}

function keptOf(items: number, transport: Transport): KeptBatch {
  const store = { change: async () => undefined };
  const room = { waitFor: (call: () => Promise<unknown>) => call() };
  const storage = { clock, disk: systemDisk, store, room, notice: () => undefined };
  const way = {
    wire: WIRE,
    calls: new BatchCalls(clock, transport, systemDisk),
    storage: storage as unknown as KeptBatch["way"]["storage"], // only these members are used
    times: { pollMsMin: 30_000, pollMsMax: 300_000, adoptMs: 120_000 },
    lines: { path: "", bytes: 0, endOf: undefined },
    tally: new BatchTally(),
  };
  return new KeptBatch(way, recordOf(items), () => undefined);
}

/** Records nothing, and says that all of it is durable. */
function ownerOf(): ItemOwner {
  const items = new ItemStates(new LineSet(0));
  const records = {
    outcome: (_item: unknown, _outcome: unknown, whenDurable: () => void) => queueMicrotask(whenDurable),
  };
  const settings = { project: "", deadlineMs: Number.POSITIVE_INFINITY };
  return {
    items,
    records,
    settings,
    phase: "open",
    isOpen: true,
    changed: () => undefined,
  } as unknown as ItemOwner;
}

async function collected(paths: readonly string[]): Promise<void> {
  const startMs = performance.now();
  const before = process.cpuUsage();
  for (const [index, path] of paths.entries()) {
    const count = Math.min(BATCH_ITEMS, ITEMS - index * BATCH_ITEMS);
    const items = await BatchItems.read(systemDisk, `${path}.items`, count);
    if (items === undefined) throw new Error(`${path}.items is not whole`);
    const kept = keptOf(
      count,
      transportOf(() => resultLines(count)),
    );
    const spent: Spent = { ...NOTHING_SPENT, billedUsd: 1e-6 };
    const settler = new BatchSettler(kept, ownerOf(), items, {
      provider: createProvider(SETTINGS),
      money: { spentInBatch: () => spent, mostInBatchUsd: () => 1e-5 },
      held: new BatchMoney(new Budget([]), 1),
      answered: () => undefined,
      checked: () => undefined,
      sendAgain: () => Promise.reject(new Error("an item came back")),
    });
    const request = WIRE.get("file-1");
    await new BatchCollection(kept, items, settler).run({
      ...{ id: "batch_1", rawState: "completed", end: "completed", isCancelling: false, counts: {} },
      ...{ tag: TAG, createdWallMs: 0, expiresWallMs: 0, faults: [], files: [] },
      results: [{ request, format: "lines" }],
    });
    if (settler.left > 0) throw new Error(`${settler.left} items are left`);
  }
  const ms = performance.now() - startMs;
  const { user, system } = process.cpuUsage(before);
  const perCpuSecond = Math.round((ITEMS / (user + system)) * 1_000_000);
  report("collect", { items: ITEMS, perSecond: Math.round((ITEMS / ms) * 1_000), perCpuSecond });
}

async function* resultLines(count: number): AsyncGenerator<Uint8Array> {
  const text = "word ".repeat(60);
  const usage = { prompt_tokens: 140, completion_tokens: 60, total_tokens: 200 };
  const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }];
  const body = { id: "chatcmpl-1", object: "chat.completion", model: "gpt-5-mini", choices, usage };
  const end = JSON.stringify({ response: { status_code: 200, request_id: "r", body }, error: null }).slice(1);
  for (let from = 0; from < count; from += 100) {
    const places = Array.from({ length: Math.min(100, count - from) }, (_, index) => from + index);
    yield Buffer.from(places.map((place) => `{"id":"b","custom_id":"${TAG}-${place}",${end}\n`).join(""));
  }
}

async function polled(): Promise<void> {
  const batches = 1_000;
  const virtualMs = 600_000;
  const answer = JSON.stringify({
    ...{ id: "batch_1", object: "batch", status: "in_progress", endpoint: "/v1/chat/completions" },
    request_counts: { total: 100, completed: 10, failed: 0 },
  });
  let polls = 0;
  const transport = transportOf(async function* () {
    polls += 1;
    yield Buffer.from(answer);
  });
  const never = { switchMs: Infinity, lastMs: Infinity, stuckMs: Infinity };
  const terms = { momentsOf: () => never, onProgress: () => undefined, isTaken: () => false };
  const all = Array.from({ length: batches }, () => keptOf(100, transport));
  const runs = all.map((kept) => new BatchPolling(kept, terms).run().catch(() => undefined));
  const before = process.cpuUsage();
  await clock.advance(virtualMs);
  const { user, system } = process.cpuUsage(before);
  for (const kept of all) kept.leave();
  await Promise.all(runs);
  report("poll", { batches, polls, coreShare: round((user + system) / 1_000 / virtualMs) });
}

/** Runs the same lines with and without receipts, in turns, and compares what an item takes of this process at least. */
async function receipted(): Promise<void> {
  const items = Math.min(ITEMS, RECEIPTED_ITEMS);
  const input = join(folder, "receipted.jsonl");
  await writeInput(input, items);
  const port = await freePort();
  const provider = await startProvider(undefined, port);
  const env = {
    PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
    PERIGEE_PROVIDER_OPENAI_KEY: "bench",
    PERIGEE_LIMIT_OPENAI_RPM: "90000000",
    PERIGEE_LIMIT_OPENAI_TPM: "900000000",
  };
  const least = { plain: Number.POSITIVE_INFINITY, receipts: Number.POSITIVE_INFINITY };
  try {
    for (let turn = 0; turn < 2 * RECEIPTED_TURNS; turn += 1) {
      const name = turn % 2 === 0 ? "plain" : "receipts";
      const dataDir = join(folder, `run-${turn}`);
      const { engine } = await openEngine({ dataDir, env });
      const before = process.cpuUsage();
      const receipts = name === "plain" ? {} : { receipts: join(folder, `receipts-${turn}.jsonl`) };
      await engine.run(input, { out: join(folder, `out-${turn}.jsonl`), ...receipts }).finished;
      const { user, system } = process.cpuUsage(before);
      await engine.close();
      if (turn > 1) least[name] = Math.min(least[name], (user + system) / items); // the first of each warms up
      rmSync(dataDir, { recursive: true });
    }
  } finally {
    provider.kill();
  }
  const { plain, receipts } = least;
  report("receipts", { items, itemUs: round(plain), ratio: round(receipts / plain - 1) });
}

function round(ratio: number): number {
  return Math.round(ratio * 1_000) / 1_000;
}

try {
  const paths = await spooled();
  await collected(paths);
  await polled();
  await receipted();
} finally {
  rmSync(folder, { recursive: true });
}
