/**
 * A group of seeds, one after another on one fleet.
 */
import { FaultFleet } from "./fault_fleet.ts";
import { fleetPlan, seedPlan } from "./plan.ts";
import { runSeed, type SeedReport } from "./seed_run.ts";

export const SEEDS_A_GROUP = 5;

export interface GroupTerms {
  readonly group: number;
  readonly seeds: readonly number[];
  readonly isShort: boolean;
  /** Instead of the number that the group draws. */
  readonly workers?: number | undefined;
  readonly recoveryMsMax: number;
  readonly endMsMax: number;
  readonly onReport?: (report: SeedReport) => void;
  readonly onNotice?: (notice: string) => void;
  readonly onEvent?: (event: string) => void;
  /** Aborting it ends the group at once. */
  readonly signal?: AbortSignal;
}

/** Resolves with a report for each seed; what is wrong at the end of the fleet is a problem of the last one. */
export async function runGroup({
  group,
  seeds,
  isShort,
  workers,
  recoveryMsMax,
  endMsMax,
  onReport,
  onNotice,
  onEvent,
  signal,
}: GroupTerms): Promise<readonly SeedReport[]> {
  const drawn = fleetPlan(group);
  const plan = { ...drawn, workers: workers ?? drawn.workers };
  const fleet = await FaultFleet.open(plan, group);
  onNotice?.(
    `group ${group}: ${JSON.stringify(plan)}${fleet.disk === undefined ? "; no right to mount a small disk: full disks are LEFT OUT" : ""}`,
  );
  const reports: SeedReport[] = [];
  try {
    const projects = [];
    for (let index = 0; index < plan.workers + 1; index += 1) {
      const name = `project-${index}`;
      projects.push({ name, key: await fleet.key(name) });
    }
    let number = 0;
    const nextNumber = (): number => {
      number += 1;
      return number;
    };
    for (const seed of seeds) {
      const running = runSeed(fleet, seedPlan(seed, plan, isShort), {
        projects,
        nextNumber,
        recoveryMsMax,
        endMsMax,
        onEvent: (event) => onEvent?.(`seed ${seed}: ${event}`),
      });
      running.catch(() => undefined);
      const report = await Promise.race([running, aborted(signal)]);
      reports.push(report);
      onReport?.(report);
    }
  } finally {
    const wrong = await fleet.close();
    const last = reports.pop();
    if (last !== undefined) reports.push({ ...last, problems: [...last.problems, ...wrong] });
    for (const problem of wrong) onNotice?.(`BROKEN at the end: ${problem}`);
  }
  return reports;
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
