/**
 * A server that speaks docling-serve's v1 interface as its documentation has it, and refuses what it would refuse: forms and bodies of another
 * shape (422), requests without the key (401), tasks it does not know (404). A result is given once.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { z } from "../../../src/schema.ts";

export interface DoclingServer {
  readonly url: string;
  /** Method and path of each request, and what was submitted. */
  readonly requests: string[];
  readonly submitted: Submitted[];
  /** How often a poll says `started` before `success`. */
  polls: number;
  /** Answers in place of the next requests. */
  readonly instead: {
    readonly status: number;
    readonly headers?: Record<string, string>;
    readonly body?: string;
  }[];
  /** What a conversion ends as. */
  outcome: "success" | "partial_success" | "failure";
  /** Whether results are gone though their tasks are known. */
  isResultLost: boolean;
  /** Forgets all tasks and results. */
  forget(): void;
  close(): Promise<void>;
}

export interface Submitted {
  readonly options: Record<string, unknown>;
  readonly name?: string;
  readonly type?: string;
  readonly bytes?: Buffer;
  readonly sources?: unknown;
}

const optionsSchema = z.strictObject({
  to_formats: z.array(z.enum(["md", "json", "html", "text", "doctags"])),
  image_export_mode: z.enum(["placeholder", "embedded", "referenced"]),
  do_ocr: z.boolean(),
  force_ocr: z.boolean(),
  ocr_lang: z.array(z.string()).optional(),
  table_mode: z.enum(["fast", "accurate"]).optional(),
});
const sourceSchema = z.strictObject({
  options: optionsSchema,
  sources: z.array(z.strictObject({ kind: z.literal("http"), url: z.url() })).length(1),
  target: z.strictObject({ kind: z.literal("inbody") }),
});

export async function startDocling(apiKey: string): Promise<DoclingServer> {
  const tasks = new Map<string, { polls: number; readonly submitted: Submitted }>();
  const server: Omit<DoclingServer, "url"> = {
    requests: [],
    submitted: [],
    polls: 1,
    instead: [],
    outcome: "success",
    isResultLost: false,
    forget: () => tasks.clear(),
    close: () => new Promise((resolve) => http.close(() => resolve()).closeAllConnections()),
  };
  let made = 0;
  const http = createServer((request, response) => {
    void handle(request, response).catch((error: Error) => reply(response, 422, { detail: error.message }));
  });
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? "", "http://docling");
    server.requests.push(`${request.method} ${url.pathname}${url.search}`);
    const instead = server.instead.shift();
    if (instead !== undefined)
      return void response.writeHead(instead.status, instead.headers).end(instead.body);
    if (request.headers["x-api-key"] !== apiKey)
      return reply(response, 401, { detail: "Api key is required" });
    const [, id = ""] = /^\/v1\/(?:status\/poll|result)\/([^/]+)$/.exec(url.pathname) ?? [];
    if (url.pathname.endsWith("/async")) {
      const submitted = await submittedOf(url.pathname, request, Buffer.concat(chunks));
      server.submitted.push(submitted);
      made += 1;
      tasks.set(`task-${made}`, { polls: server.polls, submitted });
      return reply(response, 200, status(`task-${made}`, "pending"));
    }
    const task = tasks.get(id);
    if (task === undefined) return reply(response, 404, { detail: "Task not found." });
    if (url.pathname.startsWith("/v1/status/")) {
      if (!(Number(url.searchParams.get("wait")) > 0)) throw new Error("no wait");
      task.polls -= 1;
      if (task.polls >= 0) return reply(response, 200, status(id, "started"));
      return reply(response, 200, status(id, server.outcome === "failure" ? "failure" : "success"));
    }
    tasks.delete(id);
    if (server.isResultLost) return reply(response, 404, { detail: "Task result not found." });
    reply(response, 200, resultOf(task.submitted, server.outcome));
  };
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return Object.assign(server, { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}` });
}

async function submittedOf(path: string, request: IncomingMessage, body: Buffer): Promise<Submitted> {
  const type = request.headers["content-type"] ?? "";
  if (path === "/v1/convert/source/async") {
    if (type !== "application/json") throw new Error("no JSON");
    const { options, sources } = sourceSchema.parse(JSON.parse(body.toString()));
    return { options, sources };
  }
  if (path !== "/v1/convert/file/async") throw new Error("no such path");
  const form = await new Response(body, { headers: { "content-type": type } }).formData();
  const file = form.get("files");
  if (!(file instanceof File) || form.getAll("files").length !== 1) throw new Error("no file");
  if (form.get("target_type") !== "inbody") throw new Error("no target");
  const flag = (name: string): unknown => ({ true: true, false: false })[String(form.get(name))];
  const options = optionsSchema.parse({
    to_formats: form.getAll("to_formats"),
    image_export_mode: form.get("image_export_mode"),
    do_ocr: flag("do_ocr"),
    force_ocr: flag("force_ocr"),
    ...(form.has("ocr_lang") ? { ocr_lang: form.getAll("ocr_lang") } : {}),
    ...(form.has("table_mode") ? { table_mode: form.get("table_mode") } : {}),
  });
  const bytes = Buffer.from(await file.arrayBuffer());
  return { options, name: file.name, type: file.type, bytes };
}

function status(id: string, task_status: string): object {
  return { task_id: id, task_type: "convert", task_status, task_position: 1, task_meta: null };
}

function resultOf({ options, name = "remote" }: Submitted, outcome: string): object {
  const [format] = options["to_formats"] as string[];
  const document = {
    filename: name,
    md_content: format === "md" ? `# ${name}` : null,
    text_content: format === "text" ? name : null,
    json_content: format === "json" ? { schema_name: "DoclingDocument", name } : null,
    html_content: null,
    doctags_content: null,
  };
  return { document, status: outcome, errors: [], processing_time: 0.1, timings: {} };
}

function reply(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
}
