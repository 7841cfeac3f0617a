/**
 * The engine as programs see it: what it returns is in camelCase (`work/camel_case.ts`), like what it takes. The wire, files and the command's
 * JSON keep the interface's names, and so do lines in the format of a provider.
 */

import { PerigeeError } from "../errors.ts";
import type { PlannedQuote } from "../price/planned_quote.ts";
import type { QuoteModel } from "../price/quote.ts";
import type { QuoteSla } from "../price/quote_sla.ts";
import type { UsedPrice } from "../price/used_prices.ts";
import { type CamelCase, camelCased } from "../work/camel_case.ts";
import type { Item, OutputLine, ResultLine } from "../work/item.ts";
import type { Failure } from "../work/outcome.ts";
import { isStandardSchema, issueText, type StandardSchema } from "../work/standard_schema.ts";
import type { Task, TaskObject } from "../work/task.ts";
import { checkCallOptions } from "./call_options.ts";
import { RUN_OPTIONS } from "./call_schemas.ts";
import { type Engine, type EngineOptions, openEngine } from "./engine.ts";
import type { Source } from "./files/input.ts";
import type { Hold } from "./items/holds.ts";
import type { Progress, Summary } from "./items/progress.ts";
import type { Plan, PlannedModel } from "./plans/plan.ts";
import type { PlanOptions } from "./plans/plan_source.ts";
import type { ProgressEvent } from "./runs/progress_feed.ts";
import type { QuoteOptions } from "./runs/quote.ts";
import type { Run } from "./runs/run.ts";
import type { ErrorGroup } from "./runs/run_errors.ts";
import type { RunOptions } from "./runs/run_options.ts";
import type { EngineBatches } from "./shown/batch_status.ts";
import type { RetryOptions, RetryTaskOptions } from "./submissions/retry.ts";
import type { SubmitOptions } from "./submissions/submissions.ts";
import type { SubmittedTask } from "./submissions/submitted_task.ts";

export type LibraryErrorGroup = CamelCase<ErrorGroup>;
export type LibraryFailure = CamelCase<Failure>;
export type LibraryHold = CamelCase<Hold>;
/** `Parsed`: what answers are that fit the schema of the run. */
export type LibraryLine<Parsed = unknown> = Fitting<CamelCase<ResultLine>, Parsed>;
/** `Parsed`: what answers are that fit the schema of the list. */
export type LibraryObject<Parsed = unknown> = Fitting<CamelCase<TaskObject>, Parsed>;
export type LibraryOutputLine = CamelCase<OutputLine>;
export type LibraryPlan = CamelCase<Plan>;
export type LibraryPlannedModel = CamelCase<PlannedModel>;
export type LibraryPrice = CamelCase<UsedPrice>;
export type LibraryProgress = CamelCase<Progress>;
export type LibraryProgressEvent = CamelCase<ProgressEvent>;
export type LibraryQuote = CamelCase<PlannedQuote>;
export type LibraryQuoteModel = CamelCase<QuoteModel>;
export type LibraryQuoteSla = CamelCase<QuoteSla>;
export type LibrarySummary = CamelCase<Summary>;
export type LibraryTask<Parsed = unknown> = Omit<CamelCase<Task>, "objects"> & {
  readonly objects: readonly LibraryObject<Parsed>[];
};

/** A completed one has what the schema makes of its answer, which need not be JSON. */
type Fitting<Answer, Parsed> = [unknown] extends [Parsed]
  ? Answer
  : Answer extends { readonly status: "completed" }
    ? Omit<Answer, "parsed"> & { readonly parsed: Parsed }
    : Answer;

/** Options whose listeners receive camelCase. */
type Told<Options> = Omit<Options, keyof Listeners> & {
  readonly [Name in keyof Options & keyof Listeners]?: Listeners[Name];
};

interface Listeners {
  readonly onPilot?: (rest: LibraryQuote) => boolean | undefined | Promise<boolean | undefined>;
  readonly onProgress?: (event: LibraryProgressEvent) => void;
}

export type LibraryRunOptions = Told<RunOptions>;
export type LibrarySubmitOptions = Told<SubmitOptions>;
export type LibraryRetryOptions = Told<RetryOptions>;
export type LibraryRetryTaskOptions = Told<RetryTaskOptions>;

