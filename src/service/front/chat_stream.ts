/**
 * A streamed chat completion: the provider's stream is passed on, and its item is accounted as any other.
 *
 *   posted -> the first chunk: 200 and events -> the item's end is durable: [DONE], or an event with the error
 *          -> the item's end before any chunk: one answer as chunks (providers without streams), or a status and the error
 *   the client leaves: the provider's stream is cut, and what is not sent is cancelled
 *
 * Hot: 500 streams at once in 300 MiB, and a provider's first byte is passed on within 5 ms (bench/jobs/front.ts).
 */
import { AnswerTap } from "../../dispatch/answer_tap.ts";
import { PerigeeError } from "../../errors.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Item } from "../../work/item.ts";
import { newId } from "../../work/new_id.ts";
import type { ServiceContext } from "../context.ts";
import { CACHED_HEADER, cacheTtlOf } from "../http/cache_header.ts";
import { answerOf } from "../http/errors.ts";
import type { FastifyReply, FastifyRequest } from "../http/fastify.ts";
import { KEY_HEADER } from "../http/json_body.ts";
import { leaving } from "../http/leaving.ts";
import { callError } from "./call_errors.ts";
import { answeredOf } from "./calls.ts";
import { wholeChunks } from "./chat_answer.ts";
import { EventStream } from "./event_stream.ts";

type StreamContext = Pick<ServiceContext, "tasks" | "clock" | "cache">;

/** Answers with events. Throws what the caller is answered in place of them; `wantsUsage`: whether it asked for the usage. */
export async function streamedChat(
  context: StreamContext,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  item: Item,
  wantsUsage: boolean,
): Promise<FastifyReply> {
  refuseKept(item, request);
  const { tasks, cache } = context;
  const cacheTtl = cacheTtlOf(request, cache);
  const { project } = request.caller;
  const id = newId();
  const events = new EventStream();
  const tap = new AnswerTap(({ json, isUsage }) => (isUsage && !wantsUsage ? undefined : events.data(json)));
  leaving(reply).addEventListener("abort", () => {
    tap.leave();
    tasks.cancel(project, id).catch(() => undefined); // it was not accepted yet: its tap says that nothing is sent
  });
  const ended = tasks
    .submit(project, { id, items: [item], hasOutputFile: false, tap, cacheTtl })
    .catch((error: unknown) => Promise.reject(callError(error)));
  const whole = await Promise.race([events.begun.then(() => undefined), ended]);
  if (whole !== undefined && !tap.hasBegun) {
    const answer = await answeredOf(context, whole);
    if (answer.object.cached === true) reply.header(CACHED_HEADER, "true");
    for (const { json, isUsage } of wholeChunks(answer)) if (wantsUsage || !isUsage) void events.data(json);
    events.end(true);
  } else void finish(context, ended, events);
  request.audited = { id };
  return events.send(reply.header("x-perigee-task-id", id));
}

/** Never rejects: what goes wrong after the first event is an event. */
async function finish(context: StreamContext, ended: Promise<TaskView>, events: EventStream): Promise<void> {
  try {
    await answeredOf(context, await ended);
    events.end(true);
  } catch (thrown) {
    const { error } = answerOf(callError(thrown));
    void events.data(JSON.stringify({ error }));
    events.end(false);
  }
}

function refuseKept({ sla }: Item, { headers }: FastifyRequest): void {
  if (sla !== undefined) throw refused("stream", "a call with an sla cannot stream; leave out one of them");
  if (headers[KEY_HEADER] !== undefined)
    throw refused("Idempotency-Key", "a stream cannot be fetched again; leave out one of them");
}

function refused(param: string, message: string): PerigeeError {
  return new PerigeeError("usage", `${param}: ${message}`, { details: { param } });
}
