/**
 * Callers that disconnect before they have their answer.
 */
import { PerigeeError } from "../../errors.ts";
import type { FastifyReply } from "./fastify.ts";

/** Aborts with `interrupted` when the client disconnects before it has its answer. */
export function leaving({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  raw.once("close", () => {
    if (!raw.writableFinished) controller.abort(new PerigeeError("interrupted", "the client has left"));
  });
  return controller.signal;
}
