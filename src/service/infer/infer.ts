/**
 * The inference interface (4.1 to 4.3), and what perigee adds to it: list, cancel, delete.
 */
import { PerigeeError } from "../../errors.ts";
import type { RequestItem } from "../../tasks/shapes/requests.ts";
import type { ServiceContext } from "../context.ts";
import { cacheTtlOf } from "../http/cache_header.ts";
import { failures } from "../http/description.ts";
import { etagOf, matches } from "../http/etag.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "../http/fastify.ts";
import { itemsOf } from "../http/infer_body.ts";
import { onceFor } from "../http/keyed_request.ts";
import { leaving } from "../http/leaving.ts";
import {
  answers,
  checkedRetry,
  idParameter,
  OBJECTS_MAX,
  objectsQuery,
  PAGE_OBJECTS_MAX,
  pageQuery,
  retryRequest,
  unchanged,
} from "../shapes/infer_schema.ts";
import { requestItems } from "../shapes/item_schema.ts";
import { pageOf } from "../shapes/list_page.ts";
import { outputUrl } from "./output.ts";
import { registerReceiptRoutes } from "./receipts.ts";
import { retryHint } from "./retry_hint.ts";
import { schemaOf } from "./schema_header.ts";
import { type OutputUrl, objectBody, TaskBodies, taskHead, taskJson } from "./task_body.ts";

interface PageRequest {
  readonly after?: string;
  readonly limit: number;
}

/** /v0/infer/ (interface 2.1 to 2.3, 4.1 to 4.3), with what perigee adds. */
export function registerInferRoutes(app: FastifyInstance, context: ServiceContext): void {
  const urlOf: OutputUrl = (taskId) => outputUrl(context, taskId);
  registerSubmit(app, context, urlOf);
  registerReads(app, context, urlOf);
  registerChanges(app, context, urlOf);
  registerReceiptRoutes(app, context);
}

function registerSubmit(
  app: FastifyInstance,
  { tasks, idempotency, requestBounds, cache }: ServiceContext,
  urlOf: OutputUrl,
): void {
  app.route({
    method: "POST",
    url: "/v0/infer/",
    config: {
      scope: "infer:write",
      streamsBody: true,
      event: "task.created",
      headers: ["Idempotency-Key", "Output-Format", "x-perigee-schema", "x-perigee-cache"],
    },
    // The items are checked one by one, with their index.
    validatorCompiler: () => (data) => ({ value: data }),
    schema: {
      summary: "Submit items",
      description:
        "Items with an sla answer later: poll the task. Items without one are answered in the response, which waits 10 minutes at most, and 30 s while all that is left is held; after that, poll the task. `Output-Format: jsonl` gives output_url instead of objects. `x-perigee-cache: 1h` answers items from the cache that were answered for the project within the hour. A POST that is repeated with its `Idempotency-Key` within 24 hours gets the same task.",
      tags: ["inference"],
      body: requestItems,
      response: { 200: answers.task, ...failures(402, 404, 409, 410) },
    },
    handler: async (request, reply) => {
      const { project } = request.caller;
      const hasOutputFile = wantsFile(request);
      const schema = await schemaOf(request);
      const cacheTtl = cacheTtlOf(request, cache);
      const task = await onceFor(
        idempotency,
        { request, reply },
        {
          about: [hasOutputFile ? "jsonl" : "", ...(schema === undefined ? [] : [JSON.stringify(schema)])],
          bounds: requestBounds,
          make: (id, body) => {
            const items = itemsOf(request, requestBounds, body);
            return tasks.submit(project, {
              ...(id === undefined ? {} : { id, isNewId: true }),
              ...(isQuick(items) ? {} : { signal: leaving(reply) }),
              items,
              schema,
              hasOutputFile,
              cacheTtl,
            });
          },
          find: (id) => tasks.task(project, id),
        },
      );
      request.audited = { id: task.id };
      const query = hasOutputFile ? undefined : { limit: OBJECTS_MAX };
      return sendJson(reply, await taskJson(tasks, task, urlOf, query));
    },
  });
}

