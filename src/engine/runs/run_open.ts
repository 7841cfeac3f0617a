/**
 * Opening a run: the task is made or found again, its input is checked, its journal replayed.
 *
 *   new task:      input opened -> keys unique (whole file, before anything is sent) -> task stored -> open
 *   found again:   in another order -> refused; another sla or model is that of what is open from now on
 *                  finished and untouched -> its summary, nothing is sent (a stream is compared to its end)
 *                  otherwise -> same input? -> recovered -> open
 */
import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { PerigeeError } from "../../errors.ts";
import type { StoredTask } from "../../store/store.ts";
import type { JsonObject } from "../../work/json.ts";
import { layoutFault, lineLayout } from "../../work/line_layout.ts";
import { overAtMs, parseSlaMinutes } from "../../work/sla.ts";
import { RunAnswers } from "../answers/run_answers.ts";
import { laneRules } from "../config/lane_rules.ts";
import type { EngineCore } from "../core.ts";
import { arrayCopyPath } from "../files/array_copy.ts";
import { checkedBody, checkPrune, isPrunable, isUpdatable } from "../files/checked_body.ts";
import { assertFits } from "../files/disk_space.ts";
import { closeInput, isSameState, isStream, type OpenInput, openInput, type Source } from "../files/input.ts";
import { keptCall } from "../files/kept_call.ts";
import type { CheckedKeys } from "../files/key_check.ts";
import { noteChanged } from "../files/output_check.ts";
import { runName } from "../files/run_name.ts";
import { costTerms, noteOtherTerms, onThisClock, refuseOtherLayout } from "../files/run_terms.ts";
import { checkCap } from "../files/shared_caps.ts";
import { deadlineOf, encodeBody, type TaskBody } from "../files/task_body.ts";
import { answersPath, spoolPath } from "../files/task_files.ts";
import { ItemStates } from "../items/item_states.ts";
import { type RunSettings, RunState } from "../items/run_state.ts";
import { SentStatements } from "../items/sent_as.ts";
import { OutputFile } from "../journal/output.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { writtenFile } from "../journal/written_file.ts";
import { mediaFolder } from "../media/media_files.ts";
import { checkReceiptsPlace } from "../receipts/run_receipts.ts";
import { findTask, mended } from "../reopening/found_task.ts";
import { recoverRun } from "../reopening/recover.ts";
import { checkRetryFailed, nothingToRetry, reopenFailed } from "../reopening/reopen.ts";
import { askAgain, checkFinished, type FinishedRun } from "../reopening/run_again.ts";
import { type UpdateCounts, updateRun } from "../reopening/update.ts";
import { checkSchemaOptions, type RunSchema, readRunSchema } from "../schemas/run_schema.ts";
import { checkPilot } from "./pilot_options.ts";
import { checkProgressOptions } from "./progress_feed.ts";
import { leaveBudget, measuredWith, openBudget } from "./run_budget.ts";
import { checkDetach, checkWeight, type EngineRunOptions } from "./run_options.ts";

export type { EngineRunOptions } from "./run_options.ts";

/** Ready to go, or over before. */
export type OpenedRun =
  | FinishedRun
  | {
      readonly kind: "open";
      readonly task: StoredTask;
      readonly body: TaskBody;
      readonly input: OpenInput;
      readonly output: OutputFile;
      readonly state: RunState;
      readonly answers: RunAnswers | undefined;
      /** The input replaces a lost one, whose checksum the body has. */
      readonly isStandIn: boolean;
      /** See `EngineRunOptions`. */
      readonly keepsDamage: boolean;
      /** An earlier call began it. */
      readonly isResumed: boolean;
      /** Lets another run have its name and output. Once, when all is closed. */
      readonly release: () => Promise<void>;
    };

/** How a caller ends a run before it is open, and what it learns of it. */
export interface RunLeaving {
  /** Resolves when the run is left in any way. */
  readonly left: Promise<void>;
  /** Aborts when it is stopped: then nobody waits for a full disk. */
  readonly stopped: AbortSignal;
  /** Receives what an update of this call makes of the lines. */
  readonly onUpdate: (counts: UpdateCounts) => void;
}

