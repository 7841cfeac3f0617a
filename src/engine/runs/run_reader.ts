/**
 * The reader of a run: its input, block by block, as shards for the lanes.
 *
 *   blocks of whole lines -> measured in threads -> rejected lines settled, those of missing providers held -> shards
 *                                                -> lines that may have been answered settled, under at_most_once
 *                                                -> those that the cache answers settled, if the run has one
 *
 * It waits for the backlog to take shards, and for the disk to take lines that end without a request. Once the file is not what it
 * was, a line that cannot be read may be torn: its error waits until the checksum of all that was read is that of the input.
 */
import { PerigeeError } from "../../errors.ts";
import { type Block, lastLineOf } from "../../jsonl/block.ts";
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { keyJsonOf, type MeasuredBlock } from "../../shard/measured.ts";
import { Packer } from "../../shard/pack.ts";
import { pickItems } from "../../shard/pick_items.ts";
import type { EngineCore } from "../core.ts";
import type { RunState } from "../items/run_state.ts";
import type { UnsentEnd } from "../items/run_stopped.ts";
import { ChecksummedFile, lengthOf } from "../journal/checksum.ts";
import { rethrowReadError } from "../journal/file_errors.ts";
import { measureAhead } from "./measure_ahead.ts";
import type { OpenedRun } from "./run_open.ts";
import type { Pilot } from "./run_pilot.ts";
import { StreamedKeys } from "./streamed_keys.ts";
import type { WarningFeed } from "./warning_feed.ts";
import { WatchedInput } from "./watched_input.ts";

/** What a reader reads with, and where it brings items. */
type ReaderCore = Pick<EngineCore, "storage" | "config" | "measurer" | "sending">;

/** Lines settled without a request between two waits for the disk. */
const UNSENT_STAGED_MAX = 4_096;
/** Errors that wait for the checksum of the input at most. */
const UNPROVEN_MAX = 4_096;
/** Provider names are at most this long; a longer text is not shown as one. */
const PROVIDER_CHARS_MAX = 64;

/** Why an item in doubt ends under at_most_once. */
export const DOUBTED =
  "its request was under way when the process ended, and may have been answered and billed";

type OpenRun = Extract<OpenedRun, { kind: "open" }>;

/** Resolves when the input was read to its end, or the run sends nothing any more. Throws `input_changed`. */
export function readRun(
  core: ReaderCore,
  opened: OpenRun,
  warnings: WarningFeed | undefined,
  pilot: Pilot | undefined,
): Promise<void> {
  return new RunReader(core, opened, warnings).read(pilot);
}

class RunReader {
  readonly #core: ReaderCore;
  readonly #opened: OpenRun;
  readonly #warnings: WarningFeed | undefined;
  readonly #input: WatchedInput;
  #unsent = 0;
  /** Ends of lines that count if the input is proven to be what it was. */
  #unproven: (() => void)[] = [];

  constructor(core: ReaderCore, opened: OpenRun, warnings: WarningFeed | undefined) {
    this.#warnings = warnings;
    this.#core = core;
    this.#opened = opened;
    this.#input = new WatchedInput(core.storage.disk, opened.input);
  }

  async read(pilot: Pilot | undefined): Promise<void> {
    const opened = this.#opened;
    const { state } = opened;
    state.isReading = true;
    if (pilot !== undefined) {
      if (!pilot.isFull) await this.#readLines(pilot);
      if (!(await pilot.decided())) return;
      state.blankLines = 0; // all lines are read again
    }
    await this.#readLines();
    state.isReading = false;
    state.changed();
  }

  /** Reads to the end of the input, or of the pilot. */
  async #readLines(pilot?: Pilot): Promise<void> {
    const opened = this.#opened;
    const { state } = opened;
    const packer = new Packer();
    this.#unproven = [];
    const seen = opened.input.identity === undefined ? new StreamedKeys(state) : undefined;
    const inputChecksum = opened.isStandIn ? undefined : opened.body.inputChecksum;
    const length = inputChecksum === undefined ? undefined : lengthOf(inputChecksum);
    const file = new ChecksummedFile(this.#input, length);
    const { shardFeed, backlog } = this.#core.sending;
    for await (const measured of this.#measured(opened, this.#blocks(opened, file), seen === undefined)) {
      if (!state.isOpen) return;
      if (measured === "pause") {
        await shardFeed.add(state, packer.flush());
        state.changed(); // what arrived may wait in a lane that is stopped
        continue;
      }
      const all = this.#withoutDoubted(seen === undefined ? measured : seen.filter(measured));
      const taken = pilot?.take(all) ?? all;
      this.#warnings?.see(taken);
      await opened.input.spool?.sync();
      const fresh = (await opened.answers?.take(taken)) ?? taken;
      await this.#boundUnsent(state, taken.count - fresh.count);
      await this.#reject(state, fresh, pilot !== undefined);
      if (!state.isOpen) return;
      const isUntried = hasUntried(state, fresh);
      await shardFeed.add(state, packer.add(fresh, isUntried));
      if (pilot?.isFull === true) break;
      if (backlog.isStarved && isUntried) await shardFeed.add(state, packer.flush(true));
    }
    if (!state.isOpen) return;
    await shardFeed.add(state, packer.flush());
    if (!state.isOpen || pilot?.isFull === true) return;
    if (inputChecksum !== undefined && inputChecksum !== file.checksum) throw changedWhileRead(opened);
    for (const end of this.#unproven) end();
    state.linesTotal = state.linesRead + (opened.body.keptLines ?? 0);
  }

  /** Blocks with something left to do, no faster than the backlog takes them. */
  async *#blocks({ state, input }: OpenRun, file: ChecksummedFile): AsyncGenerator<Block> {
    const { backlog } = this.#core.sending;
    for await (const event of readBlocks(file, { lineBytesMax: LINE_BYTES_MAX })) {
      while (state.isOpen && !backlog.hasRoomFor(state.id)) {
        const change = backlog.change();
        state.isReading = false;
        state.changed(); // the lanes that it waits for may be held, and the run with them
        await change;
        state.isReading = true;
      }
      if (!state.isOpen) return;
      state.linesRead = lastLineOf(event);
      if (event.kind === "refused") {
        await input.spool?.sync();
        await this.#refuse(state, event.refused.line, event.refused.lengthBytes);
      } else if (input.identity === undefined || !state.hasDone(event.block)) {
        yield event.block; // a stream's blocks are all read: keys that were answered before count against later ones
      }
    }
  }

