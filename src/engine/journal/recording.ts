/**
 * What makes outcomes durable, and who is notified of it.
 */
import type { PerigeeError } from "../../errors.ts";
import type { Listeners } from "../listeners.ts";
import type { Committer } from "./committer.ts";
import type { EngineObserver } from "./observer.ts";

/** One for an engine. */
export interface Recording {
  readonly committer: Committer;
  readonly observer: EngineObserver | undefined;
  /** Called when the engine cannot go on. */
  readonly failures: Listeners<[PerigeeError]>;
}
