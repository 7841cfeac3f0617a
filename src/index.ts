/**
 * The library's face: hands names on, defines nothing.
 */
export { type Clock, type Moment, systemClock, type Timer } from "./clock.ts";
export { type Disk, type DiskFile, type FileStat, systemDisk } from "./disk.ts";
export type { Transport, WireFailure, WireRequest, WireResult } from "./dispatch/transport.ts";
export { type ConfigOptions, type ProviderOptions, readConfigFile } from "./engine/config.ts";
export { createEngine, type Engine, type EngineOptions } from "./engine/engine.ts";
export type { Hold, HoldReason } from "./engine/holds.ts";
export type { Source } from "./engine/input.ts";
export type { LaneStatus, LimitStatus } from "./engine/lane_status.ts";
export type { AttemptReport, EngineObserver, SettledReport } from "./engine/observer.ts";
export type { LaneProgress, Progress, Summary } from "./engine/progress.ts";
export type { ProgressEnd, ProgressEvent, ProgressOptions } from "./engine/progress_feed.ts";
export type { QuoteOptions } from "./engine/quote.ts";
export type { RetryFailed } from "./engine/reopen.ts";
export type { RetryOptions, RetryTaskOptions } from "./engine/retry.ts";
export type { Run } from "./engine/run.ts";
export type { ErrorGroup } from "./engine/run_errors.ts";
export type { RunOptions } from "./engine/run_open.ts";
export type { SubmitOptions } from "./engine/submissions.ts";
export type { SubmittedTask } from "./engine/submitted_task.ts";
export type { ItemTrace, TraceEvent } from "./engine/trace.ts";
export type { MissingListener, MissingProvider, RunWarning, WarningListener } from "./engine/warning_feed.ts";
export { type ErrorCode, type FailureCode, PerigeeError } from "./errors.ts";
export type { FactorRate, RateCard } from "./price/factor.ts";
export type { PriceOverride, PriceOverrides } from "./price/overrides.ts";
export type { PriceSheet, SheetPrice } from "./price/price_sheet.ts";
export type { Quote, QuoteModel, QuoteSla } from "./price/quote.ts";
export type { UsedPrice } from "./price/used_prices.ts";
export type { Measurer } from "./shard/pool.ts";
export type { JournalEntry, Store, StoredEntry, StoredTask } from "./store/store.ts";
export type { Item, LineItem, OutputLine, ResultLine } from "./work/item.ts";
export type { LimitSettings } from "./work/limits.ts";
export type { KnownModel, ModelName } from "./work/model_name.ts";
export type { AnswerMembers, Failure, FinishReason, Outcome, Output, Usage } from "./work/outcome.ts";
export type { ObjectStatus, Task, TaskCounts, TaskObject } from "./work/task.ts";
export type { Warning } from "./work/warning.ts";
