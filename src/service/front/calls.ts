/**
 * One call of the front: an item that is posted as any other, and waited for.
 *
 *   without sla   posted -> answered, or cancelled because something holds it; a client that leaves cancels it
 *                        -> cancelled before it was sent, because this process stops: the client repeats it
 *                        -> cancelled after ten minutes: the client may repeat it, and pay twice
 *   with sla      posted (durable) -> waited for until the time of the call is over -> fetched by a later call
 *
 * A call with an `Idempotency-Key` is not cancelled by its client's leaving: the same call returns its answer. One with neither ends with
 * this process, too: the next one does not send it again.
 *
 * Limit: a call waits 590 s at most, which is what OpenAI's clients allow, or as their `x-stainless-timeout` says.
 */
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Item } from "../../work/item.ts";
import { newId } from "../../work/new_id.ts";
import type { TaskObject } from "../../work/task.ts";
import type { ServiceContext } from "../context.ts";
import { CACHED_HEADER, cacheTtlOf } from "../http/cache_header.ts";
import type { FastifyReply, FastifyRequest } from "../http/fastify.ts";
import { KEY_HEADER } from "../http/json_body.ts";
import { onceFor } from "../http/keyed_request.ts";
import { leaving } from "../http/leaving.ts";
import { callError, cancelledCall, failedCall, heldCall, lateCall, unsentCall } from "./call_errors.ts";
import type { FinalTasks } from "./final_tasks.ts";

const WAIT_SECONDS_MAX = 590;
/** Of a client's time-out, for the way back. */
const WAY_SECONDS = 2;

/** An object that was answered. */
export type AnsweredObject = Extract<TaskObject, { readonly status: "completed" }>;

/** What a call got. */
export interface CallAnswer {
  readonly task: TaskView;
  readonly object: AnsweredObject;
}

type CallContext = Pick<ServiceContext, "tasks" | "idempotency" | "clock" | "cache" | "isStopping">;

/** One for a service. */
export class FrontCalls {
  readonly #context: CallContext;
  readonly #finals: FinalTasks;

  constructor(context: CallContext, finals: FinalTasks) {
    this.#context = context;
    this.#finals = finals;
  }

  /** Posts the item and waits; `note` is kept with its task. Throws what the caller is answered in place of an answer. */
  async answer(request: FastifyRequest, reply: FastifyReply, item: Item, note?: string): Promise<CallAnswer> {
    const { project } = request.caller;
    const hasKey = request.headers[KEY_HEADER] !== undefined;
    const signal = leaving(reply);
    const task = await this.#posted(request, reply, { item, note }, signal);
    const isWaitedFor = item.sla !== undefined || reply.hasHeader("idempotent-replayed");
    const isOpen = task.status === "submitted";
    const seen =
      isOpen && isWaitedFor ? await this.#finals.until(project, task.id, waitMs(request), signal) : task;
    if (seen.status === "submitted" && (item.sla !== undefined || hasKey)) throw lateCall(hasKey);
    const answer = await answeredOf(this.#context, seen);
    reply.header("x-perigee-cost-usd", String(answer.object.cost?.billed_usd ?? 0));
    if (answer.object.cached === true) reply.header(CACHED_HEADER, "true");
    return answer;
  }

  /** Posts an item with an sla, which is not waited for. Throws as `answer`. */
  begin(request: FastifyRequest, reply: FastifyReply, item: Item, note: string): Promise<TaskView> {
    return this.#posted(request, reply, { item, note }, leaving(reply));
  }

  async #posted(
    request: FastifyRequest,
    reply: FastifyReply,
    { item, note }: { readonly item: Item; readonly note?: string | undefined },
    signal: AbortSignal,
  ): Promise<TaskView> {
    const { tasks, idempotency, cache } = this.#context;
    const { project } = request.caller;
    const hasKey = request.headers[KEY_HEADER] !== undefined;
    const cacheTtl = cacheTtlOf(request, cache);
    try {
      const task = await onceFor(
        idempotency,
        { request, reply },
        {
          about: [item.sla === undefined ? "" : String(item.sla)],
          make: async (given) => {
            const id = given ?? newId();
            const isQuick = item.sla !== undefined;
            const endsWithCaller = !isQuick && !hasKey;
            try {
              return await tasks.submit(project, {
                ...{ id, isNewId: true, items: [item], hasOutputFile: false, cacheTtl },
                ...(isQuick ? {} : { signal, endsWithCaller }),
                ...(note === undefined ? {} : { note }),
              });
            } catch (error) {
              if (signal.aborted && !hasKey) await tasks.cancel(project, id).catch(() => undefined); // it was not accepted
              throw error;
            }
          },
          find: (id) => tasks.task(project, id),
        },
      );
      request.audited = { id: task.id };
      reply.header("x-perigee-task-id", task.id);
      return task;
    } catch (error) {
      throw callError(error, item);
    }
  }
}

/**
 * The answer of a call whose wait is over. Throws the error of a call without one. An item that is not final then is cancelled, and
 * answered nevertheless if it ended meanwhile.
 */
export async function answeredOf(
  { tasks, clock, isStopping }: Pick<ServiceContext, "tasks" | "clock" | "isStopping">,
  seen: TaskView,
): Promise<CallAnswer> {
  const { project, id } = seen;
  const isOpen = seen.status === "submitted";
  const task = isOpen ? await tasks.cancel(project, id) : seen;
  const [object] = (await tasks.objects(project, isOpen ? id : task, { limit: 1 })).items;
  if (object?.status === "completed") return { task, object };
  const hasEnded = object?.status !== "submitted" && object?.error?.code !== "cancelled";
  if (!isOpen || hasEnded) throw failedCall(object?.error ?? GONE);
  if (seen.held.length > 0) throw heldCall(seen.held, clock.wallMs());
  throw isStopping() && object.error?.attempts === 0 ? unsentCall() : cancelledCall();
}

/** Of an object that does not exist any more: its task was removed while it was read. */
const GONE = {
  code: "cancelled",
  message: "the call's item was removed",
  retryable: false,
  attempts: 0,
  ambiguous_attempts: 0,
} as const;

/** How long a call may wait, by what its client says. */
function waitMs({ headers }: FastifyRequest): number {
  const stated = Number(headers["x-stainless-timeout"] ?? Number.NaN);
  const seconds = stated > 0 ? Math.max(1, stated - WAY_SECONDS) : WAIT_SECONDS_MAX;
  return Math.min(WAIT_SECONDS_MAX, seconds) * 1_000;
}
