/**
 * A worker of a balanced fleet as a process: `balanced_worker <options as JSON>`, those of `openFleetWorker`. Prints its address as a line of JSON.
 *
 * As the build has made it. `brought` of the options: the worker has the satellite `own/brought`, which comes with the program.
 */
import type { FleetWorkerOptions } from "../../src/fleet/worker_options.ts";

const built = (name: string): string => new URL(`../../dist/${name}.js`, import.meta.url).href;
const { openFleetWorker }: typeof import("../../src/fleet/index.ts") = await import(built("fleet/index"));
const { defineSatellite }: typeof import("../../src/satellites.ts") = await import(built("satellites"));
const { z }: typeof import("../../src/schema.ts") = await import(built("schema"));

const { isBrought, ...options } = JSON.parse(process.argv[2] ?? "") as FleetWorkerOptions & {
  readonly isBrought?: boolean;
};
const brought = defineSatellite({
  ...{ name: "brought", input: z.looseObject({}), isRepeatable: true },
  run: async () => ({}),
});
const trusted = isBrought === true ? [{ project: "own", satellites: [brought] }] : [];
const worker = await openFleetWorker({
  ...options,
  satellites: { ...options.satellites, trusted },
  log: { level: "error", write: (lines) => void process.stderr.write(lines) },
});
process.stdin.resume().once("end", () => process.exit(1)); // the test was killed
process.once("SIGTERM", () => void worker.close().then(() => process.exit(0)));
process.stdout.write(`${JSON.stringify({ url: worker.url })}\n`);
