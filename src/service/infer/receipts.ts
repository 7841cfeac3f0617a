/**
 * GET /v0/infer/object/{id}/receipt: how an object was sent and what it took, as `perigee run --receipts` writes it, hashed by itself.
 */
import { ReceiptChain } from "../../jsonl/receipts.ts";
import { z } from "../../schema.ts";
import type { ServiceContext } from "../context.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { idParameter } from "../shapes/infer_schema.ts";

const count = z.number().int().min(0);
const nano = count.describe("Nano-USD: billionths of a US dollar.");
const moment = z.iso.datetime().nullable();
const receipt = z
  .object({
    key: z.string().describe("The id of the object."),
    lane: z
      .enum(["realtime", "flex", "slow", "batch", "deferred", "offpeak"])
      .nullable()
      .describe("Null when nothing was sent."),
    provider: z.string().nullable(),
    model: z.string().nullable(),
    tier_asked: z.string().nullable().describe("The tier that the last request named."),
    tier: z.string().nullable().describe("The tier that the provider says it used."),
    batch: z.string().nullable().describe("The provider's id of its batch."),
    input_tokens: count,
    cached_tokens: count,
    cache_write_tokens: count,
    output_tokens: count,
    price_version: z.string().nullable().describe("The price sheet and its day."),
    list_nano_usd: nano,
    billed_nano_usd: nano,
    ambiguous_nano_usd: nano,
    attempts: count,
    started_at: moment.describe("When its first request left."),
    ended_at: moment,
    deadline: moment,
    met: z.boolean().nullable().describe("Whether it ended by its deadline; null without one."),
    hash: z
      .string()
      .describe('SHA-256, in hex, of the bytes of this object as they were sent, without `,"hash":"..."`.'),
  })
  .meta({ id: "Receipt" });

export function registerReceiptRoutes(app: FastifyInstance, { tasks }: Pick<ServiceContext, "tasks">): void {
  app.get<{ Params: { id: string } }>("/v0/infer/object/:id/receipt", {
    config: { scope: "infer:read" },
    schema: {
      summary: "The receipt of an object that has ended",
      description:
        "How it was sent, what it took in nano-USD, and when. The sums over all objects are those of `GET /v0/usage`. 409 until the object has ended.",
      tags: ["inference"],
      params: idParameter,
      response: { 200: receipt, ...failures(409) },
    },
    handler: async ({ caller, params }, reply) => {
      const text = new ReceiptChain().line(await tasks.receipt(caller.project, params.id));
      return reply.header("content-type", "application/json; charset=utf-8").send(text);
    },
  });
}
