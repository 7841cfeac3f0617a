/**
 * Files that work over HTTP names: the caller's own stored files are read, and nothing else of the machine.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createPerigeeService, type PerigeeService } from "../../src/service/index.ts";

const SCOPES = new Set(["infer:read", "infer:write", "files:read", "files:write"] as const);
const SECRET = "never to be sent";
const PICTURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 1, 2, 3]);

let folder: string;
let provider: Server;
let service: PerigeeService;
let url: string;
let bodies: string[];
/** Answers wait for it. */
let released: Promise<unknown>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "perigee-service-media-"));
  writeFileSync(join(folder, "secret.png"), SECRET);
  provider = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", async () => {
      bodies.push(body);
      await released;
      response.writeHead(200, { "content-type": "application/json" });
      response.end('{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}');
    });
  });
  provider.listen(0, "127.0.0.1");
  await once(provider, "listening");
  const { port } = provider.address() as AddressInfo;
  service = await createPerigeeService({
    ...{ dataDir: join(folder, "data"), env: {}, threads: 1 },
    providers: { local: { baseUrl: `http://127.0.0.1:${port}/v1`, needsKey: false } },
    verifier: {
      verify: (header) => {
        const project = /^Bearer (\w+)$/.exec(header ?? "")?.[1];
        return project === undefined ? undefined : { keyId: project, project, scopes: SCOPES, isBeta: false };
      },
    },
  });
  url = await service.listen({ port: 0 });
});
beforeEach(() => {
  bodies = [];
  released = Promise.resolve();
});
afterAll(async () => {
  await service.close();
  provider.closeAllConnections();
  provider.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Shown {
  readonly file_id: string;
  readonly task_id: string;
  readonly status: string;
  readonly objects: readonly { readonly output?: object; readonly error?: { readonly code: string } }[];
}

async function call(method: string, path: string, body?: unknown, project = "red") {
  const isForm = body instanceof FormData;
  const response = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${project}`,
      ...(isForm || body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Shown };
}

async function stored(content: Uint8Array | string, purpose: "batch" | "user_data"): Promise<string> {
  const form = new FormData();
  form.append("file", new Blob([Uint8Array.from(Buffer.from(content))]), "a.jsonl");
  return (await call("PUT", `/v0/files/a.jsonl?purpose=${purpose}`, form)).body.file_id;
}

const asking = (file: object) => ({
  model: "local:m",
  contents: [{ parts: [{ text: "?" }, { file_data: file }] }],
});

async function ended(id: string): Promise<Shown> {
  for (let waited = 0; ; waited += 20) {
    const { body } = await call("GET", `/v0/infer/task/${id}`);
    if (body.status === "completed") return body;
    if (waited > 5_000) throw new Error(JSON.stringify(body));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("work over HTTP that names files", () => {
  it("is sent with the content of a file that its own project has stored", async () => {
    const file_id = await stored(PICTURE, "user_data");
    const { body } = await call("POST", "/v0/infer/", [asking({ file_id, mime_type: "image/png" })]);
    expect(body).toMatchObject({ status: "completed", objects: [{ output: { text: "yes" } }] });
    const request = asking({ file_id: `file-${file_id.replaceAll("-", "")}`, mime_type: "image/png" }); // as OpenAI's clients know it
    const lines = await stored(`${JSON.stringify({ key: "a", request })}\n`, "batch");
    const task = await call("POST", "/v0/infer/", [{ file_id: lines }]);
    expect((await ended(task.body.task_id)).objects).toMatchObject([{ output: { text: "yes" } }]);
    expect(bodies).toHaveLength(2);
    for (const sent of bodies)
      expect(JSON.parse(sent).messages[0].content[1].image_url.url).toBe(
        `data:image/png;base64,${PICTURE.toString("base64")}`,
      );
  });

  it("is not sent with a file of another project, which does not exist for it", async () => {
    const file_id = await stored(PICTURE, "user_data");
    const item = asking({ file_id, mime_type: "image/png" });
    const { body } = await call("POST", "/v0/infer/", [item], "blue");
    const message = expect.stringContaining("is not in the project: it was deleted, or never stored there");
    expect(body.objects).toMatchObject([{ error: { code: "media_unreadable", message } }]);
    expect(bodies).toEqual([]);
  });

  it("never reads a local path, wherever it is named", async () => {
    const path = join(folder, "secret.png");
    expect((await call("POST", "/v0/infer/", [asking({ path })])).status).toBe(422);
    const result = { name: "f", id: "c1", response: { output: "x" }, parts: [{ file_data: { path } }] };
    const turns = [
      { role: "user", parts: [{ text: "?" }] },
      { role: "model", parts: [{ function_call: { name: "f", id: "c1", args: {} } }] },
      { role: "user", parts: [{ function_response: result }, { text: "!" }] },
    ];
    await call("POST", "/v0/infer/", [{ model: "local:m", contents: turns }]);
    const lines = [path, `file://${path}`, "../secret.png", "../../secret.png"].map((one, index) =>
      JSON.stringify({ key: `k${index}`, request: asking({ path: one, mime_type: "image/png" }) }),
    );
    const file = await stored(`${lines.join("\n")}\n`, "batch");
    const task = await call("POST", "/v0/infer/", [{ file_id: file }]);
    const { objects } = await ended(task.body.task_id);
    expect(objects).toHaveLength(4);
    for (const { error } of objects) expect(error).toMatchObject({ code: "media_unreadable" });
    for (const sent of bodies)
      expect(sent).not.toContain(Buffer.from(SECRET).toString("base64").slice(0, 12));
  });

  it("keeps a file that it names from being deleted until it has ended, over every route", async () => {
    const named = await stored(PICTURE, "user_data");
    const inLines = await stored(PICTURE, "user_data");
    const other = await stored(PICTURE, "user_data");
    const openAi = (id: string): string => `file-${id.replaceAll("-", "")}`;
    let release = (): void => undefined;
    released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const item = { ...asking({ file_id: openAi(named), mime_type: "image/png" }), sla: 60 };
    const posted = (await call("POST", "/v0/infer/", [item])).body.task_id;
    await call(
      "POST",
      "/v0/infer/",
      [{ ...asking({ file_id: other, mime_type: "image/png" }), sla: 60 }],
      "blue",
    );
    const head = `{"key":"a","request":${JSON.stringify(asking({ file_id: inLines, mime_type: "image/png" }))}}`;
    const idAt = head.indexOf(inLines);
    const text = "?".repeat(1024 * 1024 - idAt + 1 - 10); // so that the id lies across two blocks of what is read
    const lines = await stored(`${head.replace('"?"', `"${text}"`)}\n`, "batch");
    const large = (await call("POST", "/v0/infer/", [{ file_id: lines, sla: 60 }])).body.task_id;

    for (const [id, task] of [
      [named, posted],
      [inLines, large],
    ] as const) {
      const refused = await call("DELETE", `/v0/files/${id}`);
      expect(refused.status).toBe(409);
      expect(JSON.stringify(refused.body)).toContain(`requests of task ${task} name this file`);
      expect((await call("DELETE", `/v1/files/${openAi(id)}`)).status).toBe(409);
    }
    expect((await call("DELETE", `/v0/files/${other}`)).status).toBe(200);
    release();
    for (const task of [posted, large])
      expect((await ended(task)).objects).toMatchObject([{ output: { text: "yes" } }]);
    for (const id of [named, inLines]) expect((await call("DELETE", `/v0/files/${id}`)).status).toBe(200);
  });
});
