/**
 * `perigee run --store`: hands the lines of a file to a fleet, and writes its answers as they are done. The first signal leaves the run to
 * the fleet; the same command takes the answers later.
 */
import { systemClock } from "../../clock.ts";
import { keyVariable } from "../../engine/config/key_places.ts";
import type { Summary } from "../../engine/items/progress.ts";
import type { RunOptions } from "../../engine/runs/run_options.ts";
import { PerigeeError } from "../../errors.ts";
import { runOnFleet } from "../../fleet/fleet_run.ts";
import type { LineField, LineFormat } from "../../work/line_layout.ts";
import { layoutFault } from "../../work/line_layout.ts";
import { parseSlaMinutes } from "../../work/sla.ts";
import { AttemptCounts } from "../display/attempt_counts.ts";
import { holdsReport, leftText } from "../display/holds.ts";
import { ProgressDisplay } from "../display/progress.ts";
import { errorJson } from "../exit.ts";
import { refuseSameFile, requireFile } from "../input.ts";
import { onSignals } from "../signals.ts";
import { continueLine } from "./continue.ts";
import { type LaneArguments, laneOptions } from "./lane_options.ts";
import { type SchemaArguments, schemaOptions } from "./schema_options.ts";
import { exitCodeOfSummary, summaryTable } from "./summary.ts";

/** Options as commander parses them. */
interface FleetRunArguments extends LaneArguments, SchemaArguments {
  readonly store: string;
  readonly objects?: string;
  readonly out: string;
  readonly data?: string;
  readonly sla?: number;
  readonly maxCost?: number;
  readonly maxCostUnbounded?: boolean;
  readonly model?: string;
  readonly ordered?: boolean;
  readonly format?: LineFormat;
  readonly fields?: readonly string[];
  readonly wait?: number;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/** Options that a run over a fleet takes. */
const TAKEN: ReadonlySet<string> = new Set<keyof FleetRunArguments>([
  ...(["store", "objects", "out", "data", "sla", "maxCost", "maxCostUnbounded", "model"] as const),
  ...(["ordered", "format", "fields", "wait", "json", "quiet", "schema", "schemaTries"] as const),
  ...(["policy", "minOnTime", "allowLanes", "denyLanes"] as const),
]);

/** Returns the exit code; throws for what `exitCodeOf` knows. `isGiven`: whether the command line has an option; a configuration may be found instead. */
export async function fleetRun(
  input: string,
  options: Record<string, unknown>,
  isGiven: (name: string) => boolean,
): Promise<number> {
  const given = options as unknown as FleetRunArguments; // commander's own shape, declared in main.ts
  try {
    refuseLocal(Object.keys(options).filter((name) => isGiven(name) && options[name] !== false));
    return await checkedRun(input, given);
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function checkedRun(input: string, given: FleetRunArguments): Promise<number> {
  const terms = await termsOf(given);
  if (input === "-" || input.endsWith(".json"))
    throw new PerigeeError("usage", "a run over a fleet needs a file of JSON lines, which can be read twice");
  await requireFile(input);
  await refuseSameFile(input, given.out);
  const dataDir = given.data ?? `${given.out}.perigee`;
  const clock = systemClock;
  const counts = new AttemptCounts(() => clock.nowMs());
  const display = new ProgressDisplay(process.stderr, {
    ...{ clock, env: process.env, counts, isQuiet: given.quiet === true },
  });
  display.open(dataDir);
  const leaving = new AbortController();
  const unlisten = onSignals((signal) => {
    display.say(`perigee: ${signal}, the fleet works on (again to end at once)`);
    leaving.abort();
  });
  try {
    const summary = await runOnFleet({
      ...{ store: given.store, objects: given.objects, input, out: given.out, dataDir, terms },
      ...{ maxCostUsd: given.maxCost, clock, signal: leaving.signal },
      onProgress: (progress) => display.show({ type: "progress", progress }),
    });
    display.close();
    report(summary, given, dataDir);
    return exitCodeOfSummary(summary);
  } finally {
    unlisten();
    display.close();
  }
}

function report(summary: Summary, given: FleetRunArguments, dataDir: string): void {
  if (given.quiet !== true) process.stderr.write(summaryTable(summary, dataDir));
  if (summary.status !== "completed") {
    const left = leftText(summary.counts.submitted, summary.held);
    const why = summary.status === "paused" ? "held" : "the fleet works on";
    const words = process.argv.slice(2).map(withoutPassword);
    const toContinue = continueLine({ words, held: summary.held, keyPlace, isOnFleet: true });
    const unwritten =
      summary.status === "paused" && summary.reason !== undefined ? `${summary.reason}\n` : "";
    process.stderr.write(
      `\n${holdsReport(summary.held, systemClock.wallMs())}${unwritten}stopped with ${left}: ${why}\n${toContinue}`,
    );
  }
  if (given.json === true) process.stdout.write(`${JSON.stringify(summary)}\n`);
}

/** Where a key is set that does not work. */
function keyPlace(provider: string): string {
  return `${keyVariable(provider)} of the workers`;
}

/** A command that is shown may be kept, in the log of a job for example. */
function withoutPassword(word: string): string {
  return word.replace(/(postgres(?:ql)?:\/\/[^:@/]*):.*@/, "$1@");
}

/** Throws `usage` for what only a run on this machine does. */
function refuseLocal(names: readonly string[]): void {
  const found = names.find((name) => !TAKEN.has(name));
  if (found === undefined) return;
  const flag = `--${found.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  throw new PerigeeError("usage", `${flag} does not work with --store: leave one of them out`);
}

async function termsOf(given: FleetRunArguments): Promise<Omit<RunOptions, "signal" | "maxCostUsd">> {
  const sla = parseSlaMinutes(given.sla, "--sla");
  const { format, fields: names, model, wait } = given;
  const fields = names?.length === 1 && names[0] === "none" ? [] : names;
  const fault = layoutFault({ format, fields });
  if (fault !== undefined) throw new PerigeeError("usage", `--${fault}`);
  return {
    ...(sla === undefined ? {} : { sla }),
    ...(model === undefined ? {} : { model }),
    ...(format === undefined ? {} : { format }),
    ...(fields === undefined ? {} : { fields: fields as readonly LineField[] }), // checked
    ...(wait === undefined ? {} : { waitMs: wait }),
    ...(given.ordered === true ? { ordered: true } : {}),
    ...(given.maxCostUnbounded === true ? { maxCostUnbounded: true } : {}),
    ...laneOptions(given),
    ...(await schemaOptions(given)),
  };
}
