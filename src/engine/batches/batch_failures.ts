/**
 * What a request of a batch means that brought no whole answer.
 */
import type { BatchFailure } from "../../providers/batches/batch_wire.ts";
import type { LostAnswer } from "./batch_calls.ts";

/** It may have had its effect unless no byte of it, or not all of it, has left. */
export function lostFailure({ failure, message }: LostAnswer): BatchFailure {
  const hadNoEffect = failure === "not_sent" || failure === "source_failed";
  return { ok: false, is: hadNoEffect ? "refused" : "unknown", message, status: 0 };
}
