/**
 * `perigee run`: answers every line of a file, shows progress on stderr, and sums up.
 *
 * The first SIGINT or SIGTERM stops admitting, lets what is in flight end (at most 30 s) and says how to continue;
 * the second one ends the process at once (nothing recorded is lost by that either).
 */
import { styleText } from "node:util";
import { readConfigFile } from "../engine/config.ts";
import { createEngine, type EngineOptions } from "../engine/engine.ts";
import type { Summary } from "../engine/progress.ts";
import type { Run } from "../engine/run.ts";
import { parseSlaMinutes } from "../work/sla.ts";
import { errorJson } from "./exit.ts";
import { requireFile } from "./input.ts";
import { count } from "./numbers.ts";
import { ProgressDisplay } from "./progress.ts";
import { summaryTable } from "./summary.ts";

/** Options as commander gives them. */
interface RunArguments {
  readonly out: string;
  readonly data?: string;
  readonly sla?: number;
  readonly config?: string;
  readonly maxCost?: number;
  readonly model?: string;
  readonly ordered?: boolean;
  readonly delivery?: "at_least_once" | "at_most_once";
  readonly json?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function run(input: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as RunArguments; // commander's own shape, declared in main.ts
  try {
    return await runChecked(input, given);
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

async function runChecked(input: string, given: RunArguments): Promise<number> {
  const sla = parseSlaMinutes(given.sla, "--sla");
  const options = await engineOptions(given);
  await requireFile(input);
  const engine = await createEngine({
    ...options,
    dataDir: given.data ?? `${given.out}.perigee`,
  });
  try {
    const display = new ProgressDisplay(process.stderr);
    const work = engine.run(input === "-" ? process.stdin : input, {
      out: given.out,
      ...(sla === undefined ? {} : { sla }),
      ...(given.maxCost === undefined ? {} : { maxCostUsd: given.maxCost }),
      ...(given.model === undefined ? {} : { model: given.model }),
      ordered: given.ordered === true,
      onProgress: (event) => display.show(event),
      progressEveryMs: display.everyMs,
    });
    const summary = await watch(work);
    report(summary, given);
    return exitCode(summary);
  } finally {
    await engine.close();
  }
}

async function engineOptions(given: RunArguments): Promise<Omit<EngineOptions, "dataDir">> {
  const file = given.config === undefined ? {} : await readConfigFile(given.config);
  return { ...file, ...(given.delivery === undefined ? {} : { delivery: given.delivery }) };
}

async function watch(work: Run): Promise<Summary> {
  const onSignal = (signal: NodeJS.Signals): void => {
    if (work.isStopping) process.exit(130);
    process.stderr.write(`\nperigee: ${signal}, finishing what is in flight (again to end at once)\n`);
    work.stop();
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    return await work.finished;
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

function report(summary: Summary, given: RunArguments): void {
  process.stderr.write(summaryTable(summary));
  if (summary.status !== "completed") {
    const again = styleText("bold", commandLine(process.argv.slice(2)), { stream: process.stderr });
    const left = count(summary.counts.submitted);
    process.stderr.write(
      `\nstopped with ${left} items left: ${reasonText(summary.reason)}\nto continue: ${again}\n`,
    );
  }
  if (given.json === true) process.stdout.write(`${JSON.stringify(summary)}\n`);
}

/** The command as it was given, to be copied into a POSIX shell. */
export function commandLine(words: readonly string[]): string {
  const quoted = words.map((word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`,
  );
  return ["perigee", ...quoted].join(" ");
}

/** Why a run stopped, in words. */
function reasonText(reason = ""): string {
  switch (reason) {
    case "authentication":
      return "the provider refuses the key (or there is none); set it, for example OPENAI_API_KEY";
    case "quota":
      return "the account has no money or quota left at the provider";
    default:
      return reason;
  }
}

function exitCode(summary: Summary): number {
  if (summary.status === "stopped") return 130;
  if (summary.status === "paused") return summary.reason === "authentication" ? 2 : 3;
  return summary.counts.completed === summary.items ? 0 : 3;
}