/** A run: its lines by iteration, its end, and its state. */
export interface LibraryRun<Parsed = unknown>
  extends Pick<Run, "opened" | "stop" | "cancel" | "isStopping" | "isClaimed">,
    AsyncIterable<LibraryLine<Parsed>> {
  readonly finished: Promise<LibrarySummary>;
  /** What holds its items; empty while nothing does. */
  readonly holds: readonly LibraryHold[];
  progress(): LibraryProgress;
  errors(): Promise<readonly LibraryErrorGroup[]>;
}

/** What `submit` returns: a promise of the task, with its end and its objects as they become final. */
export interface LibrarySubmittedTask<Parsed = unknown>
  extends Promise<LibraryTask<Parsed>>,
    AsyncIterable<LibraryObject<Parsed>> {
  readonly finished: Promise<LibraryTask<Parsed>>;
}

/** Every method does what that of `Engine` does. */
export interface LibraryEngine extends Pick<Engine, "forget" | "trace" | "lanes" | "close"> {
  /** Open batches at providers. */
  readonly batches: EngineBatches;
  /** With a Standard Schema, such as one of zod, `parsed` of a completed line is what the schema makes of the answer. */
  run<Parsed>(
    source: Source,
    options: LibraryRunOptions & { readonly schema: StandardSchema<Parsed> },
  ): LibraryRun<Parsed>;
  run(source: Source, options?: LibraryRunOptions): LibraryRun;
  /** With a Standard Schema, such as one of zod, `parsed` of a completed object is what the schema makes of the answer. */
  submit<Parsed>(
    items: readonly Item[],
    options: LibrarySubmitOptions & { readonly schema: StandardSchema<Parsed> },
  ): LibrarySubmittedTask<Parsed>;
  submit(items: readonly Item[], options?: LibrarySubmitOptions): LibrarySubmittedTask;
  task(id: string): Promise<LibraryTask>;
  object(id: string): Promise<LibraryObject>;
  cancel(taskId: string): Promise<LibraryTask>;
  retry(taskId: string, options?: LibraryRetryOptions): Promise<LibraryRun>;
  retryTask(taskId: string, options?: LibraryRetryTaskOptions): Promise<LibraryTask>;
  quote(source: Source, options?: QuoteOptions): Promise<LibraryQuote>;
  plan(source: Source, options?: PlanOptions): Promise<LibraryPlan>;
  holds(): readonly LibraryHold[];
}

/** Opens the data folder and starts. Throws `invalid_config`, `data_dir_in_use`, `data_dir_newer`, `data_dir_older`, `store_damaged`. */
export async function createEngine(options: EngineOptions): Promise<LibraryEngine> {
  return libraryEngine((await openEngine(options, { readsLocalFiles: true })).engine);
}

/** An open engine as programs see it. */
export function libraryEngine(engine: Engine): LibraryEngine {
  return {
    run: ((source: Source, given?: LibraryRunOptions) => {
      if (given !== undefined) checkCallOptions(given, RUN_OPTIONS, "run");
      return shownRun(engine.run(source, told<RunOptions>(given)), given?.format, given?.schema);
    }) as LibraryEngine["run"], // the schema makes what its type says
    submit: ((items: readonly Item[], given?: LibrarySubmitOptions) =>
      shownTask(engine.submit(items, told<SubmitOptions>(given)), given?.schema)) as LibraryEngine["submit"], // as of `run`
    task: async (id) => camelCased(await engine.task(id)),
    object: async (id) => camelCased(await engine.object(id)),
    forget: (id) => engine.forget(id),
    cancel: async (id) => camelCased(await engine.cancel(id)),
    retry: async (id, given) => shownRun(await engine.retry(id, told<RetryOptions>(given))),
    retryTask: async (id, given) => camelCased(await engine.retryTask(id, told<RetryTaskOptions>(given))),
    quote: async (source, given) => camelCased(await engine.quote(source, given)),
    plan: async (source, given) => camelCased(await engine.plan(source, given)),
    holds: () => camelCased(engine.holds()),
    trace: (id, key) => engine.trace(id, key),
    lanes: () => engine.lanes(),
    batches: {
      list: () => engine.batches.list(),
      pollNow: (provider, batchId) => engine.batches.pollNow(provider, batchId),
    },
    close: () => engine.close(),
  };
}

