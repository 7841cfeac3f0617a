/**
 * POST /v1/chat/completions: OpenAI's body as an item, its answer as OpenAI's chat completion.
 *
 * Source: https://platform.openai.com/docs/api-reference/chat/create
 */
import { type PerigeeError, refusedParam } from "../../errors.ts";
import { z } from "../../schema.ts";
import type { Item } from "../../work/item.ts";
import { isObject } from "../../work/json.ts";
import { newId } from "../../work/new_id.ts";
import type { ServiceContext } from "../context.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { CALL_MEMBERS, termsOf } from "./call_terms.ts";
import type { FrontCalls } from "./calls.ts";
import { chatAnswer, wholeChunks } from "./chat_answer.ts";
import { ChunkShape } from "./stream_shape.ts";
import { streamedCall } from "./streamed_call.ts";

/** As of items. */
const ANSWERS_MAX = 8;
/** Members of perigee's items that OpenAI's body does not have: here they are passed on as every other name that is not known. */
const ITEMS_OWN = [
  ...["schema", "kind", "key", "input", "contents", "generation_config", "generationConfig"],
  ...["request", "body"],
];
/** Members that the front reads; all others are passed on. */
const chatRequest = z
  .looseObject({
    ...CALL_MEMBERS,
    messages: z.array(z.looseObject({ role: z.string() })).min(1),
    stream: z.boolean().nullish().describe("Only for calls without sla."),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    n: z
      .int()
      .min(1)
      .max(ANSWERS_MAX)
      .nullish()
      .describe("Answers; in a stream only from providers of OpenAI's protocol."),
  })
  .meta({ id: "ChatRequest" });
type ChatRequest = z.infer<typeof chatRequest>;
const chatCompletion = z
  .looseObject({
    id: z.string(),
    object: z.literal("chat.completion"),
    created: z.number().int(),
    model: z.string(),
    choices: z.array(
      z.looseObject({
        index: z.number().int(),
        message: z.looseObject({ role: z.literal("assistant"), content: z.string().nullable() }),
        finish_reason: z.string(),
      }),
    ),
    usage: z.looseObject({
      prompt_tokens: z.number().int(),
      completion_tokens: z.number().int(),
      total_tokens: z.number().int(),
    }),
  })
  .meta({ id: "ChatCompletion" });

/** The route of chat completions. */
export function registerChatRoute(
  app: FastifyInstance,
  context: Pick<ServiceContext, "front" | "tasks" | "clock" | "cache" | "isStopping">,
  calls: FrontCalls,
): void {
  const { front } = context;
  app.post<{ Body: ChatRequest }>("/v1/chat/completions", {
    config: {
      scope: "infer:write",
      event: "task.created",
      headers: ["Idempotency-Key", "x-perigee-sla", "x-perigee-cache"],
    },
    schema: {
      summary: "A chat completion (OpenAI)",
      description:
        "Answered at once. With `x-perigee-sla: 15m`, `metadata.sla` or `service_tier: flex` it has a deadline, and the call waits for the answer as long as its client does; the same call with its `Idempotency-Key` fetches it.",
      tags: ["openai"],
      body: chatRequest,
      response: { 200: chatCompletion, ...failures(402, 404, 409) },
    },
    handler: async (request, reply) => {
      const { body } = request;
      const terms = termsOf(request, body, front.defaultSlaMinutes);
      const { stream, stream_options, metadata: _, service_tier: __, ...members } = body;
      const item = {
        ...asOpenais(members),
        model: front.models.resolve(body.model),
        sla: terms.slaMinutes,
        metadata: terms.metadata,
        service_tier: terms.serviceTier,
      } as unknown as Item; // the rest is checked where it is read
      if (stream !== true) return chatAnswer(await calls.answer(request, reply, item));
      if ((body.n ?? 1) > 1 && !front.models.isOpenais(item.model)) throw severalInStream();
      const shape = new ChunkShape(wholeChunks, stream_options?.include_usage === true);
      return streamedCall(context, { request, reply, id: newId(), item }, shape);
    },
  });
}

/** A body whose members are OpenAI's or the provider's, whatever items call so: `extra_body` is never perigee's. */
function asOpenais(members: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const own = ITEMS_OWN.filter((name) => Object.hasOwn(members, name));
  if (own.length === 0) return members;
  const { extra_body: extra, ...others } = members;
  const rest = Object.entries(others).filter(([name]) => !own.includes(name));
  const moved = Object.fromEntries(own.map((name) => [name, members[name]]));
  return { ...Object.fromEntries(rest), extra_body: { ...(isObject(extra) ? extra : {}), ...moved } };
}

function severalInStream(): PerigeeError {
  return refusedParam(
    "n",
    "a stream has several answers only from providers of OpenAI's protocol; leave out stream or n",
  );
}
