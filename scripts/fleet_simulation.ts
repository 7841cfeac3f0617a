/**
 * What breaks first when a fleet grows: `npm run fleet:simulate [-- --workers 10,30,100,300]`, in virtual time, some minutes.
 *
 * 100 M items a day of 20 projects for 3 providers: at the average rate (1,157 a second) and at a peak of three times that, where the limits of the providers
 * (3,000 requests a second together) hold everything back. `test/fleet_simulation` says what is real and what is modelled.
 */
import { parseArgs } from "node:util";
import { type FleetFigures, simulateFleet } from "../test/fleet_simulation/simulate_fleet.ts";

const DAY_SECONDS = 86_400;

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "10,30,100,300" },
    "items-per-day": { type: "string", default: "100000000" },
    "peak-factor": { type: "string", default: "1,3" },
    "allowed-per-second": { type: "string", default: "3000" },
    seconds: { type: "string", default: "60" },
    "warm-up": { type: "string", default: "60" },
    cores: { type: "string", default: "8" },
    "round-trip-ms": { type: "string", default: "0.4" },
    "sync-ms": { type: "string", default: "1" },
    "caller-ms": { type: "string", default: "1" },
  },
});

for (const factor of values["peak-factor"].split(",").map(Number)) {
  const itemsPerSecond = (Number(values["items-per-day"]) / DAY_SECONDS) * factor;
  for (const workers of values.workers.split(",").map(Number)) {
    const startMs = performance.now();
    const figures = await simulateFleet({
      ...{
        seed: 1,
        workers,
        itemsPerSecond,
        postedShare: 0.2,
        projects: 20,
        runLines: 200_000,
        providers: 3,
      },
      ...{ allowedPerSecond: Number(values["allowed-per-second"]), answerMs: 3_000 },
      ...{ warmUpSeconds: Number(values["warm-up"]), seconds: Number(values.seconds) },
      server: {
        cores: Number(values.cores),
        roundTripMs: Number(values["round-trip-ms"]),
        callerMs: Number(values["caller-ms"]),
        syncMs: Number(values["sync-ms"]),
      },
    });
    const took = ((performance.now() - startMs) / 1_000).toFixed(0);
    console.log(`${workers} workers, ${itemsPerSecond.toFixed(0)} items/s arrive (simulated in ${took} s)`);
    print(figures);
  }
}

function print(figures: FleetFigures): void {
  const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
  const waits = ([half, most]: readonly [number, number]): string =>
    `${half.toFixed(1)}, ${most.toFixed(1)} ms`;
  const kinds = Object.entries(figures.cpuShares)
    .filter(([, share]) => share >= 0.001)
    .map(([kind, share]) => `${kind} ${percent(share)}`);
  const lines: readonly (readonly [string, string])[] = [
    [
      "answered a second; waiting at the end",
      `${figures.answeredPerSecond.toFixed(0)}; ${figures.waitingItems}`,
    ],
    ["requests sent, of those allowed", percent(figures.usedShare)],
    ["cores of the database", `${percent(figures.cpuShare)} (${kinds.join(", ")})`],
    ["log being synced", percent(figures.syncShare)],
    [
      "busiest row of a quota locked",
      `${percent(figures.quotaLockedShare)}; its state ${figures.stateBytes} bytes`,
    ],
    ["draws a second; p50, p99", `${figures.drawsPerSecond.toFixed(0)}; ${waits(figures.drawMs)}`],
    [
      "commits a second; records each; p50, p99",
      `${figures.commitsPerSecond.toFixed(0)}; ${figures.recordsPerCommit.toFixed(1)}; ${waits(figures.commitMs)}`,
    ],
    ["POST until durable p50, p99", waits(figures.postMs)],
    ["heartbeat late p50, most", waits(figures.beatLagMs)],
    ["sessions; lost leases", `${figures.sessions}; ${figures.lostLeases}`],
  ];
  for (const [name, figure] of lines) console.log(`  ${name.padEnd(42)} ${figure}`);
}