function registerReads(app: FastifyInstance, { tasks }: ServiceContext, urlOf: OutputUrl): void {
  const bodies = new TaskBodies(tasks, urlOf);
  app.get<{ Params: { id: string }; Querystring: PageRequest }>("/v0/infer/task/:id", {
    config: { scope: "infer:read" },
    schema: {
      summary: "A task with its objects",
      tags: ["inference"],
      params: idParameter,
      querystring: objectsQuery,
      response: { 200: answers.task, 304: unchanged },
    },
    handler: async ({ caller, params, query, headers }, reply) => {
      const { etag, body } = await bodies.body(caller.project, params.id, query, headers["if-none-match"]);
      return sendTagged(reply, etag, body);
    },
  });
  app.get<{ Params: { id: string } }>("/v0/infer/object/:id", {
    config: { scope: "infer:read" },
    schema: {
      summary: "An object",
      tags: ["inference"],
      params: idParameter,
      response: { 200: answers.object, 304: unchanged },
    },
    handler: async ({ caller, params, headers }, reply) => {
      const text = JSON.stringify(objectBody(await tasks.object(caller.project, params.id)));
      const etag = etagOf(text);
      return sendTagged(reply, etag, matches(headers["if-none-match"], etag) ? undefined : text);
    },
  });
  app.get<{ Querystring: PageRequest }>("/v0/infer/tasks", {
    config: { scope: "infer:read" },
    schema: {
      summary: "The tasks of the project, newest first",
      tags: ["inference"],
      querystring: pageQuery,
      response: { 200: answers.tasks },
    },
    handler: async ({ caller, query }) => {
      const { items, hasMore } = await tasks.list(caller.project, query);
      return {
        tasks: items.map((task) => taskHead(task, urlOf)),
        ...pageOf(items, hasMore),
      };
    },
  });
}

function registerChanges(app: FastifyInstance, { tasks }: ServiceContext, urlOf: OutputUrl): void {
  app.post<{ Params: { id: string } }>("/v0/infer/task/:id/cancel", {
    config: { scope: "infer:write", event: "task.cancelled" },
    schema: {
      summary: "Cancel what is not yet sent; what is in flight or answered stays",
      tags: ["inference"],
      params: idParameter,
      response: { 200: answers.task },
    },
    handler: async ({ caller, params }, reply) => {
      const task = await tasks.cancel(caller.project, params.id);
      return sendJson(reply, await taskJson(tasks, task, urlOf, { limit: PAGE_OBJECTS_MAX }));
    },
  });
  app.post<{ Params: { id: string } }>("/v0/infer/task/:id/retry", {
    config: { scope: "infer:write", event: "task.retried" },
    // The owner is checked first: the handler checks the body.
    validatorCompiler: () => (data) => ({ value: data }),
    schema: {
      summary: "Run items again that ended in an error; their new outcomes replace the errors",
      description:
        "Without codes: those whose error is marked retryable, and those that expired; what was cancelled runs again only where `cancelled` is among the codes. `retried` says how many; with 0 nothing has changed, so a repeated request does no harm. Their window begins again.",
      tags: ["inference"],
      params: idParameter,
      body: retryRequest,
      response: { 200: answers.retried, ...failures(402, 409, 410) },
    },
    handler: async ({ caller, params, body }, reply) => {
      await tasks.task(caller.project, params.id);
      const { codes } = checkedRetry(body);
      const { task, items } = await tasks.retry(caller.project, params.id, codes);
      const hint = items === 0 ? { hint: retryHint(task.counts, codes) } : {};
      const more = { retried: items, ...hint };
      return sendJson(reply, await taskJson(tasks, task, urlOf, { limit: PAGE_OBJECTS_MAX }, more));
    },
  });
  app.delete<{ Params: { id: string } }>("/v0/infer/task/:id", {
    config: { scope: "infer:write", event: "task.deleted" },
    schema: {
      summary: "Erase the texts and answers of a task that is final",
      tags: ["inference"],
      params: idParameter,
      response: { 200: answers.removed, ...failures(409) },
    },
    handler: async ({ caller, params }) => {
      await tasks.remove(caller.project, params.id);
      return { task_id: params.id.toLowerCase(), deleted: true };
    },
  });
}

/** Items that are all there and wait for nothing: by the time that a client could leave they are stored. */
function isQuick(items: ReturnType<typeof itemsOf>): boolean {
  return Array.isArray(items) && items.every(({ sla }: RequestItem) => sla !== undefined);
}

/** Throws `usage` for another format than that of the interface. */
function wantsFile({ headers }: FastifyRequest): boolean {
  const format = headers["output-format"];
  if (format === undefined) return false;
  if (typeof format === "string" && format.toLowerCase() === "jsonl") return true;
  throw new PerigeeError("usage", "Output-Format must be jsonl, or absent", {
    details: { param: "Output-Format" },
  });
}

function sendJson(reply: FastifyReply, text: string): FastifyReply {
  return reply.header("content-type", "application/json; charset=utf-8").send(text);
}

/** 304 when the caller has it already. */
function sendTagged(reply: FastifyReply, etag: string, body: string | Buffer | undefined): FastifyReply {
  reply.header("etag", etag).header("cache-control", "private, no-cache");
  if (body === undefined) return reply.code(304).send();
  return reply.header("content-type", "application/json; charset=utf-8").send(body);
}
