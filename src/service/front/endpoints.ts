/**
 * POST /v1/embeddings and /v1/completions: OpenAI's bodies as items of these kinds, their answers in OpenAI's form.
 *
 * Source: https://platform.openai.com/docs/api-reference/embeddings and .../completions
 */
import type { StreamChunk } from "../../providers/streams/event_reader.ts";
import { z } from "../../schema.ts";
import type { Item } from "../../work/item.ts";
import { newId } from "../../work/new_id.ts";
import type { ServiceContext } from "../context.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance, FastifyRequest } from "../http/fastify.ts";
import { completionUsage, reasonOf } from "../shapes/chat_completion.ts";
import { embeddingList } from "../shapes/embedding_list.ts";
import { CALL_MEMBERS, type TermsBody, termsOf } from "./call_terms.ts";
import type { CallAnswer, FrontCalls } from "./calls.ts";
import { headOf, shownAnswer } from "./chat_answer.ts";
import { ChunkShape } from "./stream_shape.ts";
import { streamedCall } from "./streamed_call.ts";

const embeddingRequest = z
  .looseObject({ ...CALL_MEMBERS, input: z.union([z.string(), z.array(z.unknown()).min(1)]) })
  .meta({ id: "EmbeddingRequest" });
const completionRequest = z
  .looseObject({
    ...CALL_MEMBERS,
    prompt: z.union([z.string(), z.array(z.unknown()).min(1)]),
    stream: z.boolean().nullish().describe("Only for calls without sla."),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  })
  .meta({ id: "CompletionRequest" });
const embeddings = z
  .looseObject({ object: z.literal("list"), data: z.array(z.looseObject({ index: z.number().int() })) })
  .meta({ id: "EmbeddingList" });
const completion = z
  .looseObject({
    id: z.string(),
    object: z.literal("text_completion"),
    choices: z.array(z.looseObject({ text: z.string() })),
  })
  .meta({ id: "TextCompletion" });

/** The routes of embeddings and completions. */
export function registerEndpointRoutes(
  app: FastifyInstance,
  context: Pick<ServiceContext, "front" | "tasks" | "clock" | "isStopping">,
  calls: FrontCalls,
): void {
  const { front } = context;
  const config = {
    scope: "infer:write",
    event: "task.created",
    headers: ["Idempotency-Key", "x-perigee-sla", "x-perigee-cache"],
  } as const;
  const refused = failures(402, 404, 409);
  app.post<{ Body: z.infer<typeof embeddingRequest> }>("/v1/embeddings", {
    config,
    schema: {
      summary: "Embeddings of one input or several (OpenAI)",
      tags: ["openai"],
      body: embeddingRequest,
      response: { 200: embeddings, ...refused },
    },
    handler: async (request, reply) => {
      const item = itemOf(request, "embedding", request.body, front);
      const { object } = await calls.answer(request, reply, item);
      const { output, model, usage } = object;
      if (output.type !== "embedding") throw new Error(`an embedding was answered with ${output.type}`);
      return embeddingList(output, model, usage.input_tokens);
    },
  });
  app.post<{ Body: z.infer<typeof completionRequest> }>("/v1/completions", {
    config,
    schema: {
      summary: "A text that is continued (OpenAI)",
      tags: ["openai"],
      body: completionRequest,
      response: { 200: completion, ...refused },
    },
    handler: async (request, reply) => {
      const { stream, stream_options, ...body } = request.body;
      const item = itemOf(request, "completion", body, front);
      if (stream !== true) return textCompletion(await calls.answer(request, reply, item));
      const shape = new ChunkShape(wholeCompletion, stream_options?.include_usage === true);
      return streamedCall(context, { request, reply, id: newId(), item }, shape);
    },
  });
}

/** An item of a kind, with the terms of its call. Throws `usage`, and 404 for its model. */
function itemOf(
  request: FastifyRequest,
  kind: "embedding" | "completion",
  body: TermsBody & { readonly model: string },
  front: ServiceContext["front"],
): Item {
  const { metadata, service_tier, ...members } = body;
  const terms = termsOf(request, { metadata, service_tier }, front.defaultSlaMinutes);
  const model = front.models.resolve(body.model);
  // The members are checked where the item is read.
  return { ...members, kind, model, sla: terms.slaMinutes, metadata: terms.metadata } as unknown as Item;
}

/** The chunks of an answer that did not arrive in parts. */
function wholeCompletion(answer: CallAnswer): readonly StreamChunk[] {
  const { usage, ...chunk } = textCompletion(answer);
  return [
    { json: JSON.stringify(chunk), isUsage: false },
    { json: JSON.stringify({ ...chunk, choices: [], usage }), isUsage: true },
  ];
}

function textCompletion(answer: CallAnswer): { readonly choices: readonly object[]; readonly usage: object } {
  const shown = shownAnswer(answer);
  const { id, created } = headOf(answer, "cmpl");
  const { facts, output } = shown;
  const { finish_reason, logprobs = null, model } = facts;
  const choice = { index: 0, text: output?.text ?? "", logprobs, finish_reason: reasonOf(finish_reason) };
  const head = { id, object: "text_completion", created, model };
  return { ...head, choices: [choice], usage: completionUsage(shown) };
}
