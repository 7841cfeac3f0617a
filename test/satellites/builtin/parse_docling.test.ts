import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseWithDocling } from "../../../src/satellites/builtin/parse_with_docling/parse_with_docling.ts";
import type { Files } from "../../../src/tasks/files/files.ts";
import type { Json } from "../../../src/work/json.ts";
import { chunked, FileWorld, textOf } from "../../tasks/files.ts";
import { type DoclingServer, startDocling } from "./docling_server.ts";
import { type Attempt, attempt, failedAttempt, MemoryNotes } from "./one_attempt.ts";

const satellite = parseWithDocling();
const PNG = Buffer.from("89504e470d0a1a0a00ff0d0a2d2d", "hex");

let server: DoclingServer;
let files: Files;
let file: { readonly file_id: string };

beforeEach(async () => {
  server = await startDocling("docling-key");
  files = await new FileWorld().files();
  const given = { name: 'scan "1".png', purpose: "user_data" as const, mimeType: "image/png" };
  file = { file_id: (await files.put("one", { ...given, chunks: chunked(PNG) })).id };
});
afterEach(() => server.close());

const given = (more: Partial<Attempt> = {}, settings: object = {}): Attempt => ({
  input: { file },
  config: { server: { url: `${server.url}/`, api_key: "docling-key", ...settings } },
  fileStore: files,
  ...more,
});
const pathsOf = () => server.requests.map((request) => request.replace(/\?.*/, ""));

