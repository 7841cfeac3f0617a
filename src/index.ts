/**
 * The library's face: hands names on, defines nothing.
 */
export { type Clock, systemClock } from "./clock.ts";
export { type Disk, systemDisk } from "./disk.ts";
export type { Transport, WireRequest, WireResult } from "./dispatch/transport.ts";
export { type ErrorCode, type FailureCode, PerigeeError } from "./errors.ts";
export type { ReaderEvent } from "./jsonl/block.ts";
export type { Provider, ProviderSettings } from "./providers/provider.ts";
export type { MeasuredBlock } from "./shard/measured.ts";
export type { Store } from "./store/store.ts";
export type { InlineItem, LineItem, OutputLine } from "./work/item.ts";
export type { LimitSettings } from "./work/limits.ts";
export type { Failure, Outcome, Output, Usage } from "./work/outcome.ts";
export { parseDurationMs, parseSlaMinutes, WallAnchor } from "./work/sla.ts";
export type { Task, TaskObject } from "./work/task.ts";
