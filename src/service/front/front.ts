/**
 * The routes of OpenAI's API: models, and calls, each of which is an item of the engine.
 */
import type { ServiceContext } from "../context.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { FrontCalls } from "./calls.ts";
import { registerChatRoute } from "./chat.ts";
import { registerEndpointRoutes } from "./endpoints.ts";
import { FinalTasks } from "./final_tasks.ts";
import { registerModelRoutes } from "./models.ts";
import { registerResponseRoutes } from "./responses.ts";

/** /v1/models, /v1/chat/completions, /v1/completions, /v1/embeddings and /v1/responses. The returned function ends the waits of all calls. */
export function registerFrontRoutes(app: FastifyInstance, context: ServiceContext): () => void {
  const finals = new FinalTasks(context.clock, context.tasks);
  finals.open();
  app.addHook("onClose", async () => finals.close());
  const calls = new FrontCalls(context, finals);
  registerModelRoutes(app, context);
  registerChatRoute(app, context, calls);
  registerEndpointRoutes(app, context, calls);
  registerResponseRoutes(app, context, calls);
  return () => finals.close();
}