  #measured(
    { state, input }: OpenRun,
    blocks: AsyncIterable<Block>,
    canSkip: boolean,
  ): AsyncGenerator<MeasuredBlock | "pause"> {
    const { measurer, storage } = this.#core;
    const { measureOptions } = state.settings;
    const { done } = state.items;
    return measureAhead(blocks, {
      measure: (block) => {
        const skip = canSkip ? done.slice(block.firstLine, block.lineCount) : undefined;
        return measurer.measure(block, { ...measureOptions, skip });
      },
      concurrency: measurer.concurrency,
      clock: input.spool === undefined ? undefined : storage.clock,
    });
  }

  /** Under at_most_once, lines whose request may have been answered are rejected here, because they end without a turn in a lane. */
  #withoutDoubted(measured: MeasuredBlock): MeasuredBlock {
    const { made } = this.#opened.state.items;
    if (!this.#core.config.isAtMostOnce || made.size === 0) return measured;
    const kept: number[] = [];
    const rejected = [...measured.rejected];
    for (let item = 0; item < measured.count; item += 1) {
      const line = measured.lines[item] as number;
      if (made.get(line)?.isInDoubt !== true) {
        kept.push(item);
        continue;
      }
      const key = JSON.parse(keyJsonOf(measured, item)) as string; // `keyJsonOf` returns a JSON string literal
      rejected.push({ line, key, code: "ambiguous", message: DOUBTED });
    }
    return kept.length === measured.count ? measured : { ...pickItems(measured, kept), rejected };
  }

  /** Lines of missing providers are held when they are read again after a pilot. */
  async #reject(state: RunState, measured: MeasuredBlock, isPilot: boolean): Promise<void> {
    state.blankLines += measured.blankLines;
    for (const { line, key, code, message, provider } of measured.rejected) {
      if (state.items.done.has(line)) continue;
      if (code === "provider_missing") {
        const named = provider === undefined || provider.length > PROVIDER_CHARS_MAX ? {} : { provider };
        if (!isPilot)
          state.items.hold({ reason: code, ...named, message }, 1, this.#core.storage.clock.nowMs());
        continue;
      }
      this.#end(line, key === null ? null : JSON.stringify(key), { status: "failed", code, message });
    }
    await this.#boundUnsent(state, measured.rejected.length);
  }

  async #refuse(state: RunState, line: number, lengthBytes: number): Promise<void> {
    if (state.items.done.has(line)) return;
    const message = `the line has ${lengthBytes} bytes, at most ${LINE_BYTES_MAX} are read`;
    this.#end(line, null, { status: "failed", code: "line_too_long", message });
    await this.#boundUnsent(state, 1);
  }

  #end(line: number, keyJson: string | null, end: UnsentEnd): void {
    const { items, records } = this.#opened.state;
    const record = (): void => {
      if (items.claimed.add(line)) records.unsent(line, keyJson, end);
    };
    if (!this.#input.isOther) record();
    else if (this.#unproven.length < UNPROVEN_MAX) this.#unproven.push(record);
    else throw changedWhileRead(this.#opened);
  }

  /** The disk sets the pace of lines that end without a request. */
  async #boundUnsent(state: RunState, count: number): Promise<void> {
    this.#unsent += count;
    if (this.#unsent < UNSENT_STAGED_MAX) return;
    this.#unsent = 0;
    await state.settings.log.settled();
  }
}

/** Whether there is anything that no earlier call has sent: what failed there alone would be all that a stopped lane is tried with. */
function hasUntried({ items: { made } }: RunState, { lines, count }: MeasuredBlock): boolean {
  for (let item = 0; item < count; item += 1) if (!made.has(lines[item] as number)) return true;
  return made.size === 0;
}

/** Its message says how to go on. */
export function changedWhileRead(opened: Pick<OpenRun, "input">): PerigeeError {
  return new PerigeeError(
    "input_changed",
    `${opened.input.identity?.name} changed while it was read; nothing answered so far is lost: put it back as it was and run the same command again, or start over with another data folder`,
  );
}

/** Reads a stream on whose reader waits for a place in the backlog; undefined when there is nothing left to read. */
export function readRest({ input }: OpenRun, isWanted: () => boolean): Promise<void> | undefined {
  if (input.spool?.isWhole !== false) return undefined;
  return input.spool.readToEnd(isWanted).catch(rethrowReadError);
}
