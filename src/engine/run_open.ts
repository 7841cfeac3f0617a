/**
 * Opening a run: the task is made or found again, its input is checked, its journal replayed.
 *
 *   new task:      input opened -> keys unique (whole file, before anything is sent) -> task stored -> open
 *   found again:   on other terms -> refused
 *                  finished and untouched -> its summary, nothing is sent (a stream is compared to its end)
 *                  otherwise -> same input? -> recovered -> open
 */
import { createHash, randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import { PerigeeError } from "../errors.ts";
import { Budget } from "../price/budget.ts";
import { priceFactor, volumeTokensOf } from "../price/factor.ts";
import type { StoredTask } from "../store/store.ts";
import { WallAnchor } from "../work/sla.ts";
import { isSameState, type OpenInput, openInput, type Source } from "./input.ts";
import type { Step } from "./journal.ts";
import { type CheckedKeys, checkKeys } from "./key_check.ts";
import { OutputFile } from "./output.ts";
import type { EngineParts } from "./parts.ts";
import type { Summary } from "./progress.ts";
import { recover } from "./recover.ts";
import { RunState } from "./run_state.ts";
import { decodeBody, encodeBody, type TaskBody } from "./task_body.ts";

/** Why no account lets a run go on: its keys alone, or money and quota. */
export type AccountStopReason = "authentication" | "quota";

/** Options of `engine.run`. */
export interface RunOptions {
  /** Minutes, 1 to 43,200; absent: at once. */
  readonly sla?: number;
  /** Where the answers go; default: a file in the data folder. */
  readonly out?: string;
  /** Names the work, so that the same name continues it; default: the output's path, or fresh for iterables. */
  readonly id?: string;
  /** Answers in the order of the input. */
  readonly ordered?: boolean;
  /** Hard cap in USD on what providers may charge for this run. */
  readonly maxCostUsd?: number;
  /** Runs every line on this model instead of its own. */
  readonly model?: string;
  /** Aborting stops the run as `stop()` does. */
  readonly signal?: AbortSignal;
  /**
   * Called, once for each pause, where the run would end as `paused`; with it the run goes on instead, until its sla:
   * with a probe a minute, and at full speed when one succeeds.
   */
  readonly onAccountStop?: (reason: AccountStopReason) => void;
  /** Told of every step that is durable, those of earlier calls first, with its number in the journal or 0. */
  readonly onStep?: (sequence: number, step: Step) => void;
}

/** A run ready to go, or one that was over before. */
export type OpenedRun =
  | {
      readonly kind: "finished";
      readonly taskId: string;
      readonly body: TaskBody;
      readonly summary: Summary;
      /** False when the run was left before its stream was compared with what the run had answered. */
      readonly isChecked: boolean;
    }
  | {
      readonly kind: "open";
      readonly task: StoredTask;
      readonly body: TaskBody;
      readonly input: OpenInput;
      readonly output: OutputFile;
      readonly state: RunState;
      /** Lets another run have its name and output. Once, when all is closed. */
      readonly release: () => void;
    };

/** Throws whatever keeps the run from beginning; nothing was sent then. `left` resolves when the run is left. */
export async function openRun(
  parts: EngineParts,
  source: Source,
  options: RunOptions,
  left: Promise<void>,
): Promise<OpenedRun> {
  const name = nameOf(source, options);
  const claims: string[] = [];
  const claim = (what: string): void => {
    if (parts.atWork.has(what))
      throw new PerigeeError("conflict", `${what} is being worked on by another run`);
    parts.atWork.add(what);
    claims.push(what);
  };
  const held: Closable[] = [];
  const release = (): void => {
    for (const what of claims) parts.atWork.delete(what);
  };
  try {
    claim(name);
    const opened = await open(parts, name, source, options, { claim, left, held });
    if (opened.kind === "finished") release();
    return opened.kind === "finished" ? opened : { ...opened, release };
  } catch (error) {
    for (const each of held) await each.close().catch(() => undefined); // the run has its reason
    release();
    throw error;
  }
}

interface Closable {
  close(): Promise<void>;
}

interface Opening {
  /** Throws `conflict` when another run of this engine has what is named. */
  readonly claim: (what: string) => void;
  readonly left: Promise<void>;
  /** What was opened so far, to be closed when the run does not begin. */
  readonly held: Closable[];
}

async function open(
  parts: EngineParts,
  name: string,
  source: Source,
  options: RunOptions,
  { claim, left, held }: Opening,
): Promise<Exclude<OpenedRun, { kind: "open" }> | Omit<Extract<OpenedRun, { kind: "open" }>, "release">> {
  const found = await parts.store.taskByName(name);
  const before = found === undefined ? undefined : decodeBody(found.body);
  if (before !== undefined) refuseOtherTerms(before, options);
  const task = found ?? { id: randomUUID(), name, createdWallMs: parts.clock.wallMs(), body: "" };
  if (before?.status === "completed") {
    const finished = await asFinished(parts, task, before, source, left);
    if (finished !== undefined) return finished;
  }
  const input = await openInput(parts.disk, absolute(source), spoolPath(parts, task.id));
  held.push(input.file);
  if (input.spool !== undefined && before?.input !== undefined) {
    throw otherInput(`a stream is not what this run began with, which is ${before.input.name}`);
  }
  const body = await checkedBody(parts, input, options, task, before);
  claim(body.out);
  const output = await OutputFile.open(parts.disk, answersPath(parts, task.id, body));
  held.push(output);
  if (before === undefined) await refuseForeignOutput(parts, body, output);
  await parts.store.putTask({ ...task, body: encodeBody(body) });
  return {
    kind: "open",
    task,
    body,
    input,
    output,
    state: await openState(parts, task.id, body, input, output, options),
  };
}

/** Where answers are appended: the output itself, or a file beside the journal that is put in order at the end. */
export function answersPath(parts: Pick<EngineParts, "dataDir">, taskId: string, body: TaskBody): string {
  return body.isOrdered ? join(parts.dataDir, "tasks", `${taskId}.answers.jsonl`) : body.out;
}

/** Where a copy of an input is kept that cannot be read twice, or not as lines. */
function spoolPath(parts: Pick<EngineParts, "dataDir">, taskId: string): string {
  return join(parts.dataDir, "tasks", `${taskId}.input.jsonl`);
}

function otherInput(what: string): PerigeeError {
  return new PerigeeError("input_changed", `${what}; put it back, or start over with another --data`);
}

function nameOf(source: Source, options: RunOptions): string {
  if (options.id !== undefined) return `id:${options.id}`;
  if (options.out !== undefined) return `out:${resolve(options.out)}`;
  if (typeof source !== "string") return `once:${randomUUID()}`;
  return `in:${resolve(source)}:${createHash("sha256")
    .update(JSON.stringify([options.model, options.sla]))
    .digest("hex")
    .slice(0, 16)}`;
}

function absolute(source: Source): Source {
  return typeof source === "string" ? resolve(source) : source;
}

/** Undefined when the input was touched, so that it must be read again. */
async function asFinished(
  parts: EngineParts,
  task: StoredTask,
  body: TaskBody,
  source: Source,
  left: Promise<void>,
): Promise<OpenedRun | undefined> {
  if (body.summary === undefined) return undefined;
  const output = await parts.disk.stat(body.out);
  if (output?.sizeBytes !== body.outBytes) {
    throw new PerigeeError(
      "output_changed",
      `${body.out} is not what the finished run left (${output?.sizeBytes ?? "no"} bytes, expected ${body.outBytes}); put it back, or start over with another --data`,
    );
  }
  const now = typeof source === "string" ? await parts.disk.stat(resolve(source)) : undefined;
  const isFile = typeof source === "string" && now?.isSeekable !== false;
  const isSame =
    isFile &&
    body.input !== undefined &&
    now !== undefined &&
    isSameState(body.input, { name: resolve(source), ...now });
  if (isFile ? !isSame : body.input !== undefined) return undefined;
  const isChecked = isFile || (await isRepeated(parts, task.id, body, source, left));
  return { kind: "finished", taskId: task.id, body, summary: body.summary, isChecked };
}

/** Whether a stream is what the finished run was given; false when the run was left meanwhile. */
async function isRepeated(
  parts: EngineParts,
  taskId: string,
  body: TaskBody,
  source: Source,
  left: Promise<void>,
): Promise<boolean> {
  const { spool } = await openInput(parts.disk, absolute(source), spoolPath(parts, taskId));
  if (spool === undefined) return false;
  const matched = spool.match(body.lines !== undefined).then(() => true);
  try {
    return await Promise.race([matched, left.then(() => false)]);
  } finally {
    await spool.close();
  }
}

/** A run is continued on the terms it began with: what was answered so far would otherwise not fit the rest. */
function refuseOtherTerms(body: TaskBody, options: RunOptions): void {
  const terms = [
    ["sla", body.slaMinutes, options.sla],
    ["model", body.model, options.model],
    ["ordered", body.isOrdered, options.ordered === true],
  ] as const;
  for (const [name, before, now] of terms) {
    if (before === now) continue;
    const [began, asked] = [before, now].map((value) =>
      value === undefined ? "none" : JSON.stringify(value),
    );
    throw new PerigeeError(
      "conflict",
      `this run began with ${name} ${began}, now it is asked for ${asked}: give it again as it was, or start over with another --data`,
    );
  }
}

/** The task's terms, with the keys checked when this input has not been checked before. */
async function checkedBody(
  parts: EngineParts,
  input: OpenInput,
  options: RunOptions,
  task: StoredTask,
  before: TaskBody | undefined,
): Promise<TaskBody> {
  const isKnown =
    before?.input !== undefined && input.identity !== undefined && isSameState(before.input, input.identity);
  if (before !== undefined && (isKnown || input.identity === undefined)) return before;
  const checked: Partial<CheckedKeys> = input.identity === undefined ? {} : await checkKeys(parts, input);
  if (before !== undefined) {
    if (before.inputChecksum !== checked.inputChecksum) {
      throw otherInput(`${input.identity?.name} is not the file that this run began with`);
    }
    if (before.status === "completed")
      return { ...before, input: input.identity as NonNullable<typeof input.identity> };
  }
  const out = resolve(options.out ?? join(parts.dataDir, "tasks", `${task.id}.output.jsonl`));
  return {
    version: 1,
    ...(input.identity === undefined ? {} : { input: input.identity }),
    ...checked,
    out,
    isOrdered: options.ordered === true,
    ...(options.sla === undefined ? {} : { slaMinutes: options.sla }),
    acceptedWallMs: before?.acceptedWallMs ?? parts.clock.wallMs(),
    volumeTokens: before?.volumeTokens ?? volumeTokensOf(input.identity?.sizeBytes),
    ...(options.model === undefined ? {} : { model: options.model }),
    ...(before?.isCancelled === true ? { isCancelled: true } : {}),
    status: "open",
  };
}

/** A fresh task never writes over a file that is not its own. */
async function refuseForeignOutput(parts: EngineParts, body: TaskBody, output: OutputFile): Promise<void> {
  const size = body.isOrdered ? ((await parts.disk.stat(body.out))?.sizeBytes ?? 0) : output.end;
  if (size === 0) return;
  throw new PerigeeError(
    "output_unwritable",
    `${body.out} already holds ${size} bytes that this run did not write; move it away, or give the --data folder it belongs to`,
  );
}

async function openState(
  parts: EngineParts,
  taskId: string,
  body: TaskBody,
  input: OpenInput,
  output: OutputFile,
  options: RunOptions,
): Promise<RunState> {
  const { clock, rateCard } = parts;
  const recovered = await recover({
    store: parts.store,
    taskId,
    output,
    input: input.spool?.stored ?? input.file,
    moment: clock.moment(),
    onStep: options.onStep,
  });
  if (input.spool !== undefined)
    input.spool.recordedLines = Math.max(recovered.done.highest, ...recovered.made.keys());
  const log = parts.recorder.open(taskId, output, options.onStep);
  for (const lines of recovered.held) log.restoreHeld(lines);
  const { slaMinutes, volumeTokens, acceptedWallMs } = body;
  const deadlineMs =
    slaMinutes === undefined
      ? Number.POSITIVE_INFINITY
      : new WallAnchor(clock).monotonicMs(acceptedWallMs + slaMinutes * 60_000);
  const budget =
    options.maxCostUsd === undefined
      ? undefined
      : new Budget({ capUsd: options.maxCostUsd, spentUsd: recovered.committedUsd });
  log.committedUsd = () =>
    budget === undefined ? recovered.committedUsd : budget.spentUsd + budget.reservedUsd;
  const factors = new Map<string, number>();
  const state = new RunState({
    taskId,
    input: input.file,
    measureOptions: {
      wantBodies: true,
      ...(body.model === undefined ? {} : { modelOverride: body.model }),
      ...(options.maxCostUsd === undefined ? {} : { maxOutputTokensCap: parts.maxOutputTokensCap }),
    },
    log,
    totals: recovered.totals,
    done: recovered.done,
    made: recovered.made,
    deadlineMs,
    startedMs: clock.nowMs(),
    slaMinutes,
    budget,
    factorOf: (model) => {
      const known = factors.get(model) ?? priceFactor(model, slaMinutes, volumeTokens, rateCard);
      factors.set(model, known);
      return known;
    },
  });
  state.linesTotal = body.lines;
  return state;
}
