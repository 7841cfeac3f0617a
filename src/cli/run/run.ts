/**
 * `perigee run`: answers every line of a file, shows progress on stderr, and sums up.
 *
 * The first SIGINT, SIGTERM or SIGHUP stops admitting, lets what is in flight end (at most 30 s) and says how to continue;
 * the second one ends the process at once (nothing recorded is lost by that either).
 */
import { systemClock } from "../../clock.ts";
import type { ConfigOptions } from "../../engine/config/config.ts";
import { keyPlace } from "../../engine/config/key_places.ts";
import { type Engine, type EngineOptions, openEngine } from "../../engine/engine.ts";
import type { Summary } from "../../engine/items/progress.ts";
import type { RetryFailed } from "../../engine/reopening/reopen.ts";
import type { ProgressEvent } from "../../engine/runs/progress_feed.ts";
import type { Run } from "../../engine/runs/run.ts";
import type { ErrorGroup } from "../../engine/runs/run_errors.ts";
import type { EngineRunOptions } from "../../engine/runs/run_options.ts";
import { hasCode, PerigeeError } from "../../errors.ts";
import { type LineField, type LineFormat, layoutFault } from "../../work/line_layout.ts";
import { parseSlaMinutes } from "../../work/sla.ts";
import { commandLine, withoutOption } from "../command_line.ts";
import { AttemptCounts } from "../display/attempt_counts.ts";
import { holdsReport, leftText } from "../display/holds.ts";
import { ProgressDisplay } from "../display/progress.ts";
import { errorJson, printError } from "../exit.ts";
import { refuseSameFile, requireFile } from "../input.ts";
import { type ConfigArguments, configOf } from "../prices.ts";
import { onSignals } from "../signals.ts";
import type { TableArguments } from "../tables/table_arguments.ts";
import { isTableCall } from "../tables/table_options.ts";
import type { TableRun } from "../tables/table_run.ts";
import { isTransient } from "./advice.ts";
import { type CacheArguments, cacheOptions } from "./cache_options.ts";
import { continueLine, type Stopped } from "./continue.ts";
import { type LaneArguments, laneOptions } from "./lane_options.ts";
import { cancellingText, detachedText, stayText } from "./left_batches.ts";
import { DECLINED, inOptions, summaryInOptions } from "./library_words.ts";
import { pilotListener } from "./pilot.ts";
import { type SchemaArguments, schemaOptions } from "./schema_options.ts";
import { type StateArguments, stateFolder } from "./state_folder.ts";
import { exitCodeOfSummary, type Noun, summaryTable, warningText } from "./summary.ts";
import { finishTable, prepareTable } from "./table_steps.ts";
import { keptRowsText, keptText, updateText } from "./update_text.ts";

