/**
 * `output_url`: the answers of a task as a file of lines (interface 4.5, 2.6), also while it runs.
 *
 * Streams the whole lines that are durable by now. `?view=errors` returns only failed lines, `?view=answers` the others.
 * Needs the key, or a link that was signed for it (`signed_link.ts`).
 */
import { PerigeeError } from "../../errors.ts";
import { z } from "../../schema.ts";
import type { OutputView } from "../../tasks/shapes/task_view.ts";
import type { ServiceContext } from "../context.ts";
import { sendDownload } from "../files/download.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "../http/fastify.ts";
import { unchanged } from "../shapes/infer_schema.ts";
import { timestamp } from "../shapes/timestamp.ts";
import { LINK_SECONDS_MAX, type LinkTarget, SignedLinks } from "./signed_link.ts";

const SUFFIX = ".jsonl";
const MIME_TYPE = "application/jsonl";
const view = z.enum(["all", "answers", "errors"]).default("all");
const viewQuery = z.strictObject({ view });
const nameParameter = z.strictObject({ name: z.string().describe("`{task_id}.jsonl`") });
const linkQuery = z.strictObject({
  view,
  expires_in: z.coerce.number().int().min(1).max(LINK_SECONDS_MAX).default(LINK_SECONDS_MAX),
});
const signedLink = z
  .object({ url: z.string(), expires_at: z.iso.datetime() })
  .meta({ id: "SignedLink", description: "Reads the output without a key until it expires." });

/** What the interface calls `output_url`. */
export function outputUrl({ publicUrl }: Pick<ServiceContext, "publicUrl">, taskId: string): string {
  return `${publicUrl()}/v0/files/output/${taskId}${SUFFIX}`;
}

/** Answers of tasks as files of lines (interface 2.6), and links to them that need no key. */
export function registerOutputRoutes(app: FastifyInstance, context: ServiceContext): void {
  const links = new SignedLinks(context.store, context.clock);
  const send = async (
    request: FastifyRequest,
    reply: FastifyReply,
    target: LinkTarget,
    holder: string,
  ): Promise<FastifyReply> => {
    request.audited = { id: target.taskId, project: target.project };
    const output = await context.tasks.output(target.project, target.taskId, target.view);
    const name = target.view === "all" ? target.taskId : `${target.taskId}-${target.view}`;
    const download = {
      name: `${name}${SUFFIX}`,
      mimeType: MIME_TYPE,
      isComplete: output.isComplete,
      bytes: output.isComplete ? output.bytes : undefined,
      etag: output.isComplete ? quoted(output.etag) : undefined,
      read: output.read.bind(output),
    };
    return sendDownload(request, reply, download, context, holder);
  };
  registerOutput(app, send);
  registerLinks(app, context, links, send);
}

type Send = (
  request: FastifyRequest,
  reply: FastifyReply,
  target: LinkTarget,
  holder: string,
) => Promise<FastifyReply>;

function registerOutput(app: FastifyInstance, send: Send): void {
  app.route<{ Params: { name: string }; Querystring: { view: OutputView } }>({
    method: ["GET", "HEAD"],
    url: "/v0/files/output/:name",
    config: { scope: "infer:read", event: "task.downloaded" },
    schema: {
      summary: "The answers of a task as JSONL",
      description:
        "While the task runs: the lines so far, with X-Incomplete: true. Once it is final: with ETag and ranges.",
      tags: ["files"],
      params: nameParameter,
      querystring: viewQuery,
      produces: [MIME_TYPE],
      response: { 200: z.string(), 206: z.string(), 304: unchanged, ...failures(416) },
    },
    handler: (request, reply) => {
      const { project, keyId } = request.caller;
      const target = { project, taskId: taskIdOf(request.params.name), view: request.query.view };
      return send(request, reply, target, keyId);
    },
  });
}

function registerLinks(app: FastifyInstance, context: ServiceContext, links: SignedLinks, send: Send): void {
  app.post<{ Params: { name: string }; Querystring: { view: OutputView; expires_in: number } }>(
    "/v0/files/output/:name/link",
    {
      config: { scope: "infer:read" },
      schema: {
        summary: "A link that reads the output without a key, for an hour at most",
        tags: ["files"],
        params: nameParameter,
        querystring: linkQuery,
        response: { 200: signedLink },
      },
      handler: async ({ caller: { project }, params, query }, reply) => {
        const task = await context.tasks.task(project, taskIdOf(params.name));
        const target = { project, taskId: task.id, view: query.view };
        const { token, untilWallMs } = await links.sign(target, query.expires_in);
        reply.header("cache-control", "private, no-store");
        const url = `${context.publicUrl()}/v0/files/link/${token}`;
        return { url, expires_at: timestamp(untilWallMs) };
      },
    },
  );
  app.route<{ Params: { token: string } }>({
    method: ["GET", "HEAD"],
    url: "/v0/files/link/:token",
    config: { event: "task.downloaded" },
    schema: {
      summary: "The answers of a task, by a signed link",
      tags: ["files"],
      security: [],
      params: z.strictObject({ token: z.string() }),
      produces: [MIME_TYPE],
      response: { 200: z.string(), 206: z.string(), 304: unchanged, ...failures(416) },
    },
    handler: async (request, reply) => {
      const target = await links.open(request.params.token);
      return send(request, reply, target, `link of ${target.project}`);
    },
  });
}

/** With or without the suffix: some clients drop it. */
function taskIdOf(name: string): string {
  const id = name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : name;
  if (id === "") throw new PerigeeError("not_found", "there is no task with this id");
  return id;
}

function quoted(etag: string | undefined): string | undefined {
  return etag === undefined || /^(W\/)?"/.test(etag) ? etag : `"${etag}"`;
}
