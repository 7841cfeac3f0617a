/**
 * Adoption: own lines that were found whole after the last step become outcomes of steps that recovery appends.
 *
 * They are written at the end of the output. If they were found there, the same bytes are written again. Memory: one step.
 */
import { crc32 } from "node:zlib";
import type { Moment } from "../../clock.ts";
import type { DiskFile } from "../../disk.ts";
import type { ReadOutput } from "../../jsonl/write.ts";
import type { Store } from "../../store/store.ts";
import type { OwnLine } from "../files/tail_lines.ts";
import type { TakenEarlier } from "../journal/item_cost.ts";
import {
  NOTHING_SPENT,
  type OutcomeRecord,
  readStep,
  type SettledStatus,
  StepWriter,
  spentOf,
  stamped,
} from "../journal/journal.ts";
import { readWhole } from "../journal/line_bytes.ts";
import { type OutputFile, summed } from "../journal/output.ts";
import type { PriceTable } from "../journal/price_table.ts";
import type { Replay } from "../journal/replay.ts";
import type { SentAs, SentFacts } from "../journal/sent_rows.ts";
import type { StepListener } from "../journal/task_log.ts";
import { CUT_ANSWER } from "../journal/totals.ts";
import type { CostOfReserved, ReckonAdopted } from "./adopted_costs.ts";
import { STEP_BYTES_MAX, STEP_ROWS_MAX } from "./restate.ts";

/** Where an adoption writes its steps. */
export interface AdoptedSteps {
  readonly store: Pick<Store, "append">;
  readonly taskId: string;
  readonly output: OutputFile;
  readonly moment: Moment;
  readonly prices: PriceTable;
  /** Notified of every step. */
  readonly onStep?: StepListener | undefined;
}

/** What adopted lines have cost. */
export interface AdoptedCosts {
  readonly input: Pick<DiskFile, "read">;
  readonly reckon: ReckonAdopted;
  readonly reserved: CostOfReserved;
  /** What a line took in earlier runs, which is in it. */
  readonly takenEarlier?: ((line: number) => TakenEarlier | undefined) | undefined;
  /** When the sla of the run ends, Unix time; null without one. */
  readonly deadlineWallMs: number | null;
}

/** Call `flush` after the last line; what is not flushed is not adopted. */
export class Adoption {
  readonly #steps: AdoptedSteps;
  readonly #costs: AdoptedCosts;
  readonly #replay: Replay;
  #lines: OwnLine[] = [];
  #bytes = 0;

  constructor(steps: AdoptedSteps, costs: AdoptedCosts, replay: Replay) {
    this.#steps = steps;
    this.#costs = costs;
    this.#replay = replay;
  }

