/**
 * OpenAI's files interface on our files: POST, GET, list, content and DELETE under /v1/files.
 *
 * Source: https://platform.openai.com/docs/api-reference/files
 */
import { PerigeeError } from "../../errors.ts";
import { z } from "../../schema.ts";
import type { FilePurpose, FileView } from "../../tasks/files/files.ts";
import type { ServiceContext } from "../context.ts";
import { sendDownload } from "../files/download.ts";
import { contentOf, typeOf } from "../files/files.ts";
import { fileField, registerForms, takeFile } from "../files/form.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { idParameter, unchanged } from "../shapes/infer_schema.ts";
import { fromFileId, toFileId } from "../shapes/openai_ids.ts";
import { openaiList, openaiListSchema, secondsOf } from "./openai_list.ts";

/** Clients request larger pages, and get several. */
const LIST_MAX = 1_000;

const fileObject = z
  .object({
    id: z.string(),
    object: z.literal("file"),
    bytes: z.number().int().min(0),
    created_at: z.number().int().describe("Unix time in seconds."),
    filename: z.string(),
    purpose: z.enum(["batch", "batch_output", "user_data"]),
    status: z.literal("processed"),
  })
  .meta({ id: "OpenaiFile" });
const fileObjects = openaiListSchema(fileObject, "OpenaiFileList");
const fileDeleted = z
  .object({ id: z.string(), object: z.literal("file"), deleted: z.literal(true) })
  .meta({ id: "OpenaiFileDeleted" });
const uploadForm = z.object({
  file: fileField,
  purpose: z.enum(["batch", "user_data"]).describe("batch: requests as JSON lines; user_data: any bytes."),
});
const listQuery = z.strictObject({
  after: z.string().min(1).max(64).optional(),
  limit: z.coerce.number().int().min(1).max(10_000).default(10_000),
  order: z.literal("desc").optional().describe("The newest first."),
  purpose: z.enum(["batch", "batch_output", "user_data"]).optional(),
});

interface ById {
  Params: { id: string };
}

/** The same files as /v0/files/, under other ids and names of fields. */
export function registerOpenaiFileRoutes(app: FastifyInstance, context: ServiceContext): void {
  registerForms(app, (scope) => registerUpload(scope, context));
  registerReads(app, context);
  registerContent(app, context);
  registerRemove(app, context);
}

function registerUpload(app: FastifyInstance, { files, clock, transfers }: ServiceContext): void {
  app.post("/v1/files", {
    config: { scope: "files:write", event: "file.uploaded", form: uploadForm },
    schema: {
      summary: "Upload a file (OpenAI)",
      description:
        "A form (multipart/form-data) with the fields file and purpose: batch, or user_data for any bytes.",
      tags: ["openai"],
      consumes: ["multipart/form-data"],
      response: { 200: fileObject },
    },
    handler: async (request) => {
      const { keyId, project } = request.caller;
      const over = transfers.uploads.begin(keyId);
      try {
        const options = { clock, fieldNames: ["purpose"], check: purposeOf };
        const view = await takeFile(
          request,
          options,
          ({ name = "upload.jsonl", chunks, fields, mimeType }) => {
            // Official clients send the field after the file.
            const purpose = fields.has("purpose") ? purposeOf(fields) : () => purposeOf(fields);
            return files.put(project, { name, purpose, chunks, ...typeOf(mimeType) });
          },
        );
        request.audited = { id: view.id };
        return objectOf(view);
      } finally {
        over();
      }
    },
  });
}

function purposeOf(fields: ReadonlyMap<string, string>): "batch" | "user_data" {
  const purpose = fields.get("purpose");
  if (purpose === "batch" || purpose === "user_data") return purpose;
  throw new PerigeeError(
    "invalid_request",
    "the form must have a field purpose, and it must be batch or user_data",
    { details: { param: "purpose" } },
  );
}

function registerReads(app: FastifyInstance, { files }: ServiceContext): void {
  app.get<{ Querystring: { after?: string; limit: number; purpose?: FilePurpose } }>("/v1/files", {
    config: { scope: "files:read" },
    schema: {
      summary: "The files of the project, newest first (OpenAI)",
      tags: ["openai"],
      querystring: listQuery,
      response: { 200: fileObjects },
    },
    handler: async ({ caller, query: { after, limit, ...query } }) => {
      const { items, hasMore } = await files.list(caller.project, {
        ...query,
        limit: Math.min(limit, LIST_MAX),
        ...(after === undefined ? {} : { after: fromFileId(after) }),
      });
      return openaiList(items.map(objectOf), hasMore);
    },
  });
  app.get<ById>("/v1/files/:id", {
    config: { scope: "files:read" },
    schema: {
      summary: "A file (OpenAI)",
      tags: ["openai"],
      params: idParameter,
      response: { 200: fileObject },
    },
    handler: async ({ caller, params }) => objectOf(await files.file(caller.project, fromFileId(params.id))),
  });
}

function registerContent(app: FastifyInstance, context: ServiceContext): void {
  const { files } = context;
  app.route<ById>({
    method: ["GET", "HEAD"],
    url: "/v1/files/:id/content",
    config: { scope: "files:read", event: "file.downloaded" },
    schema: {
      summary: "The bytes of a file (OpenAI)",
      tags: ["openai"],
      params: idParameter,
      produces: ["application/jsonl", "application/octet-stream"],
      response: { 200: z.string(), 206: z.string(), 304: unchanged, ...failures(410, 416) },
    },
    handler: async (request, reply) => {
      const { project, keyId } = request.caller;
      const view = await files.file(project, fromFileId(request.params.id));
      request.audited = { id: view.id };
      return sendDownload(request, reply, contentOf(view, files), context, keyId);
    },
  });
}

function registerRemove(app: FastifyInstance, { files }: ServiceContext): void {
  app.delete<ById>("/v1/files/:id", {
    config: { scope: "files:write", event: "file.deleted" },
    schema: {
      summary: "Erase a file that no batch is working on (OpenAI)",
      tags: ["openai"],
      params: idParameter,
      response: { 200: fileDeleted, ...failures(409) },
    },
    handler: async (request) => {
      const { caller, params } = request;
      const id = fromFileId(params.id);
      await files.remove(caller.project, id);
      request.audited = { id };
      return { id: params.id, object: "file", deleted: true };
    },
  });
}

function objectOf({ id, bytes, createdWallMs, name, purpose }: FileView): z.infer<typeof fileObject> {
  return {
    id: toFileId(id),
    object: "file",
    bytes,
    created_at: secondsOf(createdWallMs),
    filename: name,
    purpose,
    status: "processed",
  };
}