/** Throws `usage` for an option that cannot be; `where` names the call. */
export function checkRunOptions(options: EngineRunOptions, where: string): void {
  parseSlaMinutes(options.sla, where);
  checkProgressOptions(options, where);
  checkWeight(options, where);
  checkRetryFailed(options.retryFailed, where);
  checkPilot(options.pilot, where);
  checkCap(options.cap, where);
  checkPrune(options, where);
  checkDetach(options, where);
  checkSchemaOptions(options, where);
  const fault = layoutFault(options);
  if (fault !== undefined) throw new PerigeeError("usage", `${where}: ${fault}`);
}

/** Throws the error that keeps the run from beginning; nothing was sent then. */
export async function openRun(
  core: EngineCore,
  source: Source,
  options: EngineRunOptions,
  leaving: RunLeaving,
): Promise<OpenedRun> {
  const name = runName(source, options);
  const claims: string[] = [];
  const claim = (what: string): void => {
    if (core.atWork.has(what))
      throw new PerigeeError("conflict", `${what} is being worked on by another run`);
    core.atWork.add(what);
    claims.push(what);
  };
  const release = (): void => {
    for (const what of claims) core.atWork.delete(what);
  };
  try {
    claim(name);
    const schema = await readRunSchema(options);
    const opened = await open(core, name, absolute(source), options, { ...leaving, claim, schema });
    if (opened.kind === "finished") release();
    if (opened.kind === "finished") return opened;
    const answers = await RunAnswers.open(core, opened.state, options);
    const leave = async (): Promise<void> => {
      await answers?.close();
      await leaveBudget(core, opened.task.id, options, opened.state.settings.budget);
      release();
    };
    return { ...opened, answers, release: leave };
  } catch (error) {
    release();
    throw error;
  }
}

type Opened = FinishedRun | Omit<Extract<OpenedRun, { kind: "open" }>, "answers" | "release">;

interface Opening extends RunLeaving {
  readonly schema: RunSchema;
  /** Throws `conflict` when another run of this engine has what is named. */
  readonly claim: (what: string) => void;
}

async function open(
  core: EngineCore,
  name: string,
  source: Source,
  options: EngineRunOptions,
  opening: Opening,
): Promise<Opened> {
  if (options.update === true && (await isStream(core.storage.disk, source)))
    throw new PerigeeError(
      "usage",
      "the source is a stream, which cannot be compared with the one before: write it to a file, and call the run with the file and update",
    );
  const found = await findTask(core.storage, name, options);
  const before = found === undefined ? undefined : await mended(core, found, opening.stopped);
  if (before !== undefined) refuseOtherLayout(before, options);
  const task = found ?? { id: randomUUID(), name, createdWallMs: core.storage.clock.wallMs(), body: "" };
  if (before?.status === "completed") {
    if (options.keepsDamage !== true) await checkFinished(core.storage, task, before);
    const isAgain = options.retryFailed === undefined && !isPrunable(before, options);
    const finished = isAgain ? await askAgain(core.storage, task, before, source, opening.left) : undefined;
    if (finished !== undefined) {
      const { call = {}, ...body } = ofCall(before, options, opening.schema);
      if (JSON.stringify(call) !== JSON.stringify(before.call ?? {}))
        await store(core.storage, { ...task, body: encodeBody({ ...body, call }) }, opening.stopped);
      if (isUpdatable(options))
        noteOtherTerms(
          core.storage,
          before,
          { ...options, schema: opening.schema.json },
          before.summary?.counts.completed,
        );
      return finished;
    }
  }
  const home = { ...core.storage, signal: opening.stopped };
  const copyPath = spoolPath(core.storage, task.id);
  // The copy of a stream that a run began with holds what the journal knows of. Any other is made again: a power cut may have torn it.
  const isKnown = before?.status === "open" && before.input === undefined;
  if (before !== undefined && !isKnown) await core.storage.disk.remove(copyPath);
  const input = await openInput(home, source, copyPath);
  let isOpen = false;
  try {
    const opened = await openWith(core, { task, before, input }, options, opening);
    isOpen = opened.kind === "open";
    return opened;
  } finally {
    if (!isOpen)
      await closeInput(core.storage.disk, input, isKnown && input.spool !== undefined ? "keep" : "remove");
  }
}

