/**
 * Ten seeds of faults on two fleets, with short faults: `npm run fleet:faults` runs more and longer ones.
 *
 * How long a recovery takes depends on what else the machine does: here it only must not hang. `fleet_workers.test.ts` measures it.
 */
import { afterAll, expect, it } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES } from "../postgres_server.ts";
import { runGroup, SEEDS_A_GROUP } from "./fleet_seeds/group_run.ts";
import type { SeedReport } from "./fleet_seeds/seed_run.ts";

/** Of two workers each; the objects of the first are in a bucket, those of the second in a folder. */
const GROUPS = [7, 8];
const RECOVERY_MS_MAX = 120_000;
const END_MS_MAX = 600_000;

describeCounterpart("a fleet under faults", POSTGRES, () => {
  const leftOut: string[] = [];
  afterAll(() => {
    for (const notice of leftOut) process.stderr.write(`${notice}\n`);
  });

  it("has one answer for each key, sends nothing after its success, and loses nothing that it acknowledged", {
    timeout: 2_400_000,
  }, async () => {
    const groups = await Promise.all(
      GROUPS.map((group) => {
        const seeds = Array.from(
          { length: SEEDS_A_GROUP },
          (_, index) => (group - 1) * SEEDS_A_GROUP + index + 1,
        );
        const onNotice = (notice: string): void => {
          if (notice.includes("LEFT OUT")) leftOut.push(notice);
        };
        return runGroup({
          group,
          seeds,
          isShort: true,
          recoveryMsMax: RECOVERY_MS_MAX,
          endMsMax: END_MS_MAX,
          onNotice,
        });
      }),
    );
    const reports = groups.flat();
    const broken = reports.filter(({ problems }) => problems.length > 0);
    expect(broken.map(said).join("\n")).toBe("");
    expect(reports).toHaveLength(GROUPS.length * SEEDS_A_GROUP);
  });
});

function said({ seed, trace, problems }: SeedReport): string {
  const lines = [...trace, ...problems.map((problem) => `BROKEN: ${problem}`)];
  return [`seed ${seed}:`, ...lines.map((line) => `  ${line}`)].join("\n");
}
