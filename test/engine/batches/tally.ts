import type { Task } from "../../../src/work/task.ts";

/** Of all their objects: how many were answered in each tier, and their money in nano-USD. */
export function tallyOf(tasks: readonly Task[]) {
  const tiers: Record<string, number> = {};
  let [listNanos, billedNanos, ambiguousNanos] = [0, 0, 0];
  for (const { cost } of tasks.flatMap(({ objects }) => objects)) {
    const tier = cost?.tier ?? "none";
    tiers[tier] = (tiers[tier] ?? 0) + 1;
    listNanos += Math.round((cost?.list_usd ?? 0) * 1e9);
    billedNanos += Math.round((cost?.billed_usd ?? 0) * 1e9);
    ambiguousNanos += Math.round((cost?.ambiguous_usd ?? 0) * 1e9);
  }
  return { tiers, listNanos, billedNanos, ambiguousNanos };
}
