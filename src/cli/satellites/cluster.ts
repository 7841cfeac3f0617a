/**
 * `perigee cluster`: runs a declaration in this process and shows the state of its members, or only checks it.
 *
 *   run    id (of the declaration and its input) -> there already: continued or shown again | not there: submitted -> its end
 *   exit   0 completed · 3 a member did not complete · 2 no declaration, or a wrong one · 74 input or output · 130 interrupted
 *
 * The first SIGINT, SIGTERM or SIGHUP starts nothing more, lets attempts under way end (at most 30 s) and says how to continue; the
 * second one ends the process at once.
 */
import { readFile } from "node:fs/promises";
import { styleText } from "node:util";
import { systemClock } from "../../clock.ts";
import type { ClusterIssue, Clusters, ClusterView } from "../../clusters/cluster.ts";
import { ifFound, PerigeeError } from "../../errors.ts";
import { clusterAnswer } from "../../service/satellites/cluster_schema.ts";
import { derivedId } from "../../work/derived_id.ts";
import type { JsonObject } from "../../work/json.ts";
import { commandLine } from "../command_line.ts";
import { errorJson } from "../exit.ts";
import { requireFile } from "../input.ts";
import { jsonObject } from "../json_object.ts";
import { onSignals } from "../signals.ts";
import { ClusterDisplay, tally } from "./cluster_display.ts";
import { checkWithoutFolder, LOCAL, openClusterStack } from "./cluster_stack.ts";

const EXIT_WRONG = 2;
const EXIT_INCOMPLETE = 3;
const EXIT_INTERRUPTED = 130;
const LIVE_EVERY_MS = 250;
const GENERATIONS_MAX = 100_000;

/** Options as commander parses them. */
interface ClusterArguments {
  readonly data?: string;
  readonly config?: string;
  readonly input?: string;
  readonly new?: boolean;
  readonly json?: boolean;
}

interface Work {
  readonly file: string;
  readonly declaration: string;
  readonly input: JsonObject | undefined;
  readonly given: ClusterArguments;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function runCluster(file: string, options: Record<string, unknown>): Promise<number> {
  const given = options as ClusterArguments; // commander's own shape, declared in main.ts
  try {
    return await runChecked(await workOf(file, given));
  } catch (error) {
    const issues = issuesOf(error);
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    if (issues === undefined) throw error;
    process.stderr.write(issueLines(file, issues));
    return EXIT_WRONG;
  }
}

/** As `runCluster`; runs nothing. */
export async function checkCluster(file: string, options: Record<string, unknown>): Promise<number> {
  const given = options as ClusterArguments; // commander's own shape, declared in main.ts
  const { declaration, input } = await workOf(file, given);
  const issues =
    given.data === undefined
      ? await checkWithoutFolder(declaration, input)
      : await withStack(given, given.data, ({ clusters }) => clusters.check(LOCAL, declaration, input));
  const isValid = issues.every(({ severity }) => severity === "warning");
  if (given.json === true) process.stdout.write(`${JSON.stringify({ valid: isValid, issues })}\n`);
  else process.stdout.write(issueLines(file, issues));
  return isValid ? 0 : EXIT_WRONG;
}

async function workOf(file: string, given: ClusterArguments): Promise<Work> {
  await requireFile(file);
  const declaration = await textOf(file);
  const input = given.input === undefined ? undefined : await inputOf(given.input);
  return { file, declaration, input, given };
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file === "-" ? "/dev/stdin" : file, "utf8");
  } catch (cause) {
    throw new PerigeeError("input_unreadable", `${file} cannot be read`, { cause });
  }
}