/** Options as commander parses them. */
interface RunArguments
  extends SchemaArguments,
    StateArguments,
    ConfigArguments,
    LaneArguments,
    CacheArguments,
    Omit<TableArguments, "model"> {
  readonly out: string;
  readonly data?: string;
  readonly sla?: number;
  readonly maxCost?: number;
  readonly maxCostUnbounded?: boolean;
  readonly cap?: { readonly name: string; readonly usd: number };
  readonly model?: string;
  readonly ordered?: boolean;
  readonly receipts?: string;
  readonly format?: LineFormat;
  readonly fields?: readonly string[];
  readonly retryFailed?: true | readonly string[];
  readonly update?: boolean;
  readonly prune?: boolean;
  readonly delivery?: "at_least_once" | "at_most_once";
  readonly hedge?: boolean;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly wait?: number;
  readonly finish?: boolean;
  readonly detach?: boolean;
  readonly cancel?: boolean;
  readonly pilot?: number;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function run(input: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as RunArguments; // commander's own shape, declared in main.ts
  const last: Last = {};
  try {
    return await runChecked(input, given, last);
  } catch (thrown) {
    const error = inOptions(last.table?.words(thrown) ?? thrown);
    const isFull = hasCode(error, "disk_full");
    if (given.json === true) process.stdout.write(`${errorJson(error, isFull ? "paused" : "failed")}\n`);
    if (!isFull) throw error;
    printError(error);
    process.stderr.write(toContinue(given, [{ reason: "disk_full" }], last));
    return 3;
  }
}

/** What is known of a run when it is over, also if it failed. */
interface Last {
  /** What joins the answers with a table. */
  table?: TableRun | undefined;
  /** Until its deadline; below 0 when that has passed. */
  deadlineInMs?: number | undefined;
  keyPlace?: Stopped["keyPlace"];
}

/** How to continue: what to change, and the command with that change and with `more` added. */
function toContinue(
  { cap, prices, sla }: RunArguments,
  held: Stopped["held"],
  { deadlineInMs, keyPlace }: Last,
  more: readonly string[] = [],
): string {
  const words = [...process.argv.slice(2), ...more];
  return continueLine({ words, held, cap: cap?.name, prices, sla, deadlineInMs, keyPlace });
}

async function runChecked(input: string, given: RunArguments, last: Last): Promise<number> {
  const sla = parseSlaMinutes(given.sla, "--sla");
  const terms = { ...termsOf(given, sla), ...(await schemaOptions(given)) };
  const options = await engineOptions(given);
  last.keyPlace = (provider) => keyPlaceIn(options, provider, given.config);
  refuseVainUpdate(input, given);
  await checkCancel(given);
  await requireFile(input);
  await refuseSameFile(input, given.out);
  const table = await openTableRun(input, given);
  last.table = table;
  if (given.dryRun === true) return (await import("./dry_run.ts")).dryRun(input, given);
  const counts = new AttemptCounts(() => systemClock.nowMs());
  const display = openDisplay(given, counts, last.keyPlace);
  const { engine, core } = await openFor(given, options, counts, display);
  const noun = nounOf(given);
  const steps = { table, display, room: core.storage.room, out: given.out };
  const asking = new AbortController();
  try {
    await prepareTable(steps);
    const work = engine.run(table?.requests ?? (input === "-" ? process.stdin : input), {
      ...outputOptions(table, given),
      ...terms,
      ...(given.pilot === undefined ? {} : { pilot: given.pilot }),
      onPilot: pilotListener(
        display,
        { input: process.stdin, output: process.stderr },
        { isSure: given.yes === true, signal: asking.signal },
      ),
      onProgress: cancelListener(display, engine, given.cancel === true),
      onWarning: (warning) => display.note(warningText(warning, noun)),
      onMissing: ({ line, message }) => display.note(`${noun} ${line} and others are held: ${message}`),
      progressEveryMs: display.everyMs,
    });
    if (given.cancel === true) void work.cancel();
    const recorded = work.opened.then(() => table?.opened());
    recorded.catch(() => undefined); // awaited below, if the run itself does not fail
    const ended = await watch(work, display).finally(() => {
      last.deadlineInMs = work.progress().deadlineInMs;
    });
    await recorded;
    const summary = await finishTable(steps, summaryInOptions(ended));
    const { keptLines = 0 } = await work.opened;
    const kept = table === undefined ? keptText(keptLines, given.update) : keptRowsText(keptLines);
    const updated = `${updateText(work.update)}${kept}`;
    report(summary, given, last, `${updated}${await errorText(await work.errors(), given)}`);
    return exitCodeOfSummary(summary);
  } finally {
    display.close();
    asking.abort();
    await engine.close();
  }
}

async function openFor(
  given: RunArguments,
  options: Awaited<ReturnType<typeof engineOptions>>,
  counts: AttemptCounts,
  display: ProgressDisplay,
): ReturnType<typeof openEngine> {
  try {
    return await openEngine(
      {
        ...options,
        observer: counts,
        ...(given.wait === undefined ? {} : { diskWaitMs: given.wait }),
        dataDir: dataDirOf(given),
        stateDir: stateFolder(given),
        onNotice: (message) => display.note(`perigee: ${message}`),
      },
      { readsLocalFiles: true },
    );
  } catch (error) {
    display.close();
    throw error;
  }
}

/** What the command's options say of a run, whatever its input. */
function termsOf(given: RunArguments, sla: number | undefined): EngineRunOptions {
  return {
    ...(sla === undefined ? {} : { sla }),
    ...(given.maxCost === undefined ? {} : { maxCostUsd: given.maxCost }),
    ...(given.cap === undefined ? {} : { cap: given.cap }),
    maxCostUnbounded: given.maxCostUnbounded === true,
    ...(given.model === undefined ? {} : { model: given.model }),
    ...(given.wait === undefined ? {} : { waitMs: given.wait }),
    ...{ finish: given.finish === true, detach: given.detach === true },
    ...laneOptions(given),
    ...cacheOptions(given),
    ...(given.receipts === undefined ? {} : { receipts: given.receipts }),
    ...(given.format === undefined ? {} : { format: given.format }),
    ...(given.fields === undefined ? {} : { fields: fieldsOf(given.fields, given.format) }),
    prune: given.prune === true,
    ...(given.retryFailed === undefined ? {} : { retryFailed: given.retryFailed as RetryFailed }), // checked by the engine
  };
}

/** Undefined without `--prompt`. */
async function openTableRun(input: string, given: RunArguments): Promise<TableRun | undefined> {
  if (!isTableCall(given)) return undefined;
  const { TableRun } = await import("../tables/table_run.ts"); // only for tables: a run of lines starts without it
  const table = await TableRun.open(input, given);
  for (const warning of table?.warnings ?? []) process.stderr.write(`${warning}\n`);
  return table;
}

/** Other rows of a table are an update. */
function outputOptions(
  table: TableRun | undefined,
  { out, ordered, update }: RunArguments,
): Pick<EngineRunOptions, "out" | "ordered" | "update"> {
  if (table === undefined) return { out, ordered: ordered === true, update: update === true };
  return { out: table.answers, update: update === true || table.isOtherChoice };
}

function dataDirOf({ data, out }: RunArguments): string {
  return data ?? `${out}.perigee`;
}

/** Shows at once that the command lives: to open a long run takes seconds. */
function openDisplay(
  given: RunArguments,
  counts: AttemptCounts,
  keyPlace: Last["keyPlace"],
): ProgressDisplay {
  const display = new ProgressDisplay(process.stderr, {
    clock: systemClock,
    env: process.env,
    counts,
    keyPlace,
    isQuiet: given.quiet === true,
  });
  display.open(dataDirOf(given));
  return display;
}

/** Draws progress; of a run that is cancelled it says once which batches are waited for. */
function cancelListener(
  display: ProgressDisplay,
  { batches }: Pick<Engine, "batches">,
  isCancelled: boolean,
): (event: ProgressEvent) => void {
  let isSaid = !isCancelled;
  return (event) => {
    const cancelling = isSaid ? [] : batches.list().filter(({ state }) => state === "cancelling");
    if (cancelling.length > 0) {
      isSaid = true;
      display.note(cancellingText(cancelling));
    }
    display.show(event);
  };
}

/** Throws `usage`. */
function fieldsOf(names: readonly string[], format: LineFormat | undefined): readonly LineField[] {
  const fields = names.length === 1 && names[0] === "none" ? [] : names;
  const fault = layoutFault({ format, fields });
  if (fault !== undefined) throw new PerigeeError("usage", `--${fault}`);
  return fields as readonly LineField[]; // checked
}

/** What would be ignored in silence. */
function refuseVainUpdate(input: string, { update, prune }: RunArguments): void {
  if (prune === true && update !== true)
    throw new PerigeeError("usage", "--prune works only with --update: add --update");
  if (update === true && input === "-")
    throw new PerigeeError(
      "usage",
      "--update cannot compare standard input with the previous input: write it to a file, and run that file with --update",
    );
}

/** There is something to cancel, and nothing that contradicts it. Throws `usage`, `not_found`. */
async function checkCancel({ cancel, detach, finish, out, data }: RunArguments): Promise<void> {
  if (detach === true && finish === true)
    throw new PerigeeError(
      "usage",
      "--detach leaves items to a later call, and --finish ends them: remove one of them",
    );
  if (cancel !== true) return;
  if (detach === true)
    throw new PerigeeError("usage", "--cancel ends what --detach leaves: remove one of them");
  const { readRun } = await import("./status.ts");
  await readRun(out, data, async () => undefined);
}

/** Where a provider's key was read from, with the file if it is one. */
function keyPlaceIn({ providers = {} }: ConfigOptions, provider: string, file: string | undefined): string {
  const settings = providers[provider];
  const key = settings !== undefined && "key" in settings ? settings.key : undefined;
  const place = keyPlace(provider, key, process.env);
  return key === undefined || file === undefined ? place : `${place} in ${file}`;
}

async function engineOptions(given: RunArguments): Promise<Omit<EngineOptions, "dataDir">> {
  return {
    ...(await configOf(given)),
    ...(given.delivery === undefined ? {} : { delivery: given.delivery }),
    ...(given.hedge === undefined ? {} : { hedge: given.hedge }),
  };
}

async function watch(work: Run, display: ProgressDisplay): Promise<Summary> {
  const unlisten = onSignals((signal) => {
    display.say(`perigee: ${signal}, finishing what is in flight (again to end at once)`);
    work.stop();
  });
  const forget = (): void => display.forget(); // a shell has written while it was stopped
  process.on("SIGCONT", forget);
  try {
    return await work.finished;
  } finally {
    process.off("SIGCONT", forget);
    unlisten();
  }
}

async function errorText(errors: readonly ErrorGroup[], given: RunArguments): Promise<string> {
  if (errors.length === 0) return "";
  const { errorLines, errorsCommand } = await import("./status.ts");
  return `${errorLines(errors, errorsCommand(given.out, given), nounOf(given))}${againText(errors)}`;
}

function nounOf({ prompt }: Pick<TableArguments, "prompt">): Noun {
  return prompt === undefined ? "line" : "row";
}

/** The command that runs those lines again that may be answered now. */
function againText(errors: readonly ErrorGroup[]): string {
  const codes = errors.map(({ code }) => code).filter(isTransient);
  if (codes.length === 0) return "";
  const words = withoutOption(process.argv.slice(2), "--retry-failed");
  return `to run those again that may be answered now: ${commandLine([...words, `--retry-failed=${codes.join(",")}`])}\n`;
}

/** `notes` are lines of text. */
function report(summary: Summary, given: RunArguments, last: Last, notes: string): void {
  const isQuiet = given.quiet === true;
  if (!isQuiet) process.stderr.write(summaryTable(summary, dataDirOf(given)));
  if (!isQuiet || exitCodeOfSummary(summary) !== 0) process.stderr.write(notes);
  if (summary.status === "detached" && isQuiet) {
    // nothing is wrong
  } else if (summary.status === "detached") {
    const words = process.argv.slice(2);
    process.stderr.write(detachedText(summary.batches ?? [], words, systemClock.wallMs()));
  } else if (summary.status !== "completed") {
    const left = leftText(summary.counts.submitted, summary.held);
    const holds = holdsReport(summary.held, systemClock.wallMs());
    const reasons = [...new Set(summary.held.map(({ reason }) => reason))].join(", ");
    const why = summary.status === "paused" ? `held (${reasons})` : summary.reason;
    const way = toContinue(given, summary.held, last, summary.reason === DECLINED ? ["--yes"] : []);
    process.stderr.write(`\n${holds}stopped with ${left}: ${why}\n${stayText(summary.batches)}${way}`);
  }
  if (given.json === true) process.stdout.write(`${JSON.stringify({ ...summary, ...readFiles(given) })}\n`);
}

/** The files that changed what the command did, besides its input. */
function readFiles({ config, envFile }: RunArguments): Record<string, string> {
  return {
    ...(config === undefined ? {} : { config_file: config }),
    ...(envFile === undefined ? {} : { env_file: envFile }),
  };
}
