/**
 * The summary and the progress of a run over the fleet: sums over its shards.
 */
import type { Hold } from "../../engine/items/holds.ts";
import type { Progress, Summary } from "../../engine/items/progress.ts";
import { allHolds } from "../../engine/lanes/run_holds.ts";
import { doubtClause } from "../../price/money.ts";
import { plusUsd } from "../../price/nano.ts";
import { sourceText } from "../../price/used_prices.ts";
import { capNameOf } from "./run_rows.ts";

/** What the client knows without its shards. */
export interface OwnFacts {
  readonly status: "completed" | "paused" | "stopped";
  readonly taskId: string;
  readonly output: string;
  readonly elapsedMs: number;
  /** Attempts of its shards before this call. */
  readonly attemptsBefore: number;
  readonly reason?: string;
}

/** `doubtClause`, with the amount of a shard. */
const SHARD_DOUBT = / \(\$[\d.]+ of what is spent is in doubt\)/;

/** Of an input without lines, which has no shards. */
const NO_COUNTS: Summary["counts"] = { submitted: 0, completed: 0, failed: 0, expired: 0, cancelled: 0 };
const NO_USAGE: Summary["usage"] = {
  ...{ input_tokens: 0, cached_tokens: 0, cache_write_tokens: 0, output_tokens: 0, reasoning_tokens: 0 },
  ...{ attempts: 0, ambiguous_attempts: 0 },
};

/**
 * Joins the summaries of shards. `requests_sent` are the attempts of all owners of the shards since the call began, also those of which no request left
 * its machine: an owner that died has recorded its attempts, and no more.
 */
export function joinedSummary(parts: readonly Summary[], own: OwnFacts): Summary {
  const cost = parts.map((part) => part.cost);
  const prices = new Map(cost.flatMap((one) => one.prices).map((price) => [JSON.stringify(price), price]));
  const used = [...prices.values()];
  const cached = sumOf(parts.map((part) => part.cached ?? 0));
  const cut = sumOf(parts.map((part) => part.cut ?? 0));
  const usage = { ...NO_USAGE, ...summed(parts.map((part) => part.usage)) };
  return {
    status: own.status,
    task_id: own.taskId,
    items: sumOf(parts.map(({ items }) => items)),
    counts: { ...NO_COUNTS, ...summed(parts.map(({ counts }) => counts)) },
    ...(cached === 0 ? {} : { cached }),
    ...(cut === 0 ? {} : { cut }),
    errors: summed(parts.map(({ errors }) => errors)),
    warnings: summed(parts.map(({ warnings }) => warnings)),
    usage,
    cost: {
      billed_usd: usdSum(cost.map(({ billed_usd }) => billed_usd)),
      ambiguous_usd: usdSum(cost.map(({ ambiguous_usd }) => ambiguous_usd)),
      list_usd: usdSum(cost.map(({ list_usd }) => list_usd)),
      usd: usdSum(cost.map(({ usd }) => usd)),
      is_estimated: cost.some(({ is_estimated }) => is_estimated),
      prices: used,
      price_source: sourceText(used) || "nothing to price",
    },
    output: own.output,
    elapsed_ms: own.elapsedMs,
    requests_sent: Math.max(0, usage.attempts - own.attemptsBefore),
    ...(own.reason === undefined ? {} : { reason: own.reason }),
    held: joinedHolds(parts, capNameOf(own.taskId), usdSum(cost.map(({ ambiguous_usd }) => ambiguous_usd))),
  };
}

/** Attempts that shards have recorded at an end; `counts` as their rows have them. */
export function attemptsOf(counts: readonly string[]): number {
  const parts = counts.filter((text) => text !== "").map((text) => JSON.parse(text) as Partial<Summary>); // as a worker wrote it
  return sumOf(parts.map(({ usage }) => usage?.attempts ?? 0));
}

/** One hold for each cause. The run's cap has no name, as that of a run on one machine, and the amounts of the shard that needs most. */
function joinedHolds(parts: readonly Summary[], ownCap: string, ambiguousUsd: number): Hold[] {
  const holds = parts
    .flatMap(({ held }) => held)
    .map((hold) => (hold.cap === ownCap ? ofRun(hold, ownCap, ambiguousUsd) : hold))
    .toSorted((one, other) => (other.needed_usd ?? 0) - (one.needed_usd ?? 0));
  const money = holds.filter(({ reason }) => reason === "cap_reached");
  const neededUsd = money.every(({ cap }) => cap === undefined) ? money[0]?.needed_usd : undefined;
  return allHolds([holds]).map((hold) =>
    hold.reason !== "cap_reached" || neededUsd === undefined ? hold : { ...hold, needed_usd: neededUsd },
  );
}

/** Its message says what is in doubt of the whole run: its worker knows only of its own shard. */
function ofRun({ cap: _cap, ...hold }: Hold, ownCap: string, ambiguousUsd: number): Hold {
  const message = hold.message
    .replace(`the cap "${ownCap}"`, "the cost cap")
    .replace(SHARD_DOUBT, doubtClause(ambiguousUsd));
  return { ...hold, message };
}

/** Joins the `counts` of shards, as JSON: their progress while they run, their summary afterwards; empty before. */
export function joinedProgress(counts: readonly string[], linesTotal: number): Progress {
  const parts = counts.filter((text) => text !== "").map(partProgress);
  const of = (read: (part: Partial<Progress>) => number | undefined): number =>
    sumOf(parts.map((part) => read(part) ?? 0));
  return {
    state: "running",
    held: [],
    linesTotal,
    linesRead: of((part) => part.linesRead),
    settled: of((part) => part.settled),
    completed: of((part) => part.completed),
    errors: of((part) => part.errors),
    inFlight: of((part) => part.inFlight),
    retrying: of((part) => part.retrying),
    itemsPerSecond: of((part) => part.itemsPerSecond),
    tokensPerSecond: of((part) => part.tokensPerSecond),
    billedUsd: of((part) => part.billedUsd),
    ambiguousUsd: of((part) => part.ambiguousUsd),
    listUsd: of((part) => part.listUsd),
    usd: of((part) => part.usd),
    lanes: [],
  };
}

function partProgress(text: string): Partial<Progress> {
  const part = JSON.parse(text) as Summary | Progress; // as the worker wrote it
  if (!("counts" in part)) return part;
  const { items, counts, cost } = part;
  const settled = items - counts.submitted;
  return {
    ...{ linesRead: items, settled, completed: counts.completed, errors: settled - counts.completed },
    ...{
      billedUsd: cost.billed_usd,
      ambiguousUsd: cost.ambiguous_usd,
      listUsd: cost.list_usd,
      usd: cost.usd,
    },
  };
}

function summed(parts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const part of parts)
    for (const [name, value] of Object.entries(part)) sums[name] = (sums[name] ?? 0) + value;
  return sums;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function usdSum(values: readonly number[]): number {
  return values.reduce(plusUsd, 0);
}