/** An object of JSON, as it is or in a file. */
async function inputOf(given: string): Promise<JsonObject> {
  const text = /^\s*\{/.test(given) ? given : await textOf(given);
  return jsonObject(text, "--input must be an object of JSON, or a file that holds one");
}

async function withStack<T>(
  { config }: ClusterArguments,
  dataDir: string,
  use: (stack: Awaited<ReturnType<typeof openClusterStack>>) => Promise<T>,
): Promise<T> {
  const stack = await openClusterStack({ dataDir, config });
  try {
    return await use(stack);
  } finally {
    await stack.close();
  }
}

function runChecked(work: Work): Promise<number> {
  const { given } = work;
  return withStack(given, given.data ?? "./perigee-data", async ({ clusters, failed, drain }) => {
    const display = new ClusterDisplay(process.stderr, systemClock.wallMs());
    const { id, isOver } = await begun(clusters, work);
    const interruption = interrupted();
    try {
      const end = await Promise.race([
        watched(clusters, id, display, interruption.signal),
        failed.then((error) => Promise.reject(error)),
      ]);
      if (end.status === "pending") await drain();
      if (isOver) process.stderr.write("this run was over already; --new begins another\n");
      return report(end, given);
    } finally {
      interruption.stop();
    }
  });
}

interface Begun {
  readonly id: string;
  /** Before this process did anything. */
  readonly isOver: boolean;
}

/** The last run of this declaration and input, or a new one. */
async function begun(clusters: Clusters, { declaration, input, given }: Work): Promise<Begun> {
  const name = JSON.stringify([declaration, input ?? {}]);
  let last: ClusterView | undefined;
  for (let generation = 0; generation < GENERATIONS_MAX; generation += 1) {
    const id = derivedId(name.replaceAll("\0", ""), String(generation));
    const found = await ifFound(clusters.cluster(LOCAL.project, id));
    if (found !== undefined) {
      last = found;
      continue;
    }
    if (last !== undefined && given.new !== true) return { id: last.id, isOver: last.status !== "pending" };
    await clusters.submit(LOCAL, { id, declaration, ...(input === undefined ? {} : { input }) });
    return { id, isOver: false };
  }
  throw new PerigeeError("too_many", `this declaration was run ${GENERATIONS_MAX} times in this folder`);
}

/** Draws until the run is over, or the signal aborts. The timer also keeps the process alive. */
async function watched(
  clusters: Clusters,
  id: string,
  display: ClusterDisplay,
  signal: AbortSignal,
): Promise<ClusterView> {
  const over = new AbortController();
  const wake = AbortSignal.any([signal, over.signal]);
  let latest: ClusterView | undefined;
  const stop = clusters.onChanged((cluster) => {
    if (cluster.id !== id) return;
    latest = cluster;
    if (cluster.status !== "pending") over.abort();
  });
  try {
    latest ??= await clusters.cluster(LOCAL.project, id); // it may have ended before anybody listened
    while (latest.status === "pending" && !signal.aborted) {
      display.show(latest, systemClock.wallMs());
      await systemClock.sleep(LIVE_EVERY_MS, { signal: wake }).catch(() => undefined);
    }
  } finally {
    stop();
  }
  const last = await clusters.cluster(LOCAL.project, id);
  if (!signal.aborted) display.show(last, systemClock.wallMs(), true); // otherwise what the terminal echoed is in between
  return last;
}

interface Interruption {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal;
  stop(): void;
}

function interrupted(): Interruption {
  const controller = new AbortController();
  const stop = onSignals((name) => {
    process.stderr.write(`\nperigee: ${name}, finishing what is under way (again to end at once)\n`);
    controller.abort();
  });
  return { signal: controller.signal, stop };
}

/** Says how it ended, or how to continue; returns the exit code. */
function report(cluster: ClusterView, given: ClusterArguments): number {
  const stream = process.stderr;
  const { status, error, members } = cluster;
  const style = status === "completed" ? "green" : status === "pending" ? "yellow" : "red";
  const word = status === "pending" ? "stopped" : status;
  const why = error === null ? "" : `: ${error.message}`;
  stream.write(`${styleText(style, word, { stream })}${why} (${tally(members)})\n`);
  if (status === "pending") {
    const words = process.argv.slice(2).filter((one) => one !== "--new");
    stream.write(`to continue: ${styleText("bold", commandLine(words), { stream })}\n`);
  }
  if (given.json === true) process.stdout.write(`${JSON.stringify(clusterAnswer(cluster))}\n`);
  if (status === "pending") return EXIT_INTERRUPTED;
  return status === "completed" ? 0 : EXIT_INCOMPLETE;
}

/** Of a declaration that was refused. */
function issuesOf(error: unknown): readonly ClusterIssue[] | undefined {
  const issues = error instanceof PerigeeError ? error.details["issues"] : undefined;
  return Array.isArray(issues) ? (issues as readonly ClusterIssue[]) : undefined; // as `Clusters.submit` says
}

/** `FILE:line:column: path: message`, as editors read it; warnings are marked as such. */
function issueLines(file: string, issues: readonly ClusterIssue[]): string {
  const lines = issues.map(({ line = 1, column = 1, path, message, severity }) => {
    const word = severity === undefined ? "" : `${severity}: `;
    return `${file}:${line}:${column}: ${word}${path === "" ? "" : `${path}: `}${message}\n`;
  });
  return lines.join("");
}