describe("parse-with-docling with a server", () => {
  it("submits a file as a form, polls, reads the result once, and keeps it", async () => {
    const output = await attempt(
      satellite,
      given({}, { ocr: "always", ocr_languages: ["en", "de"], tables: "fast" }),
    );
    expect(output).toMatchObject({
      name: 'scan "1".png',
      engine: "docling",
      package: null,
      format: "markdown",
      text: '# scan "1".png',
      is_partial: false,
      pages_without_text: [],
      file: { name: 'scan "1".png.md', mime_type: "text/markdown; charset=utf-8" },
    });
    expect(server.submitted).toEqual([
      {
        options: {
          to_formats: ["md"],
          image_export_mode: "placeholder",
          do_ocr: true,
          force_ocr: true,
          ocr_lang: ["en", "de"],
          table_mode: "fast",
        },
        name: 'scan "1".png',
        type: "image/png",
        bytes: PNG,
      },
    ]);
    expect(server.requests).toEqual([
      "POST /v1/convert/file/async",
      "GET /v1/status/poll/task-1?wait=10",
      "GET /v1/status/poll/task-1?wait=10",
      "GET /v1/result/task-1",
    ]);
    const { file_id } = output["file"] as { readonly file_id: string };
    expect(await textOf(files.read("one", file_id))).toBe('# scan "1".png');
  });

  it("asks the server nothing again once the result is kept", async () => {
    const notes = new MemoryNotes();
    const first = await attempt(satellite, given({ notes }));
    const before = server.requests.length;
    server.forget();
    expect(await attempt(satellite, given({ notes }))).toEqual(first);
    expect(server.requests).toHaveLength(before);
  });

  it.each(["task noted", "result read"])("goes on after a crash once it has the %s", async (when) => {
    const notes = new (class extends MemoryNotes {
      override async set(name: string, value: Json): Promise<void> {
        await super.set(name, value);
        if (when === "task noted") throw new Error("killed");
      }
    })();
    const dying: Files = {
      ...files,
      file: (project, id) => files.file(project, id),
      read: (project, id) => files.read(project, id),
      put: () => Promise.reject(new Error("killed")),
    };
    const crash = given({ notes, ...(when === "result read" ? { fileStore: dying } : {}) });
    await expect(attempt(satellite, crash)).rejects.toThrow("killed");
    const later = new MemoryNotes();
    for (const [name, value] of notes.all) later.all.set(name, value);
    expect(await attempt(satellite, given({ notes: later }))).toMatchObject({ text: '# scan "1".png' });
    // A result that was given is gone there: the document is converted again.
    expect(server.submitted).toHaveLength(when === "result read" ? 2 : 1);
  });

  it("is repeated, and submitted again, where the server has lost the result", async () => {
    server.isResultLost = true;
    const notes = new MemoryNotes();
    expect(await failedAttempt(satellite, given({ notes }))).toMatchObject({
      failure: "ambiguous",
      code: "result_lost",
    });
    server.isResultLost = false;
    expect(await attempt(satellite, given({ notes }))).toMatchObject({ engine: "docling" });
    expect(server.submitted).toHaveLength(2);
  });

  it("submits again when the server has forgotten the task", async () => {
    const notes = new MemoryNotes();
    await notes.set("document task", "task-of-before");
    expect(await attempt(satellite, given({ notes }))).toMatchObject({ engine: "docling" });
    expect(pathsOf().slice(0, 2)).toEqual([
      "GET /v1/status/poll/task-of-before",
      "POST /v1/convert/file/async",
    ]);
  });

  it("lets the server fetch a URL when the config says so, and fetches it by itself otherwise", async () => {
    const input = { url: "https://example.com/docs/a.pdf", format: "json" };
    const output = await attempt(satellite, given({ input }, { fetch_urls: "server" }));
    expect(output).toMatchObject({ name: "a.pdf", data: { schema_name: "DoclingDocument" }, text: null });
    expect(server.submitted[0]?.sources).toEqual([{ kind: "http", url: "https://example.com/docs/a.pdf" }]);
    const own = { url: `${server.url}/v1/none.html` };
    server.instead.push({ status: 200, headers: { "content-type": "text/html" }, body: "<p>" });
    await attempt(satellite, given({ input: own, executionId: "own" }));
    expect(server.submitted[1]).toMatchObject({
      name: "none.html",
      type: "text/html",
      bytes: Buffer.from("<p>"),
    });
  });

  it.each([
    [503, { "retry-after": "7" }, { failure: "refused", retryAfterMs: 7_000 }],
    [429, {}, { failure: "refused" }],
    [500, {}, { failure: "ambiguous" }],
    [401, {}, { failure: "permanent", code: "http_401" }],
    [422, {}, { failure: "permanent", code: "http_422" }],
    [200, {}, { failure: "permanent", code: "invalid_answer" }],
  ])("an answer of %i to a submission is a failure of its kind", async (status, headers, failure) => {
    server.instead.push({ status, headers, body: '{"task_id":"../x","task_status":"pending"}' });
    expect(await failedAttempt(satellite, given())).toMatchObject(failure);
    expect(server.submitted).toEqual([]);
  });

  it("reports a document that cannot be converted, and one that is converted in part", async () => {
    server.outcome = "failure";
    expect(await failedAttempt(satellite, given())).toMatchObject({
      failure: "permanent",
      code: "conversion_failed",
    });
    server.outcome = "partial_success";
    const notes = new MemoryNotes();
    const output = await attempt(satellite, given({ executionId: "partial", notes }));
    expect(output).toMatchObject({ is_partial: true });
    expect(await attempt(satellite, given({ executionId: "partial", notes }))).toEqual(output);
  });

  it("connects only where the guard allows it, and shows no key", async () => {
    const closed = given({ egress: { allow: undefined as never } });
    const error = await failedAttempt(satellite, closed);
    expect(error).toMatchObject({ failure: "permanent", code: "blocked_destination" });
    const wrong = await failedAttempt(satellite, given({}, { api_key: "wrong-secret" }));
    expect(wrong).toMatchObject({ failure: "permanent", code: "http_401" });
    expect(String(wrong)).not.toContain("wrong-secret");
  });

  it("stops with the execution while it waits", async () => {
    server.polls = 1_000;
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error("cancelled")), 200);
    await expect(attempt(satellite, given({ signal: stop.signal }))).rejects.toThrow("cancelled");
  });
});
