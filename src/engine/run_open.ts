/**
 * Opening a run: the task is made or found again, its input is checked, its journal replayed.
 *
 *   new task:      input opened -> keys unique (whole file, before anything is sent) -> task stored -> open
 *   found again:   on other terms -> refused
 *                  finished and untouched -> its summary, nothing is sent (a stream is compared to its end)
 *                  otherwise -> same input? -> recovered -> open
 */
import { createHash, randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { PerigeeError } from "../errors.ts";
import { Budget } from "../price/budget.ts";
import { priceFactor, type RateCard, volumeTokensOf } from "../price/factor.ts";
import type { StoredTask } from "../store/store.ts";
import { WallAnchor } from "../work/sla.ts";
import { arrayCopyPath } from "./array_copy.ts";
import { costEstimator } from "./estimate.ts";
import { closeInput, isSameState, type OpenInput, openInput, type Source } from "./input.ts";
import type { CostTerms } from "./item_cost.ts";

import { type CheckedKeys, checkKeys } from "./key_check.ts";
import { OutputFile } from "./output.ts";
import type { EngineParts } from "./parts.ts";
import { PriceTable } from "./price_table.ts";
import type { ProgressOptions } from "./progress_feed.ts";
import { recover } from "./recover.ts";
import { askAgain, type FinishedRun } from "./run_again.ts";
import { RunState } from "./run_state.ts";
import { decodeBody, encodeBody, type TaskBody } from "./task_body.ts";
import { answersPath, ownOutputPath, spoolPath } from "./task_files.ts";
import type { StepListener } from "./task_log.ts";

/** Why no account lets a run go on: its keys alone, or money and quota. */
export type AccountStopReason = "authentication" | "quota";

/** Options of `engine.run`. */
export interface RunOptions extends ProgressOptions {
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
  /** Unix time from which the sla counts; default: when the run is first opened. */
  readonly acceptedWallMs?: number;
  /** Tokens that the price factor counts as the volume; default: a quarter of the input's bytes. */
  readonly volumeTokens?: number;
  /** What the price factors follow from; default: the engine's. */
  readonly rateCard?: RateCard;
  /** Runs every line on this model instead of its own. */
  readonly model?: string;
  /** Aborting stops the run as `stop()` does. */
  readonly signal?: AbortSignal;
  /**
   * Called, once for each pause, where the run would end as `paused`; with it the run goes on instead, until its sla:
   * with a probe a minute, and at full speed when one succeeds.
   */
  readonly onAccountStop?: (reason: AccountStopReason) => void;
  /** Whose work it is: projects share what a lane can do by their weights. Absent: that of all runs without a project. */
  readonly project?: string;
  /** Share of the project against others that wait, above 0; 1. Of its runs at work, the one opened last decides. */
  readonly weight?: number;
  /**
   * Asked of each line at the last moment before its request is recorded, and before a retry waits for its turn: when
   * true, the line ends as `cancelled` instead. Must be cheap; what is in flight is answered all the same.
   */
  readonly skip?: (line: number) => boolean;
  /** Told of every step that is durable, those of earlier calls first, with its number in the journal or 0. */
  readonly onStep?: StepListener;
}

/** A run ready to go, or one that was over before. */
export type OpenedRun =
  | FinishedRun
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

/** How a run is asked to end before it is open. */
export interface RunLeaving {
  /** Resolves when the run is left in any way. */
  readonly left: Promise<void>;
  /** Aborts when it is stopped: then nobody waits for a full disk. */
  readonly stopped: AbortSignal;
}

/** Throws `usage` for a weight that is none; `where` names the call. */
export function checkWeight({ weight }: Pick<RunOptions, "weight">, where: string): void {
  if (weight === undefined || (Number.isFinite(weight) && weight > 0)) return;
  throw new PerigeeError("usage", `${where}: weight must be a number above 0, got ${weight}`);
}

/** Throws whatever keeps the run from beginning; nothing was sent then. */
export async function openRun(
  parts: EngineParts,
  source: Source,
  options: RunOptions,
  leaving: RunLeaving,
): Promise<OpenedRun> {
  const name = nameOf(source, options);
  const claims: string[] = [];
  const claim = (what: string): void => {
    if (parts.atWork.has(what))
      throw new PerigeeError("conflict", `${what} is being worked on by another run`);
    parts.atWork.add(what);
    claims.push(what);
  };
  const release = (): void => {
    for (const what of claims) parts.atWork.delete(what);
  };
  try {
    claim(name);
    const opened = await open(parts, name, absolute(source), options, { ...leaving, claim });
    if (opened.kind === "finished") release();
    return opened.kind === "finished" ? opened : { ...opened, release };
  } catch (error) {
    release();
    throw error;
  }
}

type Opened = FinishedRun | Omit<Extract<OpenedRun, { kind: "open" }>, "release">;

interface Opening extends RunLeaving {
  /** Throws `conflict` when another run of this engine has what is named. */
  readonly claim: (what: string) => void;
}

async function open(
  parts: EngineParts,
  name: string,
  source: Source,
  options: RunOptions,
  opening: Opening,
): Promise<Opened> {
  const found = await parts.store.taskByName(name);
  const before = found === undefined ? undefined : decodeBody(found.body);
  if (before !== undefined) refuseOtherTerms(before, options);
  const task = found ?? { id: randomUUID(), name, createdWallMs: parts.clock.wallMs(), body: "" };
  if (before?.status === "completed") {
    const finished = await askAgain(parts, task, before, source, opening.left);
    if (finished !== undefined) return finished;
  }
  const home = { ...parts, signal: opening.stopped };
  const input = await openInput(home, source, spoolPath(parts, task.id));
  // The copy of a stream that a run began with holds what the journal knows of; any other can be made again.
  const isKnown = input.spool !== undefined && before !== undefined && before.input === undefined;
  let isOpen = false;
  try {
    const opened = await openWith(parts, { task, before, input }, options, opening);
    isOpen = opened.kind === "open";
    return opened;
  } finally {
    if (!isOpen) await closeInput(parts.disk, input, isKnown ? "keep" : "remove");
  }
}

interface Found {
  readonly task: StoredTask;
  /** As an earlier call left it. */
  readonly before: TaskBody | undefined;
  readonly input: OpenInput;
}

async function openWith(
  parts: EngineParts,
  { task, before, input }: Found,
  options: RunOptions,
  { claim, stopped }: Opening,
): Promise<Opened> {
  if (before?.input !== undefined) {
    if (input.identity === undefined)
      throw otherInput(`a stream is not what this run began with, which is ${before.input.name}`);
    if (!isSameState(before.input, input.identity))
      await parts.disk.remove(arrayCopyPath(spoolPath(parts, task.id), before.input));
  }
  const body = await checkedBody(parts, input, options, task, before);
  claim(body.out);
  const stored = { ...task, body: encodeBody(body) };
  const store = () => parts.room.waitFor(() => parts.store.putTask(stored), { signal: stopped });
  if (body.status === "completed" && body.summary !== undefined) {
    await store(); // touched, and the same: its new state is known from now on
    return { kind: "finished", taskId: task.id, body, summary: body.summary, isChecked: true };
  }
  const output = await openOutput(parts, task.id, body, before === undefined, stopped);
  try {
    await store();
    const state = await openState(parts, task.id, body, { input, output, options, stopped });
    return { kind: "open", task, body, input, output, state };
  } catch (error) {
    await output.close();
    throw error;
  }
}

/** Where answers are appended. A fresh task never writes over a file that is not its own. */
async function openOutput(
  parts: EngineParts,
  taskId: string,
  body: TaskBody,
  isFresh: boolean,
  signal: AbortSignal,
): Promise<OutputFile> {
  const path = answersPath(parts, taskId, body);
  if (isFresh) {
    const sizeBytes = (await parts.disk.stat(body.out))?.sizeBytes ?? 0;
    if (sizeBytes > 0) {
      throw new PerigeeError(
        "output_unwritable",
        `${body.out} already holds ${sizeBytes} bytes that this run did not write; move it away, or give the --data folder it belongs to`,
      );
    }
  }
  return parts.room.waitFor(() => OutputFile.open(parts.disk, path), { signal });
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
  const out = resolve(options.out ?? ownOutputPath(parts, task.id));
  return {
    version: 1,
    ...(input.identity === undefined ? {} : { input: input.identity }),
    ...checked,
    out,
    isOrdered: options.ordered === true,
    ...(options.sla === undefined ? {} : { slaMinutes: options.sla }),
    acceptedWallMs: before?.acceptedWallMs ?? options.acceptedWallMs ?? parts.clock.wallMs(),
    volumeTokens: before?.volumeTokens ?? options.volumeTokens ?? volumeTokensOf(input.identity?.sizeBytes),
    ...(options.model === undefined ? {} : { model: options.model }),
    ...(before?.isCancelled === true ? { isCancelled: true } : {}),
    status: "open",
  };
}

interface OpenParts {
  readonly input: OpenInput;
  readonly output: OutputFile;
  readonly options: RunOptions;
  readonly stopped: AbortSignal;
}

async function openState(
  parts: EngineParts,
  taskId: string,
  body: TaskBody,
  { input, output, options, stopped }: OpenParts,
): Promise<RunState> {
  const { clock, room, store } = parts;
  const { rateCard = parts.rateCard } = options;
  const { slaMinutes, volumeTokens, acceptedWallMs } = body;
  const factors = new Map<string, number>();
  const terms: CostTerms = {
    factorOf: (model) => {
      const known = factors.get(model) ?? priceFactor(model, slaMinutes, volumeTokens, rateCard);
      factors.set(model, known);
      return known;
    },
    prices: new PriceTable(),
  };
  const modelOverride = body.model === undefined ? {} : { modelOverride: body.model };
  const recovered = await recover({
    store: {
      journal: (id) => store.journal(id),
      append: (entries) => room.waitFor(() => store.append(entries), { signal: stopped }),
    },
    taskId,
    output,
    input: input.spool?.stored ?? input.file,
    moment: clock.moment(),
    prices: terms.prices,
    estimateCost: costEstimator(parts, terms, modelOverride),
    onStep: options.onStep,
  });
  if (input.spool !== undefined)
    input.spool.recordedLines = Math.max(recovered.done.highest, ...recovered.made.keys());
  const log = parts.recorder.open(taskId, output, options.onStep);
  terms.prices.whenAdded = (price) => log.price(price);
  for (const lines of recovered.held) log.restoreHeld(lines);
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
  const state = new RunState({
    taskId,
    input: input.file,
    measureOptions: {
      wantBodies: true,
      ...modelOverride,
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
    observer: parts.observer,
    project: options.project ?? "",
    weight: options.weight ?? 1,
    skip: options.skip,
    ...terms,
  });
  state.linesTotal = body.lines;
  return state;
}
