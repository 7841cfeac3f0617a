/**
 * Whether the process is alive, and whether it takes work.
 */

import { PerigeeError } from "../errors.ts";
import { z } from "../schema.ts";
import { failures } from "./description.ts";
import type { FastifyInstance } from "./fastify.ts";

const health = z.object({ status: z.literal("ok") }).meta({ id: "Health" });

/** `isReady` is false while the service closes. */
export function registerHealthRoutes(app: FastifyInstance, isReady: () => boolean): void {
  app.get("/healthz", {
    schema: { summary: "Alive", tags: ["operation"], response: { 200: health } },
    handler: async () => ({ status: "ok" }),
  });
  app.get("/readyz", {
    schema: { summary: "Takes work", tags: ["operation"], response: { 200: health, ...failures(503) } },
    handler: async () => {
      if (!isReady()) throw new PerigeeError("closed", "the service is closing");
      return { status: "ok" };
    },
  });
}
