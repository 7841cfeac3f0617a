/**
 * Whether the process is alive, and whether it takes work.
 */

import { HOLD_REASONS, type Hold } from "../../engine/items/holds.ts";
import { z } from "../../schema.ts";
import { failures } from "../http/description.ts";
import { NotReady, type Unready } from "../http/errors.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { countsOf, type FleetState } from "./fleet_state.ts";

const health = z.object({ status: z.literal("ok") }).meta({ id: "Health" });
const readiness = z
  .object({
    status: z.literal("ok"),
    held: z
      .array(
        z.object({
          reason: z.enum(HOLD_REASONS),
          provider: z.string().optional(),
          since: z.iso.datetime(),
          items: z.number().int().min(0),
        }),
      )
      .describe("What holds items that were accepted; they go on by themselves, and new work is taken."),
    fleet: z
      .object({
        workers: z.number().int().min(0),
        partitions: z.number().int().min(0),
        free_partitions: z.number().int().min(0),
        lease_ms: z
          .number()
          .int()
          .describe("Until the lease of the worker that answers ends, if it is not renewed."),
      })
      .optional()
      .describe("The fleet that the service is part of; absent for a service by itself."),
  })
  .meta({ id: "Readiness" });

/** `unready` says why no work is taken; undefined when it is. `fleet` is that which the service is part of. */
export function registerHealthRoutes(
  app: FastifyInstance,
  unready: () => Promise<Unready | undefined>,
  holds: () => readonly Hold[],
  fleet?: () => FleetState,
): void {
  app.get("/healthz", {
    schema: { summary: "Alive", tags: ["operation"], response: { 200: health } },
    handler: async () => ({ status: "ok" }),
  });
  app.get("/readyz", {
    schema: { summary: "Takes work", tags: ["operation"], response: { 200: readiness, ...failures(503) } },
    handler: async () => {
      const reason = await unready();
      if (reason !== undefined) throw new NotReady(reason);
      const counts = fleet === undefined ? {} : { fleet: countsOf(fleet()) };
      return { status: "ok", held: holds().map(shown), ...counts };
    },
  });
}

/** Without models, addresses and messages of providers: the endpoint needs no key. */
function shown({ reason, provider, since, items }: Hold): object {
  return { reason, ...(provider === undefined ? {} : { provider }), since, items };
}
