/**
 * Whether the process is alive, and whether it takes work.
 */

import type { PerigeeError } from "../errors.ts";
import { z } from "../schema.ts";
import { failures } from "./description.ts";
import type { FastifyInstance } from "./fastify.ts";

const health = z.object({ status: z.literal("ok") }).meta({ id: "Health" });

/** `unready` says why no work is taken, such as while the service closes or the disk is full; undefined when it is. */
export function registerHealthRoutes(
  app: FastifyInstance,
  unready: () => Promise<PerigeeError | undefined>,
): void {
  app.get("/healthz", {
    schema: { summary: "Alive", tags: ["operation"], response: { 200: health } },
    handler: async () => ({ status: "ok" }),
  });
  app.get("/readyz", {
    schema: { summary: "Takes work", tags: ["operation"], response: { 200: health, ...failures(503) } },
    handler: async () => {
      const reason = await unready();
      if (reason !== undefined) throw reason;
      return { status: "ok" };
    },
  });
}
