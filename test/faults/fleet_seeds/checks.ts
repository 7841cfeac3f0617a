/**
 * The invariants of a run under faults, from the provider's ledger and from when answers were seen to be committed.
 *
 *   sent after its success    a send of an item after its answer was read from the database or through a worker
 *   doubled                   a send of an item while another send of it was in flight, or after one was answered with success
 *   recovery                  from a fault of a worker, or from the end of one of the database, to the first post that was begun later, for a project at
 *                             home in a harmed partition, and acknowledged
 */
import { IN_FLIGHT } from "./fault_fleet.ts";
import { type Harm, isOfDatabase } from "./harms.ts";
import type { Send } from "./provider.ts";
import type { Sent } from "./service_load.ts";

/** `local:small` and `local:priced`. */
const LANES = 2;
const SETTLING_MS = 8_000;

export interface Doubled {
  readonly count: number;
  /** Requests that can have been in flight of what died. */
  readonly allowed: number;
  readonly problems: readonly string[];
}

/** `committedMs`: when each item's answer was first seen to be committed. */
export function sendProblems(
  sends: readonly Send[],
  harms: readonly Harm[],
  committedMs: ReadonlyMap<number, number>,
): Doubled {
  const ofItem = new Map<number, Send[]>();
  for (const send of sends) ofItem.set(send.item, [...(ofItem.get(send.item) ?? []), send]);
  const problems: string[] = [];
  let count = 0;
  for (const [item, own] of ofItem) {
    const seenMs = committedMs.get(item) ?? Number.POSITIVE_INFINITY;
    const late = own.find(({ atMs }) => atMs > seenMs);
    if (late !== undefined)
      problems.push(
        `item ${item} was sent by ${late.process} ${Math.round(late.atMs - seenMs)} ms after its answer was committed`,
      );
    for (const [index, next] of own.entries()) {
      const before = own[index - 1];
      if (
        before === undefined ||
        (before.answeredMs !== undefined && before.answeredMs <= next.atMs && before.status !== 200)
      )
        continue;
      count += 1;
      if (!harms.some((harm) => explains(harm, before, next)))
        problems.push(
          `item ${item} was sent by ${before.process} and ${Math.round(next.atMs - before.atMs)} ms later by ${next.process}, without a fault of the first`,
        );
    }
  }
  const allowed = harms.reduce((sum, { parts }) => sum + IN_FLIGHT * LANES * parts.length, 0);
  if (count > allowed)
    problems.push(`${count} requests were sent twice, at most ${allowed} were in flight of what died`);
  return { count, allowed, problems: problems.slice(0, 10) };
}

function explains({ fault, atMs, healedMs, process }: Harm, before: Send, next: Send): boolean {
  const isOfSender = isOfDatabase(fault) || process === before.process;
  return isOfSender && atMs <= next.atMs && healedMs + SETTLING_MS >= before.atMs;
}

export interface Recovery {
  readonly kind: string;
  readonly tookMs: number;
  /** Whether nothing else was harmed meanwhile. */
  readonly isJudged: boolean;
}

/** Of each project at home in a harmed partition. Infinity when nothing was acknowledged. */
export function recoveries(
  harms: readonly Harm[],
  sent: readonly Sent[],
  homes: ReadonlyMap<string, number>,
): readonly Recovery[] {
  return harms.flatMap((harm) => {
    const { fault, parts, healedMs } = harm;
    const isOfAll = isOfDatabase(fault);
    if (!isOfAll && !["kill", "stop", "term", "database", "apart"].includes(fault.kind)) return [];
    const sinceMs = isOfAll ? healedMs : harm.atMs;
    const isAlone = harms.every(
      (other) => other === harm || other.atMs > sinceMs + 12_000 || other.healedMs + SETTLING_MS < sinceMs,
    );
    const harmed = [...homes].filter(([, part]) => parts.includes(part)).map(([name]) => name);
    return harmed.map((name) => {
      const acks = sent.flatMap(({ project, acked }) =>
        project.name === name && acked !== undefined && acked.fromMs >= sinceMs ? [acked.atMs] : [],
      );
      return { kind: fault.kind, tookMs: Math.min(...acks) - sinceMs, isJudged: isAlone };
    });
  });
}
