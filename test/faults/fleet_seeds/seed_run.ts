/**
 * One seed on a fleet: the load begins, faults happen and heal, everything must end, and the invariants are checked.
 */
import { createRandom } from "../../../src/testing/random.ts";
import { recoveries, sendProblems } from "./checks.ts";
import type { FaultFleet } from "./fault_fleet.ts";
import { FileLoad } from "./file_load.ts";
import { type Harm, Harms } from "./harms.ts";
import type { SeedPlan } from "./plan.ts";
import { ANSWER_USD } from "./provider.ts";
import { type Project, ServiceLoad } from "./service_load.ts";

export interface SeedReport {
  readonly seed: number;
  readonly tookMs: number;
  readonly lines: number;
  readonly posts: number;
  readonly executions: number;
  readonly sends: number;
  readonly doubled: number;
  readonly allowed: number;
  /** Partitions that were lost without a fault: the machine was too slow. */
  readonly lapses: number;
  /** The longest that was judged; 0 without one. */
  readonly recoveryMs: number;
  /** What happened when, a line each. */
  readonly trace: readonly string[];
  readonly problems: readonly string[];
}

export interface SeedTerms {
  readonly projects: readonly Project[];
  /** The next number of an item or a call, never used before. */
  readonly nextNumber: () => number;
  readonly recoveryMsMax: number;
  /** How long everything may take to end after the last fault has healed. */
  readonly endMsMax: number;
  /** What happens, as it happens. */
  readonly onEvent: (event: string) => void;
}

