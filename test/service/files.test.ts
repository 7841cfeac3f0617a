import { request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { registerFileRoutes } from "../../src/service/files/files.ts";
import type { FastifyInstance } from "../../src/service/http/fastify.ts";
import type { FilesOptions } from "../../src/tasks/files/file_store.ts";
import { FileWorld, itemLines } from "../tasks/files.ts";
import { bareApp } from "./app.ts";

const LINES = '{"key":"a"}\n{"key":"b"}\n';
const alpha = { authorization: "Bearer alpha" };

let app: FastifyInstance | undefined;
afterEach(() => app?.close());

async function world(options: Partial<FilesOptions> = {}) {
  const made = new FileWorld();
  const files = await made.files(options);
  const { clock, disk } = made;
  app = bareApp({ files, clock, disk }, registerFileRoutes);
  return { app, files, clock, disk };
}

async function listening() {
  const made = await world();
  await made.app.listen({ port: 0, host: "127.0.0.1" });
  return { ...made, port: (made.app.server.address() as AddressInfo).port };
}

interface Part {
  readonly name: string;
  readonly text: string;
  readonly filename?: string;
  readonly headers?: string;
}

function form(...parts: readonly Part[]) {
  const boundary = "----perigee-test";
  const body = parts.map(({ name, text, filename, headers = "" }) => {
    const file = filename === undefined ? "" : `; filename="${filename}"`;
    return `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${headers}\r\n${text}\r\n`;
  });
  return {
    headers: { ...alpha, "content-type": `multipart/form-data; boundary=${boundary}` },
    payload: `${body.join("")}--${boundary}--\r\n`,
  };
}

const file = (text: string): Part => ({ name: "file", text, filename: "local.jsonl" });

describe("PUT /v0/files/{file_name}", () => {
  it("keeps a file and tells its id, name, size and type", async () => {
    const { app, files } = await world();
    const response = await app.inject({ method: "PUT", url: "/v0/files/in.jsonl", ...form(file(LINES)) });
    expect(response.statusCode).toBe(200);
    const body = response.json();
    expect(body).toEqual({
      file_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      file_name: "in.jsonl",
      bytes: LINES.length,
      mime_type: "application/jsonl",
    });
    expect(await files.file("alpha", body.file_id)).toMatchObject({ items: 2, purpose: "batch" });
    const slashed = await app.inject({ method: "PUT", url: "/v0/files/in.jsonl/", ...form(file(LINES)) });
    expect(slashed.json().file_name).toBe("in.jsonl");
    expect(slashed.json().file_id).not.toBe(body.file_id);
  });

  it("keeps any bytes with purpose=user_data, and returns them with the same type, to be saved", async () => {
    const { app } = await world();
    const page = {
      name: "file",
      text: "<script>\0\xff",
      filename: "a.html",
      headers: "Content-Type: text/html\r\n",
    };
    const url = "/v0/files/a.html?purpose=user_data";
    const made = (await app.inject({ method: "PUT", url, ...form(page) })).json();
    expect(made).toMatchObject({ file_name: "a.html", mime_type: "text/html" });
    const details = await app.inject({ url: `/v0/files/${made.file_id}`, headers: alpha });
    expect(details.json()).toMatchObject({ purpose: "user_data", items: 0 });
    const content = await app.inject({ url: `/v0/files/${made.file_id}/content`, headers: alpha });
    expect(content.headers).toMatchObject({
      "content-type": "text/html",
      "content-disposition": expect.stringMatching(/^attachment/),
      "x-content-type-options": "nosniff",
    });
    expect(content.body).toBe(page.text);
    const listed = await app.inject({ url: "/v0/files/?purpose=user_data", headers: alpha });
    expect(listed.json().files).toHaveLength(1);
    for (const wrong of ["batch_output", "fine-tune", ""]) {
      const refused = await app.inject({ method: "PUT", url: `/v0/files/x?purpose=${wrong}`, ...form(page) });
      expect(refused.statusCode).toBe(422);
    }
  });

  it("takes a field named file that has no file name", async () => {
    const { app } = await world();
    const sent = form({ name: "file", text: itemLines(60_000) });
    const response = await app.inject({ method: "PUT", url: "/v0/files/x", ...sent });
    expect(response.json().bytes).toBe(itemLines(60_000).length);
  });

  it.each([
    ["..%2f..%2fx", 400],
    ["%2e%2e%2f", 400],
    ["a%00b", 400],
    ["a%0d%0ab", 400],
    ["a%E2%80%AEb", 400],
    ["x".repeat(300), 400],
    ["%zz", 400],
    ["CON", 200],
    ["..jsonl", 200],
    [encodeURIComponent("ü".repeat(127)), 200],
  ])("fault 89: takes the name %s with %i", async (name, status) => {
    const { app, disk } = await world();
    const response = await app.inject({ method: "PUT", url: `/v0/files/${name}`, ...form(file(LINES)) });
    expect(response.statusCode).toBe(status);
    expect(disk.paths).toHaveLength(status === 200 ? 1 : 0);
  });

  it("fault 89: takes no path that leaves the folder", async () => {
    const { port, disk } = await listening();
    const { headers, payload } = form(file(LINES));
    for (const path of ["/v0/files/../../x", "/v0/files/a/../b", "/v0/files//x", "/v0/files/%2e%2e"]) {
      const status = await new Promise((resolve, reject) => {
        const upload = httpRequest({ port, method: "PUT", path, headers });
        upload.on("response", (response) => resolve(response.statusCode)).on("error", reject);
        upload.end(payload);
      });
      expect([400, 404]).toContain(status);
    }
    expect(disk.paths).toEqual([]);
  });

  const field = (name: string): Part => ({ name, text: "x" });
  it.each([
    ["no file", form()],
    ["only another field", form(field("data"))],
    ["another field before the file", form(field("data"), file(LINES))],
    ["another field behind the file", form(file(LINES), field("data"))],
    ["a file under another name", form({ ...file(LINES), name: "upload" })],
    ["two files", form(file(LINES), file(LINES))],
    [
      "ten thousand fields",
      form(...Array.from({ length: 10_000 }, (_, index) => field(`f${index}`)), file(LINES)),
    ],
    ["a header of 100 KB", form({ ...file(LINES), headers: `X-Large: ${"x".repeat(100_000)}\r\n` })],
    ["a name that is a property of all objects", form(field("__proto__"), file(LINES))],
    ["no boundary", { ...form(file(LINES)), headers: { ...alpha, "content-type": "multipart/form-data" } }],
    ["no last boundary", { ...form(file(LINES)), payload: form(file(LINES)).payload.slice(0, -20) }],
    ["nothing", { ...form(), payload: "" }],
  ])("fault 90: refuses a form with %s, and keeps nothing", async (_what, sent) => {
    const { app, disk, files } = await world();
    const response = await app.inject({ method: "PUT", url: "/v0/files/x", ...sent });
    expect(response.statusCode).toBe(400);
    expect(response.json().error.code).toBe("invalid_request");
    await turn();
    expect(disk.paths).toEqual([]);
    expect(disk.openFiles).toBe(0);
    expect((await files.list("alpha", { limit: 1 })).items).toEqual([]);
  });

  it.each([
    ["application/json", '{"file":1}'],
    ["application/jsonl", LINES],
    [undefined, ""],
  ])("refuses a body of type %s", async (type, payload) => {
    const { app } = await world();
    const headers = type === undefined ? alpha : { ...alpha, "content-type": type };
    const response = await app.inject({ method: "PUT", url: "/v0/files/x", headers, payload });
    expect(response.statusCode).toBe(415);
  });

  it("refuses what is too large, twice the same key, or no text", async () => {
    const { app, disk } = await world({ bounds: { bytesMax: 100 } });
    const put = (text: string) => app.inject({ method: "PUT", url: "/v0/files/x", ...form(file(text)) });
    expect((await put(itemLines(10_000))).statusCode).toBe(413);
    const twice = await put('{"key":"a"}\n{"key":"a"}\n');
    expect(twice.statusCode).toBe(422);
    expect(twice.json().error).toMatchObject({ code: "duplicate_key", details: { lines: [1, 2] } });
    expect((await put("PK\u0003\u0004")).json().error.code).toBe("unsupported_encoding");
    expect(disk.paths).toEqual([]);
  });
});

describe("files over HTTP", () => {
  async function uploaded() {
    const made = await world();
    const { id } = await made.files.put("alpha", {
      name: 'Größe "1".jsonl',
      purpose: "batch",
      chunks: [Buffer.from(LINES)] as unknown as AsyncIterable<Uint8Array>,
    });
    const get = (
      path: string,
      headers: Record<string, string> = {},
      method: "GET" | "HEAD" | "DELETE" = "GET",
    ) => made.app.inject({ method, url: path, headers: { ...alpha, ...headers } });
    return { ...made, id, get };
  }

  it("are listed and shown", async () => {
    const { get, id } = await uploaded();
    const details = (await get(`/v0/files/${id}`)).json();
    expect(details).toMatchObject({ file_id: id, bytes: LINES.length, items: 2, purpose: "batch" });
    expect(details.created_at).toBe("1970-01-01T00:00:01.000Z");
    expect((await get("/v0/files")).json()).toEqual({ files: [details], has_more: false, last_id: id });
    expect((await get("/v0/files/?purpose=batch_output")).json().files).toEqual([]);
    expect((await get("/v0/files?limit=0")).statusCode).toBe(422);
    expect((await get("/v0/files?after=unknown")).statusCode).toBe(404);
  });

  it("are read whole, in part, and not again when the reader has them", async () => {
    const { get, id } = await uploaded();
    const whole = await get(`/v0/files/${id}/content`);
    expect(whole.body).toBe(LINES);
    expect(whole.headers).toMatchObject({
      "content-type": "application/jsonl",
      "content-length": String(LINES.length),
      "accept-ranges": "bytes",
      "cache-control": "private, no-store",
      "x-content-type-options": "nosniff",
      "content-disposition":
        "attachment; filename=\"Gr__e _1_.jsonl\"; filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%221%22.jsonl",
    });
    const etag = String(whole.headers["etag"]);
    const part = await get(`/v0/files/${id}/content`, { range: "bytes=2-4", "if-range": etag });
    expect(part).toMatchObject({ statusCode: 206, body: "key" });
    expect(part.headers["content-range"]).toBe(`bytes 2-4/${LINES.length}`);
    expect(await get(`/v0/files/${id}/content`, { range: "bytes=2-4", "if-range": '"old"' })).toMatchObject({
      statusCode: 200,
      body: LINES,
    });
    const beyond = await get(`/v0/files/${id}/content`, { range: "bytes=99-" });
    expect(beyond.statusCode).toBe(416);
    expect(beyond.headers["content-range"]).toBe(`bytes */${LINES.length}`);
    const again = await get(`/v0/files/${id}/content`, { "if-none-match": etag });
    expect(again).toMatchObject({ statusCode: 304, body: "" });
    const head = await get(`/v0/files/${id}/content`, {}, "HEAD");
    expect(head).toMatchObject({ statusCode: 200, body: "" });
    expect(head.headers["content-length"]).toBe(String(LINES.length));
  });

  it("are erased, unless a task works on them", async () => {
    const { get, id, files, disk } = await uploaded();
    const release = files.hold(id);
    expect((await get(`/v0/files/${id}`, {}, "DELETE")).statusCode).toBe(409);
    release();
    expect((await get(`/v0/files/${id}`, {}, "DELETE")).json()).toEqual({ file_id: id, deleted: true });
    expect((await get(`/v0/files/${id}`)).statusCode).toBe(404);
    expect(disk.paths).toEqual([]);
  });

  // Fault 86.
  it("are not there for other projects", async () => {
    const { get, id } = await uploaded();
    const beta = { authorization: "Bearer beta" };
    const unknown = "11111111-2222-4333-8444-555555555555";
    for (const tail of ["", "/content"]) {
      const foreign = await get(`/v0/files/${id}${tail}`, beta);
      expect(foreign.statusCode).toBe(404);
      expect((await get(`/v0/files/${unknown}${tail}`, beta)).body).toBe(foreign.body);
    }
    expect((await get(`/v0/files/${id}`, beta, "DELETE")).statusCode).toBe(404);
    expect((await get("/v0/files", beta)).json().files).toEqual([]);
  });
});

describe("fault 83: uploads over a socket", () => {
  /** Begins an upload of one file and leaves it open. */
  function begin(port: number, onAnswer: (status: number) => void = () => undefined) {
    const { headers, payload } = form(file("{"));
    const upload = httpRequest({
      port,
      method: "PUT",
      path: "/v0/files/x",
      headers: { ...headers, "content-length": 10_000 },
    });
    upload.on("response", (response) => onAnswer(response.statusCode ?? 0));
    upload.on("error", () => onAnswer(0));
    upload.write(payload.slice(0, payload.indexOf("{") + 1));
    return upload;
  }

  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await turn();
  }

  it("that are too large are refused before they come", async () => {
    const { port } = await listening();
    const { headers } = form(file(""));
    const length = { "content-length": 3 * 1024 ** 3 };
    const status = await new Promise((resolve) => {
      const upload = httpRequest({
        port,
        method: "PUT",
        path: "/v0/files/x",
        headers: { ...headers, ...length },
      });
      upload.on("response", (response) => {
        resolve(response.statusCode);
        upload.destroy();
      });
      upload.flushHeaders();
    });
    expect(status).toBe(413);
  });

  it("leave nothing when the client leaves", async () => {
    const { port, disk } = await listening();
    const upload = begin(port);
    await until(() => disk.paths.length === 1);
    upload.destroy();
    await until(() => disk.paths.length === 0);
    expect(disk.openFiles).toBe(0);
  });

  it("are closed when nothing arrives for a minute", async () => {
    const { port, disk, clock } = await listening();
    const answered = new Promise((resolve) => begin(port, resolve));
    await until(() => disk.paths.length === 1);
    await clock.advance(59_000);
    expect(disk.paths).toHaveLength(1);
    await clock.advance(2_000);
    expect(await answered).toBe(0);
    await until(() => disk.paths.length === 0);
  });

  it("are at most twenty of one key at a time", async () => {
    const { app, port, disk } = await listening();
    const open = Array.from({ length: 20 }, () => begin(port));
    await until(() => disk.paths.length === 20);
    const more = await new Promise((resolve) => open.push(begin(port, resolve)));
    expect(more).toBe(429);
    const other = form(file(LINES));
    const headers = { ...other.headers, authorization: "Bearer beta" };
    expect((await app.inject({ method: "PUT", url: "/v0/files/x", ...other, headers })).statusCode).toBe(200);
    for (const upload of open) upload.destroy();
    await until(() => disk.paths.length === 1);
    expect((await app.inject({ method: "PUT", url: "/v0/files/x", ...other })).statusCode).toBe(200);
  });
});
