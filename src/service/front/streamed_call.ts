/**
 * A streamed call: the provider's stream is passed on, and its item is accounted as any other.
 *
 *   posted -> the first part: 200 and events -> the item's end is durable: its last events, or one with the error
 *          -> the item's end before any part: one answer in events (providers without streams), or a status and the error
 *   the client leaves: the provider's stream is cut, and what is not sent is cancelled; so it is when this process has ended
 *
 * Hot: 500 streams at once in 300 MiB, and a provider's first byte is passed on within 5 ms (bench/jobs/front.ts).
 */
import { AnswerTap } from "../../dispatch/answer_tap.ts";
import { refusedParam } from "../../errors.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Item } from "../../work/item.ts";
import type { ServiceContext } from "../context.ts";
import { CACHED_HEADER, cacheTtlOf } from "../http/cache_header.ts";
import { answerOf } from "../http/errors.ts";
import type { FastifyReply, FastifyRequest } from "../http/fastify.ts";
import { KEY_HEADER } from "../http/json_body.ts";
import { leaving } from "../http/leaving.ts";
import { callError } from "./call_errors.ts";
import { answeredOf } from "./calls.ts";
import { EventStream } from "./event_stream.ts";
import type { StreamShape } from "./stream_shape.ts";

type StreamContext = Pick<ServiceContext, "tasks" | "clock" | "cache" | "isStopping">;

/** A call to be streamed. */
export interface StreamedCall {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Of its task: a new UUID. */
  readonly id: string;
  readonly item: Item;
  /** Kept with its task. */
  readonly note?: string;
}

/** Answers with events. Throws what the caller is answered in place of them. */
export async function streamedCall(
  context: StreamContext,
  call: StreamedCall,
  shape: StreamShape,
): Promise<FastifyReply> {
  const { request, reply, id, item, note } = call;
  refuseKept(item, request);
  const { tasks, cache } = context;
  const cacheTtl = cacheTtlOf(request, cache);
  const { project } = request.caller;
  const events = new EventStream();
  const tap = new AnswerTap((chunk) => events.send(shape.part(chunk)));
  leaving(reply).addEventListener("abort", () => {
    tap.leave();
    tasks.cancel(project, id).catch(() => undefined); // it was not accepted yet: its tap says that nothing is sent
  });
  const ended = tasks
    .submit(project, {
      ...{ id, isNewId: true, items: [item], hasOutputFile: false, tap, cacheTtl, endsWithCaller: true },
      ...(note === undefined ? {} : { note }),
    })
    .catch((error: unknown) => Promise.reject(callError(error, item)));
  const whole = await Promise.race([events.begun.then(() => undefined), ended]);
  if (whole !== undefined && !tap.hasBegun) {
    const answer = await answeredOf(context, whole);
    if (answer.object.cached === true) reply.header(CACHED_HEADER, "true");
    events.end(shape.whole(answer));
  } else void finish(context, ended, { events, shape });
  request.audited = { id };
  return events.answer(reply.header("x-perigee-task-id", id));
}

/** Never rejects: what goes wrong after the first event is an event. */
async function finish(
  context: StreamContext,
  ended: Promise<TaskView>,
  { events, shape }: { readonly events: EventStream; readonly shape: StreamShape },
): Promise<void> {
  try {
    events.end(shape.ended(await answeredOf(context, await ended)));
  } catch (thrown) {
    events.end(shape.failed(answerOf(thrown).error));
  }
}

function refuseKept({ sla }: Item, { headers }: FastifyRequest): void {
  if (sla !== undefined)
    throw refusedParam("stream", "a call with an sla cannot stream; leave out one of them");
  if (headers[KEY_HEADER] !== undefined)
    throw refusedParam("Idempotency-Key", "a stream cannot be fetched again; leave out one of them");
}