/** The options as the engine takes them; what is not an object is passed on unchanged, to be refused there. */
function told<Options extends object>(options: Told<Options> | undefined): Options {
  if (typeof options !== "object" || options === null) return options as unknown as Options;
  const given: Listeners = options;
  const listeners: Record<string, unknown> = {};
  for (const name of ["onPilot", "onProgress"] as const) {
    const listener = given[name] as ((shown: unknown) => unknown) | undefined;
    if (typeof listener === "function") listeners[name] = (event: unknown) => listener(camelCased(event));
  }
  return { ...options, ...listeners } as unknown as Options; // the same members, but for the listeners
}

function shownRun(
  run: Run,
  format: RunOptions["format"] = "perigee",
  schema?: RunOptions["schema"],
): LibraryRun {
  const finished = run.finished.then((summary) => camelCased(summary));
  finished.catch(() => undefined); // it rejects for those who await it; nobody has to
  const shown: Omit<LibraryRun, "holds" | "isStopping"> = {
    opened: run.opened,
    finished,
    stop: (reason) => run.stop(reason),
    cancel: () => run.cancel(),
    isClaimed: (line) => run.isClaimed(line),
    progress: () => camelCased(run.progress()),
    errors: async () => camelCased(await run.errors()),
    [Symbol.asyncIterator]: () =>
      (format === "perigee" ? parsedEach(shownEach(run), schema) : asTheyAre(run))[Symbol.asyncIterator](),
  };
  return Object.defineProperties(shown, {
    holds: { get: () => camelCased(run.holds) },
    isStopping: { get: () => run.isStopping },
  }) as LibraryRun; // the two members were added above
}

/** Lines with what a Standard Schema makes of their answers. Throws `conflict` for an answer that fitted another schema only. */
async function* parsedEach(
  lines: AsyncIterable<CamelCase<ResultLine>>,
  schema: RunOptions["schema"],
): AsyncGenerator<CamelCase<ResultLine>> {
  for await (const line of lines) yield await withParsed(line, schema, `key ${JSON.stringify(line.key)}`);
}

async function* parsedObjects(
  objects: AsyncIterable<LibraryObject>,
  schema: SubmitOptions["schema"],
): AsyncGenerator<LibraryObject> {
  for await (const object of objects) yield await withParsed(object, schema, `object ${object.objectId}`);
}

async function parsedTask(task: LibraryTask, schema: SubmitOptions["schema"]): Promise<LibraryTask> {
  if (!isStandardSchema(schema)) return task;
  const objects: LibraryObject[] = [];
  for (const object of task.objects)
    objects.push(await withParsed(object, schema, `object ${object.objectId}`));
  return { ...task, objects };
}

/** `what` names the answer in the error. */
async function withParsed<Answer extends { readonly parsed?: unknown }>(
  answer: Answer,
  schema: RunOptions["schema"],
  what: string,
): Promise<Answer> {
  if (!isStandardSchema(schema) || answer.parsed === undefined) return answer;
  const result = await schema["~standard"].validate(answer.parsed);
  if (result.issues === undefined) return { ...answer, parsed: result.value };
  throw new PerigeeError(
    "conflict",
    `the answer of ${what} was checked against another schema and does not fit this one (${issueText(result.issues)}): use the schema of that call, or another output`,
  );
}

/** Lines in the format of a provider have its names. */
function asTheyAre(run: Run): AsyncIterable<LibraryLine> {
  return run as AsyncIterable<unknown> as AsyncIterable<LibraryLine>; // the type of a line is that of perigee's own format
}

async function* shownEach<T>(each: AsyncIterable<T>): AsyncGenerator<CamelCase<T>> {
  for await (const one of each) yield camelCased(one);
}

function shownTask(task: SubmittedTask, schema?: SubmitOptions["schema"]): LibrarySubmittedTask {
  const answered = task.then((found) => parsedTask(camelCased(found), schema));
  return Object.defineProperties(answered, {
    finished: {
      get: () => {
        const finished = task.finished.then((found) => parsedTask(camelCased(found), schema));
        finished.catch(() => undefined); // `answered` reports it, too
        answered.catch(() => undefined); // and the other way round: nobody has to read both
        return finished;
      },
    },
    [Symbol.asyncIterator]: {
      value: () => {
        answered.catch(() => undefined); // the reader gets it
        return parsedObjects(shownEach(task), schema);
      },
    },
  }) as LibrarySubmittedTask; // the two members were added above
}
