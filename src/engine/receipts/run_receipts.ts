/**
 * The receipts of a run: one for each line of its output, in that order, made of the journal and the output when the run ends.
 *
 *   every line settled -> written beside their place (`.part`) -> renamed -> the run counts as completed
 *   completed, and the file is missing or of an earlier state -> written again by the next call
 *
 * A kill on the way leaves the file as it was, or whole, and the next call writes it again. Memory is that of one step; of an ordered
 * run, whose journal is in another order, that of a window of lines. Hot path: about 10 us a line.
 */
import { resolve } from "node:path";
import type { Disk, DiskFile } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { lineKeyJson, type OtherMoney, RECEIPT_BYTES_MAX, ReceiptChain } from "../../jsonl/receipts.ts";
import { readOutputLine } from "../../jsonl/write.ts";
import { nanoOf } from "../../price/nano.ts";
import type { UsedPrice } from "../../price/used_prices.ts";
import { type SettledLine, settledLines } from "../files/settled_lines.ts";
import type { TaskBody } from "../files/task_body.ts";
import type { Summary } from "../items/progress.ts";
import type { Step } from "../journal/journal.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { writtenFile } from "../journal/written_file.ts";
import { LineReader } from "../reopening/restate.ts";
import { runReceipt } from "./receipt_of.ts";

/** Lines of an ordered run whose records are in memory together: about 100 MB. */
const WINDOW_LINES = 250_000;
const WRITE_BYTES = 1024 * 1024;

/** A run whose every line is settled, with its output in its place. */
export interface SettledRun {
  readonly taskId: string;
  readonly body: TaskBody;
  readonly summary: Summary;
}

/** Where receipts are, how many, and the hash of their last line. */
export type ReceiptsFile = NonNullable<Summary["receipts"]>;

/**
 * Throws `usage` for the place of another file of the run, `output_unwritable` for a file that is not the receipts of this run.
 * `place`: undefined for a run without receipts.
 */
export async function checkReceiptsPlace(
  disk: Disk,
  place: string | undefined,
  { taskId, others }: { readonly taskId: string; readonly others: readonly (string | undefined)[] },
): Promise<void> {
  if (place === undefined) return;
  const path = resolve(place);
  if (others.some((other) => other !== undefined && resolve(other) === path))
    throw new PerigeeError(
      "usage",
      `receipts cannot be written to ${path}: the input or the output is there`,
    );
  const { sizeBytes } = await writtenFile(disk, path);
  if (sizeBytes === 0 || (await readLast(disk, path, sizeBytes))?.["task_id"] === taskId) return;
  throw new PerigeeError(
    "output_unwritable",
    `${path} already holds ${sizeBytes} bytes that are not receipts of this run; use another file for them, or move it away`,
  );
}

/** Writes the receipts of a run; resolves when they are durable. Waits for a disk that is full, until the signal aborts. */
export async function writeReceipts(
  storage: Pick<EngineStorage, "disk" | "store" | "room">,
  run: SettledRun,
  path: string,
  signal: AbortSignal,
): Promise<ReceiptsFile> {
  const { disk, room } = storage;
  const part = `${path}.part`;
  await disk.remove(part);
  const chain = new ReceiptChain();
  const output = await disk.open(run.body.out, "read");
  try {
    const file = await room.waitFor(() => disk.open(part, "write"), { signal, path: part });
    try {
      const writer = new BlockWriter((bytes, at) =>
        room.waitFor(() => file.write(bytes, at), { signal, path: part }),
      );
      for await (const receipts of receiptLines(storage, run, output, chain)) await writer.add(receipts);
      await writer.add(`${chain.last(run.taskId, otherMoney(run.summary, chain))}\n`);
      await writer.flush();
      await file.sync();
    } finally {
      await file.close();
    }
  } finally {
    await output.close();
  }
  await disk.rename(part, path);
  return { file: path, count: chain.sums.count, hash: chain.hash };
}

/** The receipts of a finished run: those that are there, if they are of its state, or else written now. */
export async function renewReceipts(
  storage: Pick<EngineStorage, "disk" | "store" | "room">,
  run: SettledRun,
  path: string,
  signal: AbortSignal,
): Promise<ReceiptsFile> {
  await checkReceiptsPlace(storage.disk, path, { taskId: run.taskId, others: [run.body.out] });
  const sizeBytes = (await storage.disk.stat(path))?.sizeBytes ?? 0;
  const last = sizeBytes === 0 ? undefined : await readLast(storage.disk, path, sizeBytes);
  if (last === undefined || !isOf(run.summary, last)) return writeReceipts(storage, run, path, signal);
  return { file: path, count: run.summary.items, hash: String(last["hash"]) };
}

