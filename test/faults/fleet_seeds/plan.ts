/**
 * What a seed draws: the fleet of its group of seeds, the load, and one to four faults.
 *
 * Times are milliseconds after the load has begun. `isShort` (in `npm test`) keeps every fault within 9 s.
 */
import { createRandom } from "../../../src/testing/random.ts";
import type { BucketMode } from "./bucket_server.ts";
import type { ProxyMode } from "./tcp_proxy.ts";

/** What the seeds of a group share: one PostgreSQL and one set of workers. */
export interface FleetPlan {
  readonly workers: number;
  readonly objects: "rows" | "folder" | "bucket";
  /** The default of the database for new transactions. */
  readonly isolation: "read committed" | "repeatable read" | "serializable";
}

interface OfWorker {
  readonly atMs: number;
  readonly forMs: number;
  /** Which worker, from 0. */
  readonly worker: number;
}

interface OfAll {
  readonly atMs: number;
  readonly forMs: number;
}

export type Fault =
  | ({ readonly kind: "kill" | "term" | "stop" | "twin" } & OfWorker)
  | ({ readonly kind: "database" | "private" | "apart"; readonly mode: ProxyMode } & OfWorker)
  | ({ readonly kind: "skew"; readonly skewMs: number } & OfWorker)
  | ({
      readonly kind: "restart" | "crash" | "backend" | "sessions" | "full" | "deadlocks" | "client";
    } & OfAll)
  | ({ readonly kind: "client_database"; readonly mode: ProxyMode } & OfAll)
  | ({ readonly kind: "bucket"; readonly mode: BucketMode } & OfAll);

export interface SeedPlan {
  readonly seed: number;
  /** Lines of the file. */
  readonly lines: number;
  /** Minutes, of the file. */
  readonly sla: number | undefined;
  /** Minutes, of every other post. */
  readonly postSla: number;
  /** Milliseconds between two posts of a project. */
  readonly postEachMs: number;
  readonly faults: readonly Fault[];
}

const PROXY_MODES: readonly ProxyMode[] = ["cut", "held", "held", "up_held", "down_held", "slow", "torn"];
const BUCKET_MODES: readonly BucketMode[] = ["fails", "slow", "lost", "stale"];
/** How often each kind is drawn. */
const KINDS: readonly Fault["kind"][] = [
  ...["kill", "kill", "kill", "stop", "stop", "stop", "term", "twin"],
  ...["database", "database", "database", "private", "apart", "skew"],
  ...["restart", "crash", "backend", "sessions", "full", "deadlocks", "deadlocks"],
  ...["client", "client_database", "bucket"],
] as Fault["kind"][]; // spread of literals
/** How far a clock is wrong, and an sla that is shorter; both longer where the machine may be slow. */
const SKEW_MINUTES = 10;
const SLA_MINUTES = 9;
const SHORT_FACTOR = 6;
/** Between faults that are not to overlap: a takeover has its time. */
const APART_MS = 14_000;

type Random = () => number;

export function fleetPlan(group: number): FleetPlan {
  const random = createRandom(group * 7_919 + 13);
  for (let round = 0; round < 4; round += 1) random();
  return {
    workers: pick(random, [2, 3, 4, 4]),
    objects: pick(random, ["rows", "folder", "bucket"] as const),
    isolation: pick(random, ["read committed", "read committed", "repeatable read", "serializable"] as const),
  };
}

export function seedPlan(seed: number, { workers, objects }: FleetPlan, isShort: boolean): SeedPlan {
  const random = createRandom(seed);
  for (let round = 0; round < 4; round += 1) random();
  const kinds = KINDS.filter((kind) => kind !== "bucket" || objects === "bucket");
  const count = isShort ? pick(random, [1, 1, 2]) : pick(random, [1, 1, 2, 3, 4]);
  const areApart = random() < 0.5;
  const faults: Fault[] = [];
  for (let atMs = 1_000 + 2_500 * random(), index = 0; index < count; index += 1) {
    const fault = draw(random, pick(random, kinds), { atMs: Math.round(atMs), workers, isShort });
    faults.push(fault);
    atMs += areApart && !isShort ? fault.forMs + APART_MS : 3_000 * random();
  }
  const isLarge = !isShort && random() < 0.3; // two shards or three
  const lines = Math.floor(isLarge ? 1_001 + 1_200 * random() : 100 + 500 * random());
  const postSla = SLA_MINUTES * (isShort ? SHORT_FACTOR : 1);
  const sla = random() < 0.5 ? postSla : undefined;
  return { seed, lines, sla, postSla, postEachMs: 1_000, faults };
}

interface DrawTerms {
  readonly atMs: number;
  readonly workers: number;
  readonly isShort: boolean;
}

function draw(random: Random, kind: Fault["kind"], { atMs, workers, isShort }: DrawTerms): Fault {
  const between = (fromMs: number, toMs: number): number => Math.round(fromMs + (toMs - fromMs) * random());
  const worker = Math.floor(random() * workers);
  const long = isShort ? between(500, 9_000) : between(500, 15_000);
  switch (kind) {
    case "kill":
    case "term":
    case "twin":
      return { kind, atMs, worker, forMs: between(500, 8_000) };
    case "stop":
      return {
        kind,
        atMs,
        worker,
        forMs: isShort ? between(5_000, 9_000) : between(5_000, random() < 0.2 ? 60_000 : 15_000),
      };
    case "database":
    case "private":
    case "apart":
      return { kind, atMs, worker, forMs: long, mode: pick(random, PROXY_MODES) };
    case "skew":
      return {
        kind,
        atMs,
        worker,
        forMs: long,
        skewMs: (random() < 0.5 ? 60_000 : -60_000) * SKEW_MINUTES * (isShort ? SHORT_FACTOR : 1),
      };
    case "client_database":
      return { kind, atMs, forMs: long, mode: pick(random, PROXY_MODES) };
    case "bucket":
      return { kind, atMs, forMs: long, mode: pick(random, BUCKET_MODES) };
    case "restart":
    case "crash":
      return { kind, atMs, forMs: between(0, isShort ? 3_000 : 10_000) };
    case "client":
    case "backend":
      return { kind, atMs, forMs: between(0, 2_000) };
    case "sessions":
    case "full":
    case "deadlocks":
      return { kind, atMs, forMs: isShort ? between(1_000, 6_000) : between(1_000, 12_000) };
  }
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T; // random() < 1
}
