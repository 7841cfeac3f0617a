/**
 * The end of what was not sent: one pass over the input in which every line that is neither done nor in flight ends as
 * `expired` or `cancelled`. A cancel is stored before the first of them.
 *
 * Keys are read again instead of kept, so that ten million waiting lines cost nothing until here. At most some
 * thousand lines are staged at a time; the disk sets the pace.
 */
import { LINE_BYTES_MAX, readBlocks } from "../../jsonl/read.ts";
import { keyJsonOf, type MeasuredBlock, metadataJsonOf, modelOf } from "../../shard/measured.ts";
import { parseModelId } from "../../work/request.ts";
import type { EngineCore } from "../core.ts";
import { encodeBody } from "../files/task_body.ts";
import { codeOfHold, type HeldEnd } from "../items/holds.ts";
import type { RunState } from "../items/run_state.ts";
import { endOf, type UnsentEnd } from "../items/run_stopped.ts";
import type { EngineStorage } from "../journal/storage.ts";
import type { Lanes } from "../lanes/lanes.ts";
import type { OpenedRun } from "./run_open.ts";
import { changedWhileRead } from "./run_reader.ts";
import { StreamedKeys } from "./streamed_keys.ts";
import { WatchedInput } from "./watched_input.ts";

/** Lines staged between two checks of the disk; while they are committed, as many more are staged. */
const STAGED_MAX = 8_192;

type OpenRun = Extract<OpenedRun, { kind: "open" }>;

/**
 * Resolves when it is durable that the rest ends as cancelled, in any process, and a stream with what has arrived of
 * it. Rejects with `disk_full` when it is not.
 */
export async function storeCancel(
  { room, store }: EngineStorage,
  { task, body, input }: OpenRun,
): Promise<void> {
  if (body.isCancelled === true) {
    await input.spool?.sealAgain();
    return;
  }
  await input.spool?.seal();
  const cancelled = encodeBody({ ...body, isCancelled: true });
  await room.waitFor(() => store.putTask({ ...task, body: cancelled }));
}

/** Resolves when every such line is durable. Lines that are faulty get their own error, as they would have. */
export async function endRest(
  { measurer, storage: { disk } }: Pick<EngineCore, "measurer" | "storage">,
  opened: OpenRun,
  status: "expired" | "cancelled" | "giving_up",
): Promise<void> {
  const { state, body, input } = opened;
  const { log, measureOptions } = state.settings;
  const { aliases } = measureOptions;
  const seen = input.identity === undefined ? new StreamedKeys(state) : undefined;
  let staged = 0;
  let committed: Promise<void> = Promise.resolve();
  const isOver = (line: number): boolean => state.items.done.has(line) || state.items.claimed.has(line);
  const end = (line: number, key: string | null, code: UnsentEnd): void => {
    if (isOver(line)) return;
    state.items.claimed.add(line);
    state.records.unsent(line, key, code);
    staged += 1;
  };
  const endMeasured = async (all: MeasuredBlock): Promise<void> => {
    const measured = seen === undefined ? all : seen.filter(all);
    for (const { line, key, code, message: why } of measured.rejected) {
      const isWaiting = code === "provider_missing" && status !== "giving_up";
      const own: UnsentEnd = { status: "failed", code, message: why, retryable: code === "provider_missing" };
      end(line, key === null ? null : JSON.stringify(key), isWaiting ? endOf(state, status, "") : own);
    }
    for (let index = 0; index < measured.count; index += 1) {
      const model = modelOf(measured, index);
      const unsent = { ...endOf(state, status, model), metadata: metadataJsonOf(measured, index) };
      end(measured.lines[index] as number, keyJsonOf(measured, index), unsent);
    }
    if (staged < STAGED_MAX) return;
    staged = 0;
    await committed;
    committed = log.settled();
  };
  const file = new WatchedInput(disk, input);
  const options = { wantBodies: false, wantCounts: false, modelOverride: body.model, aliases };
  const waiting: Promise<MeasuredBlock>[] = [];
  for await (const event of readBlocks(file, { lineBytesMax: LINE_BYTES_MAX })) {
    if (file.isAltered) throw changedWhileRead(opened); // a line may be torn, and of a file that was cut others would be left out
    if (event.kind === "refused") {
      end(event.refused.line, null, {
        status: "failed",
        code: "line_too_long",
        message: "the line is too long",
      });
      continue;
    }
    const { firstLine, lineCount } = event.block;
    state.linesRead = Math.max(state.linesRead, firstLine + lineCount - 1);
    if (seen === undefined && state.hasDone(event.block)) continue; // keys of a stream count against later ones
    waiting.push(measurer.measure(event.block, options));
    const first = waiting.length > measurer.concurrency ? waiting.shift() : undefined;
    if (first !== undefined) await endMeasured(await first);
  }
  if (file.isAltered) throw changedWhileRead(opened);
  for (const measured of waiting) await endMeasured(await measured);
  state.settings.budget.wantNothing();
  await log.settled();
}

/** How a held item ends whose reason has passed by then. */
const NEVER_SENT: HeldEnd = { code: "provider_error", message: "the run ended before it was sent" };

/** How the items of a run end that are held now, by their model; ask before the run is dropped from its lanes. */
export function heldEndsOf(lanes: Lanes, state: RunState): (model: string) => HeldEnd {
  const held = [...state.items.held.values()];
  const inLanes = new Set(
    state.holds.flatMap(({ provider, next_try }) => (next_try === null ? [] : provider)), // lanes try again
  );
  return (model) => {
    const provider = parseModelId(model)?.provider;
    const inLane = inLanes.has(provider) ? lanes.heldEndOf(model) : undefined;
    if (inLane !== undefined) return inLane;
    const own = held.find((lines) => lines.model === model || (lines.provider ?? "") === provider);
    const lines = own ?? held.find(({ reason }) => reason === "cap_reached");
    return lines === undefined ? NEVER_SENT : { code: codeOfHold(lines.reason), message: lines.message };
  };
}
