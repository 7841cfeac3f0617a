/**
 * POST /v1/responses, stateless, and in the background: GET and cancel under /v1/responses.
 *
 *   model of `openai` or `echo`   an item of the kind `response`
 *   any other                     a chat (`response_chat.ts`)
 *
 * A response in the background has the sla of its call, or the operator's default one.
 */
import { PerigeeError, refusedParam } from "../../errors.ts";
import { z } from "../../schema.ts";
import type { TaskView } from "../../tasks/shapes/task_view.ts";
import type { Item } from "../../work/item.ts";
import type { JsonObject } from "../../work/json.ts";
import { newId } from "../../work/new_id.ts";
import { parseModelId } from "../../work/request.ts";
import type { ServiceContext } from "../context.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance, FastifyRequest } from "../http/fastify.ts";
import { idParameter } from "../shapes/infer_schema.ts";
import { CALL_MEMBERS, termsOf } from "./call_terms.ts";
import type { FrontCalls } from "./calls.ts";
import { PassedResponse } from "./passed_response.ts";
import { chatOfResponse, responseError } from "./response_chat.ts";
import { ResponseEvents, type ResponseHead } from "./response_events.ts";
import { fromResponseId, noteOf, readNote, responseIdOf, responseOf } from "./response_object.ts";
import type { StreamShape } from "./stream_shape.ts";
import { type StreamedCall, streamedCall } from "./streamed_call.ts";

/** Providers that are known to have responses; servers of the same protocol often have none. */
const WITH_RESPONSES: ReadonlySet<string> = new Set(["openai", "echo"]);

const responseRequest = z
  .looseObject({
    ...CALL_MEMBERS,
    input: z.union([z.string(), z.array(z.unknown())]).optional(),
    background: z.boolean().nullish().describe("Answered later: retrieve it until it is completed."),
    stream: z.boolean().nullish().describe("Only for calls without sla, and not in the background."),
  })
  .meta({ id: "ResponseRequest" });
const response = z
  .looseObject({ id: z.string(), object: z.literal("response"), status: z.string(), model: z.string() })
  .meta({ id: "Response" });

type Context = Pick<ServiceContext, "front" | "tasks" | "clock" | "isStopping">;
type ResponseRequest = z.infer<typeof responseRequest>;

/** The routes of responses. */
export function registerResponseRoutes(app: FastifyInstance, context: Context, calls: FrontCalls): void {
  registerCreate(app, context, calls);
  const shown = async (task: TaskView): Promise<object> => shownResponse(context, task);
  app.get<{ Params: { id: string } }>("/v1/responses/:id", {
    config: { scope: "infer:read" },
    schema: {
      summary: "A response (OpenAI)",
      tags: ["openai"],
      params: idParameter,
      response: { 200: response },
    },
    handler: async ({ caller, params }) =>
      shown(await context.tasks.task(caller.project, fromResponseId(params.id))),
  });
  app.post<{ Params: { id: string } }>("/v1/responses/:id/cancel", {
    config: { scope: "infer:write", event: "task.cancelled" },
    schema: {
      summary: "Cancel a response that is not sent yet (OpenAI)",
      tags: ["openai"],
      params: idParameter,
      response: { 200: response },
    },
    handler: async ({ caller, params }) => {
      const id = fromResponseId(params.id);
      await shown(await context.tasks.task(caller.project, id)); // throws for a task that is not a response
      return shown(await context.tasks.cancel(caller.project, id));
    },
  });
}

function registerCreate(app: FastifyInstance, context: Context, calls: FrontCalls): void {
  app.post<{ Body: ResponseRequest }>("/v1/responses", {
    config: {
      scope: "infer:write",
      event: "task.created",
      headers: ["Idempotency-Key", "x-perigee-sla", "x-perigee-cache"],
    },
    schema: {
      summary: "A response (OpenAI)",
      description: "Stateless: `previous_response_id` and `conversation` are refused.",
      tags: ["openai"],
      body: responseRequest,
      response: { 200: response, ...failures(402, 404, 409) },
    },
    handler: async (request, reply) => {
      const item = postedOf(request, context);
      try {
        return await responded(context, calls, { request, reply, item });
      } catch (error) {
        throw item.kind === "response" ? error : responseError(error);
      }
    },
  });
}

interface Call extends Pick<StreamedCall, "reply" | "item"> {
  readonly request: FastifyRequest<{ Body: ResponseRequest }>;
}

/** The answer, at once, in events or by an id. */
async function responded(
  context: Context,
  calls: FrontCalls,
  { request, reply, item }: Call,
): Promise<object> {
  const { model, background, stream } = request.body;
  const isBackground = background === true;
  const note = { isBackground, model };
  if (stream === true) {
    if (isBackground) throw refusedParam("background", "a response in the background cannot stream");
    const id = newId();
    const shape = shapeOf(item, {
      ...{ id: responseIdOf({ id }), note, metadata: item.metadata },
      createdSeconds: Math.floor(context.clock.wallMs() / 1_000),
    });
    return streamedCall(context, { request, reply, id, item, note: noteOf(note) }, shape);
  }
  if (isBackground) return shownResponse(context, await calls.begin(request, reply, item, noteOf(note)));
  const { task, object } = await calls.answer(request, reply, item, noteOf(note));
  return responseOf(task, object, note);
}

/** The item of a call, on its terms. Throws `usage`, and 404 for its model. */
function postedOf(request: FastifyRequest, { front }: Pick<Context, "front">): Item {
  const {
    model,
    background,
    stream: _,
    stream_options: __,
    metadata,
    service_tier,
    ...members
  } = request.body as ResponseRequest; // the schema has checked it
  const terms = termsOf(request, { metadata, service_tier }, front.defaultSlaMinutes);
  const sla = terms.slaMinutes ?? (background === true ? front.defaultSlaMinutes : undefined);
  if (background === true && sla === undefined) throw withoutSla();
  const tier = terms.serviceTier === undefined ? {} : { service_tier: terms.serviceTier };
  const item = itemOf(front.models.resolve(model), { ...members, ...tier } as JsonObject, front);
  return { ...item, sla, metadata: terms.metadata } as unknown as Item; // checked where it is read
}

/** A chat's parts become those of a response; a provider's own are passed on. */
function shapeOf({ kind }: Item, head: ResponseHead): StreamShape {
  return kind === "response" ? new PassedResponse(head) : new ResponseEvents(head);
}

function itemOf(model: string, body: JsonObject, { models }: ServiceContext["front"]): object {
  const provider = parseModelId(models.first(model))?.provider ?? "";
  if (WITH_RESPONSES.has(provider)) return { ...body, kind: "response", model };
  return { ...chatOfResponse(body), model };
}

/** Throws `not_found` for a task that is not a response. */
async function shownResponse({ tasks }: Pick<Context, "tasks">, task: TaskView): Promise<object> {
  const note = readNote(task);
  const [object] = note === undefined ? [] : (await tasks.objects(task.project, task, { limit: 1 })).items;
  if (note === undefined || object === undefined)
    throw new PerigeeError("not_found", "there is no response with this id");
  return responseOf(task, object, note);
}

function withoutSla(): PerigeeError {
  return refusedParam(
    "background",
    "a response in the background needs an sla; send the header x-perigee-sla: 15m (the service has no default)",
  );
}
