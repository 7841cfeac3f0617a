/**
 * The test files that take longest, so that they start first (`test/longest_first.ts`): by the seconds that they take, longest first.
 *
 * The order of the others matters little, so the list need not be exact. To make it again: `npx vitest run --reporter=json`.
 */
export const LONG_FILES: readonly string[] = [
  "test/faults/outages.test.ts", // 86 s, most of it waits
  "test/schedule/limit_profiles.test.ts",
  "test/simulation/simulation.test.ts",
  "test/engine/quoted_workloads.test.ts",
  "test/engine/output_check.test.ts",
  "test/store/log_damage.test.ts",
  "test/service/conformance.test.ts",
  "test/engine/chance_refusals.test.ts",
  "test/engine/outages.test.ts",
  "test/engine/claimed_bytes.test.ts",
  "test/engine/deadlines.test.ts",
  "test/tasks/tasks.test.ts",
  "test/service/page_satellites.test.ts",
  "test/simulation/fairness.test.ts",
  "test/engine/endings.test.ts",
  "test/service/openai.test.ts",
  "test/engine/lifted_limits.test.ts",
  "test/engine/short_outages.test.ts",
  "test/tasks/retry.test.ts",
  "test/service/webhooks.test.ts",
  "test/engine/tails.test.ts",
  "test/engine/stated_waits.test.ts",
  "test/service/holds.test.ts",
  "test/tasks/usage_steps.test.ts",
  "test/simulation/tasks.test.ts",
  "test/service/page.test.ts",
  "test/tasks/large_tasks.test.ts",
  "test/engine/outages_in_a_row.test.ts",
];
