/**
 * A fleet of many workers in virtual time: what its database, its limits and its leases do under a load.
 *
 * Real: the heartbeat, placement, claims and ends of shards, the draws with the state of the quotas, the limits and queues of each engine. Modelled: the
 * database (`modelled_server.ts`, with the costs of `costs.ts`), the engine around limits and queues, callers, providers.
 */
import { shardLines } from "../../src/fleet/shards/shard_input.ts";
import { allowedIn } from "./modelled_engine.ts";
import { ModelledRows } from "./modelled_rows.ts";
import { ModelledServer, type ServerTerms } from "./modelled_server.ts";
import { ModelledWorker } from "./modelled_worker.ts";
import { Tallies } from "./tallies.ts";
import { VirtualTime } from "./virtual_time.ts";

export interface FleetTerms {
  readonly seed: number;
  readonly workers: number;
  /** Items that arrive a second. */
  readonly itemsPerSecond: number;
  /** The share of them that are posted one by one; the others are lines of files. */
  readonly postedShare: number;
  readonly projects: number;
  readonly runLines: number;
  readonly providers: number;
  /** Requests a second that all providers together allow. */
  readonly allowedPerSecond: number;
  readonly answerMs: number;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly server: Omit<ServerTerms, "sessionsMax">;
}

export interface FleetFigures {
  readonly answeredPerSecond: number;
  /** Requests sent, as a share of what the limits allow. */
  readonly usedShare: number;
  /** Of the cores of the database, in all and by kind of work. */
  readonly cpuShare: number;
  readonly cpuShares: Readonly<Record<string, number>>;
  /** The share of the time for which the log was being synced. */
  readonly syncShare: number;
  /** The share of the time for which the busiest row of a quota was locked. */
  readonly quotaLockedShare: number;
  readonly drawsPerSecond: number;
  readonly drawMs: readonly [half: number, most: number];
  readonly stateBytes: number;
  readonly commitsPerSecond: number;
  readonly recordsPerCommit: number;
  readonly commitMs: readonly [half: number, most: number];
  readonly postMs: readonly [half: number, most: number];
  readonly beatLagMs: readonly [half: number, most: number];
  readonly sessions: number;
  readonly lostLeases: number;
  readonly waitingItems: number;
  readonly events: number;
}

const CPU_KINDS = ["commits", "draws", "fleet reads", "heartbeats", "keys", "shards", "leases", "other"];
const SLA_MS = 2 * 3_600_000;
const POST_SLA_MS = 30 * 60_000;
const IN_FLIGHT_MAX = 4_096;
const START_MS = 5_000;

/** The bound of sessions that the guide states. */
function sessionsMax(workers: number): number {
  return 4 * workers + 20;
}

export async function simulateFleet(terms: FleetTerms): Promise<FleetFigures> {
  const time = new VirtualTime(terms.seed);
  const server = new ModelledServer(time, { ...terms.server, sessionsMax: sessionsMax(terms.workers) });
  const rows = new ModelledRows(server);
  const tallies = new Tallies();
  const engineTerms = {
    providers: Array.from({ length: terms.providers }, (_, index) => `provider-${index}`),
    requestsPerMinute: Math.round((terms.allowedPerSecond * 60) / terms.providers),
    inFlightMax: IN_FLIGHT_MAX,
    answerMs: terms.answerMs,
  };
  const workers = Array.from(
    { length: terms.workers },
    (_, number) =>
      new ModelledWorker(number, { ...engineTerms, rows, tallies, slaMs: SLA_MS, onNotice: () => undefined }),
  );
  for (const worker of workers) time.clock.timer(time.random() * START_MS, () => worker.start());
  addRuns(terms, time, rows);
  addPosts(terms, time, workers, tallies);
  await time.runUntil(terms.warmUpSeconds * 1_000);
  tallies.reset();
  const before = snapshotOf(server);
  await time.runUntil((terms.warmUpSeconds + terms.seconds) * 1_000);
  const after = snapshotOf(server);
  const ms = terms.seconds * 1_000;
  const coreMs = ms * terms.server.cores;
  const share = (name: string): number => ((after.cpu[name] ?? 0) - (before.cpu[name] ?? 0)) / coreMs;
  const waiting = workers.flatMap(({ engines }) => [...engines.values()].map((engine) => engine.waiting));
  return {
    answeredPerSecond: tallies.answered / terms.seconds,
    usedShare: tallies.requests / allowedIn(engineTerms, ms),
    cpuShare: share(""),
    cpuShares: Object.fromEntries(CPU_KINDS.map((kind) => [kind, share(kind)])),
    syncShare: ((after.syncs - before.syncs) * terms.server.syncMs) / ms,
    quotaLockedShare: (after.locked - before.locked) / ms,
    drawsPerSecond: tallies.drawMs.count / terms.seconds,
    drawMs: [tallies.drawMs.at(0.5), tallies.drawMs.at(0.99)],
    stateBytes: rows.largestState,
    commitsPerSecond: tallies.commits / terms.seconds,
    recordsPerCommit: tallies.committedRecords / Math.max(1, tallies.commits),
    commitMs: [tallies.commitMs.at(0.5), tallies.commitMs.at(0.99)],
    postMs: [tallies.postMs.at(0.5), tallies.postMs.at(0.99)],
    beatLagMs: [tallies.beatLagMs.at(0.5), tallies.beatLagMs.at(1)],
    sessions: server.sessions,
    lostLeases: rows.lostLeases,
    waitingItems: waiting.reduce((sum, count) => sum + count, 0),
    events: time.events,
  };
}

/** Files of lines, each cut into shards as `perigee run --store` does. */
function addRuns(
  { itemsPerSecond, postedShare, runLines, workers }: FleetTerms,
  time: VirtualTime,
  rows: ModelledRows,
): void {
  const everyMs = (runLines / (itemsPerSecond * (1 - postedShare))) * 1_000;
  const linesEach = shardLines(runLines, workers);
  const add = (number: number): void => {
    for (let from = 0, index = 0; from < runLines; from += linesEach, index += 1)
      rows.addShard(`run-${number}`, index, Math.min(linesEach, runLines - from));
    time.after(everyMs, () => add(number + 1));
  };
  add(0);
}

/** Posts of projects, each at home in one partition. */
function addPosts(
  { itemsPerSecond, postedShare, projects }: FleetTerms,
  time: VirtualTime,
  workers: readonly ModelledWorker[],
  tallies: Tallies,
): void {
  if (postedShare === 0) return;
  const everyMs = 1_000 / (itemsPerSecond * postedShare);
  const post = (number: number): void => {
    time.after(time.drawn(everyMs), () => post(number + 1));
    const home = workers[Math.floor(time.random() * projects) % workers.length];
    const [engine] = home?.engines.values() ?? [];
    const startedMs = time.nowMs;
    engine?.post(number, POST_SLA_MS, () => tallies.postMs.add(time.nowMs - startedMs));
  };
  post(0);
}

interface ServerSnapshot {
  readonly cpu: Readonly<Record<string, number>>;
  readonly locked: number;
  readonly syncs: number;
}

function snapshotOf({ cpu, locked, syncs }: ModelledServer): ServerSnapshot {
  const kinds = ["", ...CPU_KINDS].map((kind) => [kind, cpu.of(kind)]);
  return {
    cpu: Object.fromEntries(kinds) as Record<string, number>,
    locked: locked.busiest("quota "),
    syncs,
  };
}
