/**
 * Files over HTTP: PUT /v0/files/{file_name} (interface 4.4), and what perigee adds: list, show, read, erase.
 *
 * Bytes are written to the disk as they arrive. Limits: those of `Files` (2 GiB, 5,000,000 lines), 20 uploads of one key at a time.
 */
import { z } from "../../schema.ts";
import { type FilePurpose, type FileView, isMimeType } from "../../tasks/files/files.ts";
import type { ServiceContext } from "../context.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { unchanged } from "../shapes/infer_schema.ts";
import { afterId, pageFields, pageOf } from "../shapes/list_page.ts";
import { timestamp } from "../shapes/timestamp.ts";
import { sendDownload } from "./download.ts";
import { fileField, registerForms, takeFile } from "./form.ts";

const fileFields = {
  file_id: z.string().describe("Id of the file; immutable, for any name."),
  file_name: z.string(),
  bytes: z.number().int().min(0),
  mime_type: z.string(),
};
const purpose = z
  .enum(["batch", "batch_output", "user_data"])
  .describe("batch: requests; batch_output: answers; user_data: any bytes, for satellites.");
const uploadedFile = z.object(fileFields).meta({ id: "File" });
const fileDetails = z
  .object({
    ...fileFields,
    created_at: z.iso.datetime(),
    purpose,
    sha256: z.string().describe("Of the bytes, hexadecimal."),
    items: z.number().int().min(0).describe("Lines with something on them; 0 for user_data."),
  })
  .meta({ id: "FileDetails" });
const fileList = z.object({ files: z.array(fileDetails), ...pageFields }).meta({ id: "FileList" });
const deletedFile = z.object({ file_id: z.string(), deleted: z.literal(true) }).meta({ id: "DeletedFile" });
const fileId = z.strictObject({ file_id: z.string() });
const fileName = z.strictObject({ file_name: z.string() });
const listQuery = z.strictObject({
  after: afterId(),
  limit: z.coerce.number().int().min(1).max(1_000).default(1_000),
  purpose: purpose.optional(),
});
const uploadQuery = z.strictObject({
  purpose: z
    .enum(["batch", "user_data"])
    .default("batch")
    .describe("What the file is: requests, which are checked, or any bytes, for satellites."),
});

interface ById {
  Params: { file_id: string };
}

/** Reads need `files:read`, the others `files:write`. */
export function registerFileRoutes(app: FastifyInstance, context: ServiceContext): void {
  registerForms(app, (scope) => registerUpload(scope, context));
  registerReads(app, context);
  registerContent(app, context);
  registerRemove(app, context);
}

const uploadForm = z.object({ file: fileField });

function registerUpload(app: FastifyInstance, { files, clock, transfers }: ServiceContext): void {
  app.put<{
    Params: { file_name: string };
    Querystring: { purpose: "batch" | "user_data" };
  }>("/v0/files/:file_name", {
    config: { scope: "files:write", event: "file.uploaded", form: uploadForm },
    schema: {
      summary: "Upload a file",
      description:
        "A form (multipart/form-data) with one field named file: JSONL, one request on each line; with purpose=user_data any bytes. Every upload makes a new file; the name is only shown.",
      tags: ["files"],
      consumes: ["multipart/form-data"],
      params: fileName,
      querystring: uploadQuery,
      response: { 200: uploadedFile },
    },
    handler: async (request) => {
      const over = transfers.uploads.begin(request.caller.keyId);
      try {
        const { project } = request.caller;
        const name = request.params.file_name;
        const { purpose } = request.query;
        const view = await takeFile(request, { clock, fieldNames: [] }, ({ chunks, mimeType }) =>
          files.put(project, { name, purpose, chunks, ...typeOf(mimeType) }),
        );
        request.audited = { id: view.id };
        return headOf(view);
      } finally {
        over();
      }
    },
  });
}

function registerReads(app: FastifyInstance, { files }: ServiceContext): void {
  app.get<{ Querystring: { after?: string; limit: number; purpose?: FilePurpose } }>("/v0/files/", {
    config: { scope: "files:read" },
    schema: {
      summary: "The files of the project, newest first",
      tags: ["files"],
      querystring: listQuery,
      response: { 200: fileList },
    },
    handler: async ({ caller, query }) => {
      const { items, hasMore } = await files.list(caller.project, query);
      return { files: items.map(detailsOf), ...pageOf(items, hasMore) };
    },
  });
  app.get<ById>("/v0/files/:file_id", {
    config: { scope: "files:read" },
    schema: {
      summary: "What is known of a file",
      tags: ["files"],
      params: fileId,
      response: { 200: fileDetails },
    },
    handler: async ({ caller, params }) => detailsOf(await files.file(caller.project, params.file_id)),
  });
}

function registerContent(app: FastifyInstance, context: ServiceContext): void {
  const { files } = context;
  app.route<ById>({
    method: ["GET", "HEAD"],
    url: "/v0/files/:file_id/content",
    config: { scope: "files:read", event: "file.downloaded" },
    schema: {
      summary: "The bytes of a file",
      tags: ["files"],
      params: fileId,
      produces: ["application/jsonl", "application/octet-stream"],
      response: { 200: z.string(), 206: z.string(), 304: unchanged, ...failures(410, 416) },
    },
    handler: async (request, reply) => {
      const { project, keyId } = request.caller;
      const view = await files.file(project, request.params.file_id);
      return sendDownload(request, reply, contentOf(view, files), context, keyId);
    },
  });
}

function registerRemove(app: FastifyInstance, { files }: ServiceContext): void {
  app.delete<ById>("/v0/files/:file_id", {
    config: { scope: "files:write", event: "file.deleted" },
    schema: {
      summary: "Erase a file that no task is working on",
      tags: ["files"],
      params: fileId,
      response: { 200: deletedFile, ...failures(409) },
    },
    handler: async ({ caller, params }) => {
      await files.remove(caller.project, params.file_id);
      return { file_id: params.file_id, deleted: true };
    },
  });
}

/** The type that a form names for its file; one that cannot be returned is left out. */
export function typeOf(given: string | undefined): { readonly mimeType?: string } {
  return isMimeType(given) ? { mimeType: given } : {};
}

/** A file as something to download. */
export function contentOf(
  view: FileView,
  files: Pick<ServiceContext["files"], "read">,
): Parameters<typeof sendDownload>[2] {
  return {
    name: view.name,
    mimeType: view.mimeType,
    isComplete: true,
    bytes: view.bytes,
    etag: `"${view.sha256.slice(0, 32)}"`,
    read: (range) => files.read(view.project, view.id, range),
  };
}

function headOf({ id, name, bytes, mimeType }: FileView): z.infer<typeof uploadedFile> {
  return { file_id: id, file_name: name, bytes, mime_type: mimeType };
}

function detailsOf(view: FileView): z.infer<typeof fileDetails> {
  const { createdWallMs, purpose, sha256, items } = view;
  return { ...headOf(view), created_at: timestamp(createdWallMs), purpose, sha256, items };
}