const SAMPLE_MS = 400;
/** After the last fault has healed. */
const RECOVERED_MS = 12_000;
const SHARDS = /\n?\{"key":"k(\d+)"[^\n]*\n/g;

export async function runSeed(fleet: FaultFleet, plan: SeedPlan, terms: SeedTerms): Promise<SeedReport> {
  const { seed, lines, sla, postSla, postEachMs, faults } = plan;
  const startedMs = performance.now();
  const onEvent = (event: string): void =>
    terms.onEvent(`${seconds(performance.now() - startedMs)} ${event}`);
  const problems: string[] = [];
  await fleet.settled().catch((error: Error) => problems.push(`before: ${error.message}`));
  const firstItem = terms.nextNumber();
  for (let line = 1; line < lines; line += 1) terms.nextNumber();
  const sendsBefore = fleet.provider.sends.length;
  const file = await FileLoad.begin(fleet, { seed, firstItem, lines, sla });
  const harms = new Harms(fleet, file, { onProblem: (problem) => problems.push(problem), onEvent });
  const load = new ServiceLoad(fleet, harms, {
    random: createRandom(seed),
    nextNumber: terms.nextNumber,
    sla: postSla,
  });
  const before = new Set((await Promise.all(terms.projects.map((project) => load.tasksOf(project)))).flat());
  const watch = new Watch(fleet, harms);
  const watching = watch.run();
  watching.catch(() => undefined); // the fleet was closed in the middle
  const loadMs = performance.now();
  onEvent("the load begins");
  const posting = load.post(terms.projects, postEachMs);
  const reading = load.read();
  await Promise.all(
    faults.map(async (fault) => {
      await new Promise((resolve) => setTimeout(resolve, fault.atMs));
      await harms.happen(fault);
    }),
  );
  const healedMs = performance.now();
  onEvent("all is healed");
  const isRecovered = (): boolean =>
    recoveries(harms.all, load.sent, watch.homes).every(({ tookMs }) => tookMs < Number.POSITIVE_INFINITY);
  await until(isRecovered, RECOVERED_MS);
  load.stop();
  await posting;
  onEvent("the load ends");
  if (!(await until(() => file.isOver && load.unended.length === 0, terms.endMsMax))) {
    if (!file.isOver)
      problems.push(
        `the file has not ended ${terms.endMsMax / 1_000} s after the last fault: ${file.failures.join("; ")}`,
      );
    const { unended } = load;
    if (unended.length > 0)
      problems.push(
        `${unended.length} posts and executions have not ended, such as ${JSON.stringify({ ...unended[0], project: "" })}`,
      );
    problems.push(await stuck(fleet));
  }
  load.close();
  await reading;
  watch.stop();
  await watching;
  harms.dropGivenBack();
  const sends = fleet.provider.sends.slice(sendsBefore);
  const committedMs = new Map(watch.committedMs);
  for (const { items, readMs } of load.sent)
    if (readMs !== undefined) for (const item of items) committedMs.set(item, readMs);
  const doubled = sendProblems(sends, harms.all, committedMs);
  const all = recoveries(harms.all, load.sent, watch.homes);
  const late = all.filter(({ isJudged, tookMs }) => isJudged && tookMs > terms.recoveryMsMax);
  problems.push(
    ...load.problems,
    ...doubled.problems,
    ...late.map(({ kind, tookMs }) => `recovery after ${kind} took ${Math.round(tookMs)} ms`),
    ...exits(fleet),
  );
  if (file.isOver) {
    problems.push(
      ...file.problems(),
      ...moneyProblems(
        file,
        sends
          .filter(({ item }) => item >= firstItem && item < firstItem + lines)
          .filter(({ status }) => status === 200).length,
      ),
    );
    problems.push(...(await load.listProblems(terms.projects, before)));
  }
  file.close();
  return {
    ...{ seed, tookMs: performance.now() - startedMs, lines, sends: sends.length },
    posts: load.sent.filter(({ call }) => call === undefined).length,
    executions: load.sent.filter(({ call }) => call !== undefined).length,
    ...{ doubled: doubled.count, allowed: doubled.allowed },
    lapses: harms.all.filter(({ fault }) => fault.kind === "lapse").length,
    recoveryMs: Math.max(0, ...all.filter(({ isJudged }) => isJudged).map(({ tookMs }) => tookMs)),
    trace: [
      ...harms.all.map(
        ({ fault, atMs, healedMs: endMs, process = "-", parts }) =>
          `${seconds(atMs - loadMs)} to ${seconds(endMs - loadMs)} s: ${described(fault)} (${process}, partitions ${parts.join()})`,
      ),
      ...watch.changes.map(({ atMs, owners }) => `${seconds(atMs - loadMs)} s: partitions are of ${owners}`),
      ...file.failures.map((failure) => `client ended with ${failure}`),
      ...all.map(
        ({ kind, tookMs, isJudged }) =>
          `recovery after ${kind}: ${Math.round(tookMs)} ms${isJudged ? "" : ", beside other faults"}`,
      ),
      `healed after ${seconds(healedMs - loadMs)} s, over after ${seconds(performance.now() - loadMs)} s`,
    ],
    problems,
  };
}

/** Reads, beside the work, who owns what and which lines of shards are committed. */
class Watch {
  readonly homes = new Map<string, number>();
  readonly committedMs = new Map<number, number>();
  /** Who owned which partition from when on. */
  readonly changes: { readonly atMs: number; readonly owners: string }[] = [];
  readonly #fleet: FaultFleet;
  readonly #harms: Harms;
  /** The last row that was read of each file. */
  readonly #read = new Map<string, number>();
  #isStopped = false;

  constructor(fleet: FaultFleet, harms: Harms) {
    this.#fleet = fleet;
    this.#harms = harms;
  }

  stop(): void {
    this.#isStopped = true;
  }

  async run(): Promise<void> {
    while (!this.#isStopped) {
      this.#noteOwners(await this.#fleet.owners());
      const homes = await this.#fleet.session.rows<{ readonly project: string; readonly part: number }>(
        "SELECT project, part FROM perigee_projects",
      );
      for (const { project, part } of homes) this.homes.set(project, part);
      await this.#lines();
      await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
    }
  }

  #noteOwners(owned: ReadonlyMap<number, string>): void {
    this.#harms.noteOwners(owned);
    const names = new Map(this.#fleet.workers.map(({ id, process }) => [id, process]));
    const owners = [...owned]
      .toSorted()
      .map(([part, owner]) => `${part} ${names.get(owner) ?? owner}`)
      .join(", ");
    if (owners !== this.changes.at(-1)?.owners) this.changes.push({ atMs: performance.now(), owners });
  }

  async #lines(): Promise<void> {
    const { query } = this.#fleet.session;
    const files = await query(
      "SELECT f.part, f.id, max(s.sequence) AS last FROM perigee_files f JOIN perigee_segments s ON s.part = f.part AND s.file = f.id WHERE f.path LIKE 'shards/%' GROUP BY 1, 2",
    );
    for (const { part, id, last } of files.rows as {
      readonly part: number;
      readonly id: number;
      readonly last: number;
    }[]) {
      const name = `${part}/${id}`;
      const after = this.#read.get(name) ?? -1;
      if (last <= after) continue;
      const { rows } = await query(
        "SELECT bytes FROM perigee_segments WHERE part = $1 AND file = $2 AND sequence > $3 AND bytes IS NOT NULL ORDER BY sequence",
        part,
        id,
        after,
      );
      const text = Buffer.concat(
        (rows as { readonly bytes: Uint8Array }[]).map(({ bytes }) => bytes),
      ).toString("latin1");
      const nowMs = performance.now();
      for (const [, item] of text.matchAll(SHARDS))
        if (!this.committedMs.has(Number(item))) this.committedMs.set(Number(item), nowMs);
      this.#read.set(name, last);
    }
  }
}