/** The text of a receipt, with its line end, for each line of the output. */
async function* receiptLines(
  storage: Pick<EngineStorage, "store">,
  { taskId, body }: SettledRun,
  output: Pick<DiskFile, "read">,
  chain: ReceiptChain,
): AsyncGenerator<string> {
  const reader = new LineReader(output);
  const prices: UsedPrice[] = [];
  const lines = body.isOrdered
    ? inOrder(storage, taskId, body, prices)
    : settledLines(storage.store, taskId, body, ({ prices: more }) => void prices.push(...more));
  for await (const settled of lines) {
    const text = Buffer.from(await reader.read(settled)).toString();
    const keyJson = lineKeyJson(text) ?? JSON.stringify(readOutputLine(text)?.key ?? null);
    yield `${chain.line(runReceipt(settled.outcome, keyJson, prices))}\n`;
  }
}

/** The lines of an ordered run in the order of its output: the journal is read once for each window. */
async function* inOrder(
  { store }: Pick<EngineStorage, "store">,
  taskId: string,
  body: TaskBody,
  prices: UsedPrice[],
): AsyncGenerator<SettledLine> {
  let start = 0;
  for (let first = 1; ; first += WINDOW_LINES) {
    const window: SettledLine[] = [];
    let highest = 0;
    const onStep = (step: Step): void => void (first === 1 && prices.push(...step.prices));
    for await (const settled of settledLines(store, taskId, body, onStep)) {
      const { line } = settled.outcome;
      highest = Math.max(highest, line);
      if (line >= first && line < first + WINDOW_LINES) window.push(settled);
    }
    window.sort((one, other) => one.outcome.line - other.outcome.line);
    for (const { outcome } of window) {
      yield { outcome, start };
      start += outcome.lineBytes;
    }
    if (highest < first + WINDOW_LINES) return;
  }
}

/** What the summary counts beyond the receipts: of lines that are no longer in the input, and what an earlier version did not record. */
function otherMoney({ cost }: Summary, { sums }: ReceiptChain): OtherMoney {
  return {
    listNano: nanoOf(cost.list_usd) - sums.listNano,
    billedNano: nanoOf(cost.billed_usd) - sums.billedNano,
    ambiguousNano: nanoOf(cost.ambiguous_usd) - sums.ambiguousNano,
  };
}

type LastLine = Readonly<Record<string, unknown>>;

/** Whether a last line is that of the run in its present state. */
function isOf({ items, cost, usage }: Summary, last: LastLine): boolean {
  const money = (name: string): number =>
    Number(last[`${name}_nano_usd`]) + Number(last[`other_${name}_nano_usd`]);
  return (
    last["count"] === items &&
    last["output_tokens"] === usage.output_tokens &&
    money("billed") === nanoOf(cost.billed_usd) &&
    money("ambiguous") === nanoOf(cost.ambiguous_usd) &&
    money("list") === nanoOf(cost.list_usd)
  );
}

/** The last line of a file; undefined where it is not that of receipts. */
async function readLast(disk: Disk, path: string, sizeBytes: number): Promise<LastLine | undefined> {
  const file = await disk.open(path, "read");
  try {
    const bytes = new Uint8Array(Math.min(sizeBytes, RECEIPT_BYTES_MAX));
    const read = await file.read(bytes, sizeBytes - bytes.byteLength);
    const line = Buffer.from(bytes.subarray(0, read)).toString().trimEnd().split("\n").at(-1) ?? "";
    const value: unknown = line.startsWith('{"count":') ? JSON.parse(line) : undefined;
    return typeof value === "object" && value !== null ? (value as LastLine) : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined; // another program's
    throw error;
  } finally {
    await file.close();
  }
}

/** Gathers texts into blocks. */
class BlockWriter {
  readonly #write: (bytes: Uint8Array, position: number) => Promise<unknown>;
  #texts: string[] = [];
  #chars = 0;
  #position = 0;

  constructor(write: (bytes: Uint8Array, position: number) => Promise<unknown>) {
    this.#write = write;
  }

  async add(text: string): Promise<void> {
    this.#texts.push(text);
    this.#chars += text.length;
    if (this.#chars >= WRITE_BYTES) await this.flush();
  }

  async flush(): Promise<void> {
    const bytes = Buffer.from(this.#texts.join(""));
    await this.#write(bytes, this.#position);
    this.#position += bytes.byteLength;
    this.#texts = [];
    this.#chars = 0;
  }
}
