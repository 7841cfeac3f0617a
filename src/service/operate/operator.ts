/**
 * What the operator page listens to: `GET /v0/operator/events`, server-sent events of the caller's project.
 *
 *   event: history    {start, items[], tokens[]}: the last minutes, a number a second
 *   event: day        {start, items[], ...}: the last 24 hours, a sum a minute (history.ts)
 *   event: snapshot   once a second: when the work will be done, throughput, lanes, open batches, a page of tasks, errors by code, cost;
 *                    with the scope `satellites:read` executions and clusters, with `admin` the fleet
 */
import { PassThrough } from "node:stream";
import { z } from "../../schema.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import type { OperatorFeed } from "./operator_feed.ts";

/** What a client may leave unread before it misses snapshots. */
const UNREAD_BYTES_MAX = 64 * 1024;

const eventsQuery = z.strictObject({
  /** The task that the page of tasks begins after. */
  after: z.guid("must be the id of a task").optional(),
});

export interface OperatorContext {
  readonly feed: OperatorFeed;
  /** Whether the key of a header is still accepted; asked once a second. */
  readonly isAccepted: (authorization: string | undefined) => boolean;
}

/** Streams of events for the operator page; each ends when its key is not accepted any more. */
export function registerOperatorRoutes(app: FastifyInstance, { feed, isAccepted }: OperatorContext): void {
  app.addHook("preClose", (done) => {
    feed.close();
    done();
  });
  app.get<{ Querystring: z.infer<typeof eventsQuery> }>("/v0/operator/events", {
    config: { scope: "infer:read" },
    exposeHeadRoute: false, // its answer never ends
    schema: { hide: true, querystring: eventsQuery },
    handler: (request, reply) => {
      const { caller, query, headers } = request;
      const stream = new PassThrough({ highWaterMark: UNREAD_BYTES_MAX });
      const leave = feed.join({
        project: caller.project,
        seesAllLanes: caller.scopes.has("admin"),
        seesSatellites: caller.scopes.has("satellites:read"),
        after: query.after,
        isAllowed: () => isAccepted(headers.authorization),
        isReady: () => !stream.writableNeedDrain,
        send: (event, data) => void stream.write(`event: ${event}\ndata: ${data}\n\n`),
        end: () => void stream.end(),
      });
      stream.once("close", leave);
      stream.once("error", leave); // the client disconnected while it was written to
      return reply
        .header("content-type", "text/event-stream; charset=utf-8")
        .header("cache-control", "no-store")
        .header("x-accel-buffering", "no") // nginx passes each event on at once
        .send(stream);
    },
  });
}