function moneyProblems({ summary, lines }: FileLoad, answered: number): readonly string[] {
  if (summary === undefined) return [];
  const { billed_usd: billed, ambiguous_usd: ambiguous } = summary.cost;
  const ledger = answered * ANSWER_USD;
  const isWithin = billed <= ledger + 1e-9 && ledger <= billed + ambiguous + 1e-9;
  return [
    ...(isWithin ? [] : [`the ledger has ${ledger} USD, the summary ${billed} and ${ambiguous} ambiguous`]),
    ...(summary.counts.completed === lines
      ? []
      : [`${summary.counts.completed} of ${lines} lines are counted as completed`]),
  ];
}

/** Workers that ended by themselves. */
function exits(fleet: FaultFleet): readonly string[] {
  return fleet.workers.flatMap((worker) =>
    fleet.isAlive(worker)
      ? []
      : [
          `${worker.name} ended by itself with ${worker.child.exitCode ?? worker.child.signalCode}: ${worker.stderr().slice(-500)}`,
        ],
  );
}

async function stuck(fleet: FaultFleet): Promise<string> {
  const partitions = await fleet.session.rows(
    "SELECT part, owner, epoch, lease_until > clock_timestamp() AS lives FROM perigee_partitions",
  );
  const shards = await fleet.session.rows("SELECT index, state, part, counts FROM perigee_shards");
  const activity = await fleet.session.rows(
    "SELECT state, wait_event, left(query, 60) AS query FROM pg_stat_activity WHERE application_name = 'perigee'",
  );
  const said = fleet.workers.map(({ name, stderr }) => `${name}: ${stderr().slice(-400)}`);
  return JSON.stringify({ partitions, shards, activity, said });
}

async function until(isSo: () => boolean, atMostMs: number): Promise<boolean> {
  const untilMs = performance.now() + atMostMs;
  while (!isSo() && performance.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, 100));
  return isSo();
}

function described(fault: Harm["fault"]): string {
  if (fault.kind === "lapse") return "lapse, without a fault";
  const { kind, atMs: _at, forMs: _for, ...rest } = fault;
  return `${kind} ${JSON.stringify(rest)}`;
}

const seconds = (ms: number): string => (ms / 1_000).toFixed(1);
