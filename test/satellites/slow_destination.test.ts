/**
 * A slow host and a fast one, and a project with much waiting beside one with little, on the real clock and bottleneck.
 */
import { expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { openExecutions } from "../../src/satellites/executions/executions.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { CALLER, requestOf, satellite } from "./execution_world.ts";

it("calls to a slow host delay nobody else's, and never are more at once than may be", async () => {
  let running = 0;
  let runningMax = 0;
  const host = satellite("host", {
    destination: ({ input }) => String(input["host"]),
    destinationConcurrency: 8,
    run: async ({ input, clock }) => {
      if (input["host"] !== "slow") return {};
      running += 1;
      runningMax = Math.max(runningMax, running);
      await clock.sleep(200);
      running -= 1;
      return {};
    },
  });
  const store = createMemoryStore();
  const executions = await openExecutions({
    ...{ clock: systemClock, store, workLog: await openWorkLog({ clock: systemClock, store }) },
    resolver: {
      resolve: async (_caller, reference) => ({
        reference,
        kind: "vendor",
        satellite: host,
        fixedConfig: {},
      }),
    },
    secrets: { reveal: async () => undefined },
    ...{ http: {} as never, files: {} as never, tasks: {} as never },
    bounds: { places: 32 },
  });
  const done: string[] = [];
  executions.onFinished(({ project }) => done.push(project));
  const submit = (project: string, name: string) =>
    executions.submit({ ...CALLER, project }, requestOf("host", { input: { host: name } }));
  await Promise.all(Array.from({ length: 80 }, () => submit("slow", "slow")));
  await Promise.all(Array.from({ length: 40 }, (_, index) => submit("fast", `fast${index % 3}`)));
  while (done.filter((project) => project === "fast").length < 40) await systemClock.sleep(5);
  expect(done.filter((project) => project === "slow").length).toBeLessThan(40);
  while (done.length < 120) await systemClock.sleep(5);
  expect(runningMax).toBe(8);
  expect(executions.counts()).toEqual({ queued: 0, running: 0 });
  await executions.close();
});
