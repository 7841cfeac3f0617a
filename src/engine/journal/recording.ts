/**
 * What makes outcomes durable, and who is notified of it.
 */
import type { PerigeeError } from "../../errors.ts";
import type { Listeners } from "../listeners.ts";
import type { EngineObserver } from "./observer.ts";
import type { Recorder } from "./recorder.ts";

/** One for an engine. */
export interface Recording {
  readonly recorder: Recorder;
  readonly observer: EngineObserver | undefined;
  /** Called when the engine cannot go on. */
  readonly failures: Listeners<[PerigeeError]>;
}
