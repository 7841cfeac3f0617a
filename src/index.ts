/**
 * The library's face: hands names on, defines nothing.
 */
export { type Clock, type Moment, systemClock, type Timer } from "./clock.ts";
export { type Disk, type DiskFile, type FileStat, systemDisk } from "./disk.ts";
export {
  type RequestSource,
  type StreamRequest,
  type Transport,
  type WireChunks,
  WireError,
  type WireFailure,
  type WireRequest,
  type WireResult,
  type WireStream,
} from "./dispatch/transport.ts";
export { type ConfigOptions, type ProviderOptions, readConfigFile } from "./engine/config/config.ts";
export type { EngineOptions } from "./engine/engine.ts";
export type { Source } from "./engine/files/input.ts";
export type { TraceEvent } from "./engine/item_life.ts";
export type { HoldReason } from "./engine/items/holds.ts";
export type { LaneProgress } from "./engine/items/progress.ts";
export type { AttemptReport, EngineObserver, SettledReport } from "./engine/journal/observer.ts";
export type { LaneStatus, LimitStatus } from "./engine/lanes/lane_status.ts";
export {
  createEngine,
  type LibraryEngine as Engine,
  type LibraryErrorGroup as ErrorGroup,
  type LibraryFailure as Failure,
  type LibraryHold as Hold,
  type LibraryLine as ResultLine,
  type LibraryObject as TaskObject,
  type LibraryOutputLine as OutputLine,
  type LibraryPlan as Plan,
  type LibraryPlannedModel as PlannedModel,
  type LibraryPrice as UsedPrice,
  type LibraryProgress as Progress,
  type LibraryProgressEvent as ProgressEvent,
  type LibraryQuote as Quote,
  type LibraryQuoteModel as QuoteModel,
  type LibraryQuoteSla as QuoteSla,
  type LibraryRetryOptions as RetryOptions,
  type LibraryRetryTaskOptions as RetryTaskOptions,
  type LibraryRun as Run,
  type LibraryRunOptions as RunOptions,
  type LibrarySubmitOptions as SubmitOptions,
  type LibrarySubmittedTask as SubmittedTask,
  type LibrarySummary as Summary,
  type LibraryTask as Task,
} from "./engine/library.ts";
export type { PlanOptions } from "./engine/plans/plan_source.ts";
export type { RetryFailed } from "./engine/reopening/reopen.ts";
export type { ProgressEnd, ProgressOptions } from "./engine/runs/progress_feed.ts";
export type { QuoteOptions } from "./engine/runs/quote.ts";
export type {
  MissingListener,
  MissingProvider,
  RunWarning,
  WarningListener,
} from "./engine/runs/warning_feed.ts";
export type { AnswerSchema } from "./engine/schemas/run_schema.ts";
export type { BatchStatus } from "./engine/shown/batch_status.ts";
export type { ItemTrace } from "./engine/trace.ts";
export { type ErrorCode, type FailureCode, PerigeeError } from "./errors.ts";
export type { FactorRate, RateCard } from "./price/factor.ts";
export type { PriceOverride, PriceOverrides } from "./price/overrides.ts";
export type { PriceSheet, SheetPrice } from "./price/price_sheet.ts";
export type { Measurer } from "./shard/pool.ts";
export type { JournalEntry, Store, StoredEntry, StoredTask } from "./store/store.ts";
export {
  type CsvRow,
  fromCsv,
  fromParquet,
  type ParquetRow,
  type Template,
  template,
} from "./tables/library.ts";
export type { TableOptions } from "./tables/table.ts";
export type { EndpointItem, Item, LineItem } from "./work/item.ts";
export type { LimitSettings } from "./work/limits.ts";
export type { KnownModel, ModelName } from "./work/model_name.ts";
export type {
  AnswerMembers,
  Embedding,
  EmbeddingOutput,
  FinishReason,
  ModerationOutput,
  Outcome,
  Output,
  TextOutput,
  Usage,
} from "./work/outcome.ts";
export type { StandardSchema } from "./work/standard_schema.ts";
export type { ObjectStatus, TaskCounts } from "./work/task.ts";
export type { Warning } from "./work/warning.ts";