  /** Takes a line; lines are written in the order of these calls. */
  async add(own: OwnLine): Promise<void> {
    this.#lines.push(own);
    this.#bytes += own.bytes.byteLength;
    if (this.#lines.length >= STEP_ROWS_MAX || this.#bytes >= STEP_BYTES_MAX) await this.flush();
  }

  /** When it resolves, all lines taken so far are in the output and in the journal. */
  async flush(): Promise<void> {
    if (this.#lines.length === 0) return;
    const { output, store, taskId, moment, prices, onStep } = this.#steps;
    const replay = this.#replay;
    const lines = this.#lines;
    this.#lines = [];
    this.#bytes = 0;
    const step = new StepWriter();
    prices.whenAdded = (price) => step.price(price);
    const outcomes: OutcomeRecord[] = [];
    for (const line of lines) {
      const sent = adoptedFacts(line.line, this.#costs, replay, moment.wallMs);
      outcomes.push({ ...(await adoptedOutcome(line, this.#costs, replay)), sent });
    }
    const warned = lines.flatMap(({ found }) => [
      ...(found.warnings === undefined ? [] : [found.warnings]),
      ...(found.isCut === true ? [CUT_ANSWER] : []),
    ]);
    for (const list of warned) step.warned(list);
    for (const outcome of outcomes) step.outcome(outcome, outcome.lineBytes, outcome.lineCrc32);
    output.resume(replay.outEnd, replay.outCrc32);
    const { range, write } = output.claim(summed(Buffer.concat(lines.map(({ bytes }) => bytes))));
    const records = step.finish({ ...range, voids: 0, committedUsd: replay.committedUsd });
    await store.append([stamped({ taskId, records, output: write }, moment)]);
    onStep?.(0, readStep(records), moment);
    for (const outcome of outcomes) replay.settle(outcome);
    for (const list of warned) replay.totals.warn(list, 1);
    replay.out = { end: range.outEnd, crc32: output.crc32 };
  }
}

/**
 * How an item was sent whose answer was written and not recorded: without an sla in realtime, otherwise nobody knows. It ended before
 * the process did, so it was in time if its deadline has not passed.
 */
function adoptedFacts(
  line: number,
  { deadlineWallMs }: AdoptedCosts,
  replay: Replay,
  nowWallMs: number,
): SentFacts | undefined {
  const known = replay.voided.get(line)?.sent;
  const startedWallMs = replay.started.get(line);
  if (known !== undefined || startedWallMs === undefined) return known;
  const lane = deadlineWallMs === null ? "realtime" : null;
  const as: SentAs = { model: "", lane, tierAsked: null, tier: null, batch: null, deadlineWallMs };
  const isMet = deadlineWallMs !== null && nowWallMs <= deadlineWallMs ? true : undefined;
  return { as, startedWallMs, endedWallMs: nowWallMs, isMet };
}

/** What is known of an item whose answer was not recorded. */
async function adoptedOutcome(
  { line, found: written, intent, bytes }: OwnLine,
  { input, reckon, takenEarlier }: AdoptedCosts,
  replay: Replay,
): Promise<OutcomeRecord> {
  const earlier = takenEarlier?.(line);
  const found = earlier === undefined ? written : withoutEarlier(written, earlier);
  const end = {
    status: statusOf(found),
    code: found.ok ? undefined : found.errorCode,
    lineBytes: bytes.byteLength,
    lineCrc32: crc32(bytes),
  } as const;
  const voided = replay.voided.get(line);
  if (voided !== undefined) return { ...voided, ...end };
  const known = replay.spent.get(line);
  const before = spentOf(known ?? NOTHING_SPENT);
  const counts = {
    attempts: intent?.attempt ?? known?.attempts ?? 0,
    ambiguousAttempts: found.ambiguousAttempts ?? intent?.ambiguousAttempts ?? known?.ambiguousAttempts ?? 0,
  };
  if (intent === undefined) return { line, ...end, ...counts, ...before };
  const spent = await reckon({
    input: await readWhole(input, intent.offset, intent.lengthBytes),
    found,
    intent,
    before,
  });
  return { line, ...end, ...counts, ...spent };
}

/** What this run took for a line. */
function withoutEarlier(found: ReadOutput, earlier: TakenEarlier): ReadOutput {
  const { used, ambiguousAttempts } = found;
  const rest = (sum: number, before: number): number => Math.max(0, sum - before);
  const ambiguous = ambiguousAttempts && rest(ambiguousAttempts, earlier.ambiguousAttempts);
  return {
    ...found,
    ...(ambiguous === undefined ? {} : { ambiguousAttempts: ambiguous }),
    ...(used === undefined
      ? {}
      : {
          used: {
            isEstimated: used.isEstimated,
            inputTokens: rest(used.inputTokens, earlier.inputTokens),
            cachedTokens: rest(used.cachedTokens, earlier.cachedTokens),
            cacheWriteTokens: rest(used.cacheWriteTokens, earlier.cacheWriteTokens),
            outputTokens: rest(used.outputTokens, earlier.outputTokens),
            reasoningTokens: rest(used.reasoningTokens, earlier.reasoningTokens),
            listUsd: rest(used.listUsd, earlier.listUsd),
            billedUsd: rest(used.billedUsd, earlier.billedUsd),
            ambiguousUsd: rest(used.ambiguousUsd, earlier.ambiguousUsd),
          },
        }),
  };
}

function statusOf({ ok, errorCode }: ReadOutput): SettledStatus {
  if (ok) return "completed";
  return errorCode === "expired" || errorCode === "cancelled" ? errorCode : "failed";
}
