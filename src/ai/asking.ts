/**
 * Who answers calls: an engine in this process, or a service.
 */
import type { LibraryObject } from "../engine/library.ts";
import type { Item } from "../work/item.ts";
import { ModelCallError } from "./call_error.ts";
import type { CallNames } from "./call_names.ts";

/** An object that ended with an answer. */
export interface ObjectAnswer {
  readonly taskId: string;
  readonly object: LibraryObject;
}

/** Port. */
export interface Asks {
  /** Of the calls of this process to it. */
  readonly names: CallNames;
  /**
   * Asks once for each name, however often it is called, in this process or later ones. Rejects with the reason of the signal at
   * once when that aborts, and sends nothing more of it then; with a `ModelCallError` when it ends without an answer.
   */
  ask(item: Item, name: string, signal: AbortSignal | undefined): Promise<ObjectAnswer>;
}

/** Throws the error of an object without an answer. */
export function answerIn(taskId: string, object: LibraryObject | undefined): ObjectAnswer {
  if (object?.status === "completed") return { taskId, object };
  const error = object?.error;
  if (error === undefined || error === null)
    throw new ModelCallError(`task ${taskId} ended without an answer`, { code: "internal_error", taskId });
  const { code, message, providerStatus } = error;
  throw new ModelCallError(message, { code, statusCode: providerStatus, data: error, taskId });
}

/** Why a held object is not waited for; `message` is that of the hold, if it is known. */
export function heldError(taskId: string, { held }: LibraryObject, message?: string): ModelCallError {
  const whose = held?.provider === undefined ? "" : ` (provider "${held.provider}")`;
  const reason = held?.reason ?? "unknown";
  return new ModelCallError(message ?? `the call is held: ${reason}${whose}`, {
    code: held?.code ?? reason,
    statusCode: held?.providerStatus,
    data: held,
    taskId,
  });
}

/** Settles as the promise does, or rejects with the signal's reason when that aborts first, and calls `leave`. */
export async function untilAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  leave: () => void,
): Promise<T> {
  if (signal === undefined) return promise;
  let abort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => {
      leave();
      reject(signal.reason);
    };
  });
  promise.catch(() => undefined); // nobody may be left to hear of it
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
