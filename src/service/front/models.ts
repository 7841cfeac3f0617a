/**
 * GET /v1/models: the models that calls may name.
 *
 * Source: https://platform.openai.com/docs/api-reference/models
 */
import { z } from "../../schema.ts";
import type { ServiceContext } from "../context.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import type { ServedModel } from "./served_models.ts";

const modelObject = z
  .object({
    id: z.string(),
    object: z.literal("model"),
    created: z.literal(0).describe("Not known."),
    owned_by: z.string().describe("The provider, or `perigee` for an alias."),
  })
  .meta({ id: "Model" });

/** The list of models, and one of them. */
export function registerModelRoutes(app: FastifyInstance, { front }: Pick<ServiceContext, "front">): void {
  app.get("/v1/models", {
    config: { scope: "infer:read" },
    schema: {
      summary: "Aliases, and the models with a known price of providers that can be reached (OpenAI)",
      tags: ["openai"],
      response: { 200: z.object({ object: z.literal("list"), data: z.array(modelObject) }) },
    },
    handler: async () => ({ object: "list", data: front.models.list().map(shown) }),
  });
  app.get<{ Params: { id: string } }>("/v1/models/:id", {
    config: { scope: "infer:read" },
    schema: {
      summary: "A model that calls may name, whether it is listed or not (OpenAI)",
      tags: ["openai"],
      params: z.strictObject({ id: z.string().describe("Slashes in it are percent-encoded.") }),
      response: { 200: modelObject, ...failures(404) },
    },
    handler: async ({ params }) => shown(front.models.model(params.id)),
  });
}

function shown({ id, owner }: ServedModel): z.infer<typeof modelObject> {
  return { id, object: "model", created: 0, owned_by: owner };
}