interface Found {
  readonly task: StoredTask;
  /** As an earlier call left it. */
  readonly before: TaskBody | undefined;
  readonly input: OpenInput;
}

async function openWith(
  core: EngineCore,
  { task, before, input }: Found,
  options: EngineRunOptions,
  opening: Opening,
): Promise<Opened> {
  const { claim, stopped, schema } = opening;
  if (before?.input !== undefined) {
    if (input.identity === undefined)
      throw new PerigeeError(
        "input_changed",
        `this run began with the file ${before.input.name}, and its input is a stream now; use that file again, or another output`,
      );
    if (!isSameState(before.input, input.identity))
      await core.storage.disk.remove(arrayCopyPath(spoolPath(core.storage, task.id), before.input));
  }
  const { checked, body: termed } = await checkedBody(core, input, options, task, before);
  if (before === undefined) await assertFits(core.storage, termed);
  claim(termed.out);
  const others = [termed.out, before?.input?.name ?? input.identity?.name];
  await checkReceiptsPlace(core.storage.disk, options.receipts, { taskId: task.id, others });
  const continued =
    before === undefined
      ? termed
      : await changed(core, { task, before, input, checked }, termed, options, opening).catch(
          async (error: unknown) => {
            throw await noteChanged(core.storage, task, before, error);
          },
        );
  const body = ofCall(continued, options, schema);
  const storeBody = (now = body) => store(core.storage, { ...task, body: encodeBody(now) }, stopped);
  if (body.status === "completed" && body.summary !== undefined) {
    await storeBody(); // touched, and the same: its new state is known from now on
    return { kind: "finished", taskId: task.id, body, summary: body.summary, isChecked: true };
  }
  const output = await openOutput(core.storage, task.id, body, before === undefined, stopped);
  try {
    if (before === undefined && isUpdatable(options))
      await checked?.digests.save(
        core.storage.store,
        task.id,
        checked.inputChecksum,
        core.storage.clock.wallMs(),
      );
    await storeBody();
    const state = await openState(core, task.id, body, { input, output, options, stopped, before, schema });
    const { alsoIn, ...searched } = body; // recovery has read that file
    if (alsoIn !== undefined) await storeBody(searched);
    const isStandIn = options.standIn !== undefined;
    const keepsDamage = options.keepsDamage === true;
    const facts = { isStandIn, keepsDamage, isResumed: before !== undefined };
    return { kind: "open", task, body: searched, input, output, state, ...facts };
  } catch (error) {
    await output.close();
    throw await noteChanged(core.storage, task, body, error);
  }
}

/** The task after what this call changes of its lines: another input, errors that are opened again. */
async function changed(
  core: EngineCore,
  {
    task,
    before,
    input,
    checked,
  }: Found & { readonly before: TaskBody; readonly checked: CheckedKeys | undefined },
  termed: TaskBody,
  options: EngineRunOptions,
  { stopped: signal, onUpdate }: Opening,
): Promise<TaskBody> {
  const now = core.storage.clock.moment();
  const { retryFailed, rateCard = core.config.rateCard, accepted = now } = options;
  const left = { task, input, terms: costTerms(before, rateCard), model: before.model };
  let body = onThisClock(termed, now);
  if (options.update === true && checked !== undefined) {
    const update = { checked, isPruned: options.prune === true, accepted };
    const updated = await updateRun(core, { ...left, body }, update, signal);
    onUpdate(updated.counts);
    body = updated.body;
  }
  if (retryFailed === undefined) return body;
  const terms = costTerms(before, rateCard);
  const reopening = { retry: retryFailed, asked: options, now };
  const reopened = await reopenFailed(core, { ...left, terms, body }, reopening, signal);
  if (reopened === body && options.onHeld === undefined)
    core.storage.notice(nothingToRetry(body.out, retryFailed));
  return reopened;
}

/** The command line replaces these words (cli/run/library_words.ts). */
export const DATA_DIR_OF_OUTPUT = "open an engine on the data folder it belongs to";

/** Where answers are appended. A fresh task never writes over a file that is not its own. */
async function openOutput(
  storage: EngineStorage,
  taskId: string,
  body: TaskBody,
  isFresh: boolean,
  signal: AbortSignal,
): Promise<OutputFile> {
  const path = answersPath(storage, taskId, body);
  if (isFresh) {
    const { sizeBytes } = await writtenFile(storage.disk, body.out);
    if (sizeBytes > 0) {
      throw new PerigeeError(
        "output_unwritable",
        `${body.out} already holds ${sizeBytes} bytes that this run did not write; if they are answers of an earlier run, ${DATA_DIR_OF_OUTPUT}; otherwise use another output, or move it away`,
      );
    }
  }
  return storage.room.waitFor(() => OutputFile.open(storage.disk, path), { signal, path });
}

function store({ room, store }: EngineStorage, task: StoredTask, signal: AbortSignal): Promise<void> {
  return room.waitFor(() => store.putTask(task), { signal });
}

/** As it is stored for this call. */
function ofCall({ call: _, ...body }: TaskBody, options: EngineRunOptions, { json }: RunSchema): TaskBody {
  const { schema: _schema, ...others } = options;
  const call = keptCall(json === undefined ? others : { ...others, schema: JSON.parse(json) as JsonObject });
  return Object.keys(call).length === 0 ? body : { ...body, call };
}

function absolute(source: Source): Source {
  return typeof source === "string" ? resolve(source) : source;
}

interface OpenedFiles {
  readonly input: OpenInput;
  readonly output: OutputFile;
  readonly options: EngineRunOptions;
  readonly schema: RunSchema;
  readonly stopped: AbortSignal;
  /** As an earlier call left it. */
  readonly before: TaskBody | undefined;
}

async function openState(
  core: EngineCore,
  taskId: string,
  body: TaskBody,
  { input, output, options, schema, stopped, before = body }: OpenedFiles,
): Promise<RunState> {
  const { clock } = core.storage;
  const { rateCard = core.config.rateCard } = options;
  const terms = costTerms(body, rateCard);
  const { onStep, takenEarlier, keepsDamage } = options;
  const run = { taskId, body, input, terms, model: before.model, output, takenEarlier, keepsDamage, onStep };
  const recovered = await recoverRun(core, run, stopped);
  if (input.spool !== undefined)
    input.spool.recordedLines = Math.max(recovered.done.highest, ...recovered.made.keys());
  const log = core.recording.committer.open(taskId, output, onStep);
  terms.prices.whenAdded = (price) => log.price(price);
  const deadlineWallMs = deadlineOf(onThisClock(body, clock.moment())); // it may have jumped since it was accepted
  const deadlineMs = deadlineWallMs === null ? Number.POSITIVE_INFINITY : overAtMs(clock, deadlineWallMs);
  const budget = await openBudget(core, taskId, options, recovered.taken);
  log.committedUsd = () => budget.committedUsd;
  const layout = lineLayout(options);
  const asked = { ...options, schema: schema.json };
  if (isUpdatable(options)) noteOtherTerms(core.storage, before, asked, recovered.totals.completed);
  const settings: RunSettings = {
    taskId,
    input: input.file,
    measurer: core.measurer,
    layout,
    namesLines: true,
    takenEarlier,
    keepsBody: layout.hasBody,
    mediaFolder: mediaFolder(core.storage, input.identity?.name),
    canReadAgain: input.identity !== undefined,
    measureOptions: measuredWith(core.config.aliases, body.model, asked, budget),
    fit: schema.fit,
    log,
    totals: recovered.totals,
    deadlineMs,
    startedMs: clock.nowMs(),
    slaMinutes: body.slaMinutes,
    unrecordedUsd: recovered.unrecordedUsd,
    budget,
    allowsUnbounded: options.maxCostUnbounded === true,
    isHedged: options.hedge ?? core.config.isHedged,
    ...laneRules(core.config.lanes, options),
    observer: core.recording.observer,
    sent: new SentStatements({ clock, deadlineMs, deadlineWallMs }),
    ...{ project: options.project ?? "", weight: options.weight ?? 1, skip: options.skip },
    ...terms,
  };
  const state = new RunState(settings, new ItemStates(recovered.done, recovered.made));
  state.quoted = body.quoted;
  log.onFull = (error) => state.fail(error);
  for (const lines of recovered.held) log.restoreHeld(lines); // from now on it is written
  if (body.lines !== undefined) state.linesTotal = body.lines + (body.keptLines ?? 0);
  return state;
}
