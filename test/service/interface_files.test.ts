/** The interface's files (2.4 to 2.6, 4.4, 4.5): uploads, the lines in them, and the file of answers. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type Answer,
  type Call,
  completedTask,
  type HeldProvider,
  line,
  lines,
  type Service,
  sendExactly,
  startHeldProvider,
  startService,
  submit,
  UUID,
  upload,
} from "./serving.ts";

const JSONL = { "output-format": "jsonl" };

let service: Service;
let held: HeldProvider;
let key: string;
let call: Call;

beforeAll(async () => {
  held = await startHeldProvider();
  service = await startService(held.env);
  key = (await service.createKey("acme")).key;
  call = service.caller(`Bearer ${key}`);
});
afterAll(async () => {
  await service.stop();
  await held.stop();
});
afterEach(() => held.release());

/** Uploads and submits a file, and returns the lines of its output once it is completed. */
async function answered(content: string, item: Record<string, unknown> = { sla: 60 }): Promise<unknown[]> {
  const file = await upload(call, "in.jsonl", content);
  const { body } = await submit(call, [{ file_id: file.body.file_id, ...item }], JSONL);
  await completedTask(call, body.task_id);
  return parsed(await call("GET", body.output_url));
}

/** The lines of a download by their keys, each of them parsed by itself. */
function parsed(answer: Answer): unknown[] {
  expect(answer.status).toBe(200);
  expect(answer.text === "" || answer.text.endsWith("\n")).toBe(true);
  const values = answer.text
    .split("\n")
    .slice(0, -1)
    .map((text) => JSON.parse(text) as { key: string });
  return values.sort((a, b) => (String(a.key) < String(b.key) ? -1 : 1));
}

describe("2.4 files", () => {
  it("answers an upload with file_id, file_name, bytes and mime_type", async () => {
    const content = lines(line("a", "grüße"));
    const file = await upload(call, "questions.jsonl", content);
    expect(file.status).toBeOneOf([200, 201]);
    expect(file.body).toMatchObject({
      file_id: UUID,
      file_name: "questions.jsonl",
      bytes: Buffer.byteLength(content),
      mime_type: "application/jsonl",
    });
  });

  it("names the file by the path, not by the form", async () => {
    const form = new FormData();
    form.set("file", new Blob([lines(line("a", "x"))]), "/etc/passwd");
    expect(await call("PUT", "/v0/files/mine.jsonl", { body: form })).toMatchObject({
      body: { file_name: "mine.jsonl", mime_type: "application/jsonl" },
    });
  });

  it("takes a name that has to be written with percent signs", async () => {
    const file = await upload(call, encodeURIComponent("fragen für heute 1.jsonl"), lines(line("a", "x")));
    expect(file.body).toMatchObject({ file_id: UUID, file_name: "fragen für heute 1.jsonl" });
  });

  it("makes a new file of every upload of a name, and the earlier one stays what it was", async () => {
    const first = await upload(call, "same.jsonl", lines(line("a", "first")));
    const second = await upload(call, "same.jsonl", lines(line("a", "second")));
    expect(second.body.file_id).not.toBe(first.body.file_id);
    for (const [file, text] of [
      [first, "first"],
      [second, "second"],
    ] as const) {
      const task = await submit(call, [{ file_id: file.body.file_id }]);
      expect(task.body.objects[0]).toMatchObject({ output: { text } });
    }
  });

  it("answers uploads in both slash forms alike", async () => {
    for (const name of ["in.jsonl", "in.jsonl/"]) {
      const file = await upload(call, name, lines(line("a", "x")));
      expect(file.status).toBeOneOf([200, 201]);
      expect(file.body).toMatchObject({ file_id: UUID, file_name: "in.jsonl" });
    }
  });

  it("may be used by several tasks", async () => {
    const { file_id } = (await upload(call, "in.jsonl", lines(line("a", "x")))).body;
    const tasks = [await submit(call, [{ file_id }]), await submit(call, [{ file_id }])];
    expect(tasks).toMatchObject([{ body: { status: "completed" } }, { body: { status: "completed" } }]);
    expect(tasks[0]?.body.task_id).not.toBe(tasks[1]?.body.task_id);
  });
});

/** Beside the output of every answer of the echo provider, which has no ids of requests. */
const ANSWERED = {
  finish_reason: "stop",
  model: "echo:small",
  usage: {
    input_tokens: expect.any(Number),
    cached_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: expect.any(Number),
    reasoning_tokens: 0,
  },
  cost: { list_usd: 0, billed_usd: 0, ambiguous_usd: 0, tier: null, price_version: expect.anything() },
  latency_ms: expect.any(Number),
  attempts: 1,
};

describe("2.5 input lines", () => {
  it("carry key, contents, generation_config and model", async () => {
    const request = {
      model: "echo:small",
      contents: [{ parts: [{ text: "What is a quark?" }] }],
      generation_config: { temperature: 0.2 },
    };
    expect(await answered(lines({ key: "q1", request }))).toEqual([
      { key: "q1", output: { type: "text", text: "What is a quark?" }, ...ANSWERED },
    ]);
  });

  it("need no generation_config", async () => {
    const request = { model: "echo:small", contents: [{ parts: [{ text: "hi" }] }] };
    expect(await answered(lines({ key: "q1", request }))).toMatchObject([
      { key: "q1", output: { text: "hi" } },
    ]);
  });

  it("may have several parts in their contents", async () => {
    const contents = [{ parts: [{ text: "one " }, { text: "two" }] }];
    const [output] = await answered(lines({ key: "q1", request: { model: "echo:small", contents } }));
    expect(output).toMatchObject({ key: "q1", output: { text: expect.stringMatching(/one[\s\S]*two/) } });
  });

  it("may be in OpenAI's batch layout", async () => {
    const body = { model: "echo:small", messages: [{ role: "user", content: "hello" }], temperature: 0.2 };
    const text = lines({ custom_id: "q1", method: "POST", url: "/v1/chat/completions", body });
    expect(await answered(text)).toEqual([
      { key: "q1", output: { type: "text", text: "hello" }, ...ANSWERED },
    ]);
  });

  it("may be of both layouts in one file", async () => {
    const body = { model: "echo:small", messages: [{ role: "user", content: "openai" }] };
    const other = { custom_id: "b", method: "POST", url: "/v1/chat/completions", body };
    expect(await answered(lines(line("a", "own"), other))).toMatchObject([
      { key: "a", output: { text: "own" } },
      { key: "b", output: { text: "openai" } },
    ]);
  });

  it("may end without a line end, with CR LF, and have blank lines between them", async () => {
    const text = `${JSON.stringify(line("a", "1"))}\r\n\n${JSON.stringify(line("b", "2"))}`;
    expect(await answered(text)).toMatchObject([{ key: "a" }, { key: "b" }]);
  });

  it("fail by themselves when they are faulty", async () => {
    const text = `${JSON.stringify(line("a", "1"))}\nno json\n${JSON.stringify(line("c", "3"))}\n`;
    expect(await answered(text)).toMatchObject([
      { key: "a", output: { text: "1" } },
      { key: "c", output: { text: "3" } },
      { key: null, line: 2, output: null, error: { code: "invalid_json", message: expect.any(String) } },
    ]);
  });

  it("make a task that failed when no line can be read", async () => {
    const file = await upload(call, "in.jsonl", "no json\nnor this\n");
    const { body } = await submit(call, [{ file_id: file.body.file_id, sla: 60 }]);
    const task = await vi.waitFor(
      async () => {
        const answer = await call("GET", `/v0/infer/task/${body.task_id}`);
        expect(answer.body.status).not.toBe("submitted");
        return answer;
      },
      { timeout: 60_000, interval: 50 },
    );
    expect(task.body).toMatchObject({ status: "failed", counts: { submitted: 0, completed: 0 } });
  });

  it("refuse the file when two of them have one key, naming both lines", async () => {
    const text = lines(line("twice", "1"), line("b", "2"), line("twice", "3"));
    const put = await upload(call, "in.jsonl", text);
    const refused =
      put.status < 300 ? await submit(call, [{ file_id: put.body.file_id, sla: 60 }], JSONL) : put;
    expect(refused.status).toBeOneOf([400, 409, 422]);
    expect(refused.body.error).toMatchObject({
      code: "duplicate_key",
      message: expect.stringMatching(/1.*3/),
    });
  });

  it("refuse the file with 415 when they are packed, or in another encoding than UTF-8 (fault 4)", async () => {
    for (const bytes of ["PK\u0003\u0004", "{\0}\0\n\0", "\u001f\u008b\b"]) {
      const form = new FormData();
      form.set("file", new Blob([Buffer.from(bytes, "latin1")]), "in.jsonl");
      const put = await call("PUT", "/v0/files/in.jsonl", { body: form });
      expect([bytes, put.status, put.body.error.code]).toEqual([bytes, 415, "unsupported_encoding"]);
    }
  });

  it("may be 0: the task is completed at once and its output has no line", async () => {
    const file = await upload(call, "empty.jsonl", "");
    const task = await submit(call, [{ file_id: file.body.file_id, sla: 60 }], JSONL);
    expect(task).toMatchObject({ status: 200, body: { total_items: 0 } });
    await completedTask(call, task.body.task_id);
    expect((await call("GET", task.body.output_url)).text).toBe("");
  });
});

describe("2.6 output lines", () => {
  it("have the key of their input line and an output of type and text only, and beside it what is known of the answer", async () => {
    const text = lines(line("a", "one"), line("b", "two"), line('ключ/1 "x"', "three"));
    expect(await answered(text)).toEqual([
      { key: "a", output: { type: "text", text: "one" }, ...ANSWERED },
      { key: "b", output: { type: "text", text: "two" }, ...ANSWERED },
      { key: 'ключ/1 "x"', output: { type: "text", text: "three" }, ...ANSWERED },
    ]);
  });

  it("are exactly one for every key of a larger file", async () => {
    const keys = Array.from({ length: 2000 }, (_, index) => `k${String(index).padStart(4, "0")}`);
    const values = await answered(lines(...keys.map((name) => line(name, `text of ${name}`))));
    expect(values).toEqual(
      keys.map((name) => ({ key: name, output: { type: "text", text: `text of ${name}` }, ...ANSWERED })),
    );
  });

  it("have an error and a null output when their request failed", async () => {
    expect(await answered(lines(line("a", "x", "nowhere")))).toEqual([
      {
        key: "a",
        output: null,
        error: expect.objectContaining({ code: "unknown_model", message: expect.any(String), line: 1 }),
      },
    ]);
  });

  it("are as many as the items when files and inline items come together", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one")));
    const items = [
      { model: "echo:small", input: "inline", sla: 60 },
      { file_id: file.body.file_id, sla: 60 },
    ];
    const { body } = await submit(call, items, JSONL);
    await completedTask(call, body.task_id);
    const values = parsed(await call("GET", body.output_url));
    expect(values).toHaveLength(2);
    expect(values).toContainEqual({ key: "a", output: { type: "text", text: "one" }, ...ANSWERED });
    expect(values).toContainEqual(expect.objectContaining({ output: { type: "text", text: "inline" } }));
  });
});

describe("4.1 Output-Format: jsonl", () => {
  it("answers with an output_url in place of the objects", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one")));
    const task = await submit(call, [{ file_id: file.body.file_id, sla: 60 }], JSONL);
    expect(task).toMatchObject({
      status: 200,
      body: { status: expect.toBeOneOf(["submitted", "completed"]), task_id: UUID, total_items: 1 },
    });
    expect(new URL(task.body.output_url).protocol).toBe("http:");
    expect(task.body).not.toHaveProperty("objects");
  });

  it("has objects and the output_url when the task is read", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one")));
    const { body } = await submit(call, [{ file_id: file.body.file_id }], JSONL);
    expect((await completedTask(call, body.task_id)).body).toMatchObject({
      output_url: body.output_url,
      objects: [{ object_id: UUID, status: "completed", output: { type: "text", text: "one" } }],
    });
  });

  it("has the whole output in the moment of the answer when the item has no sla", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one"), line("b", "two")));
    const { body } = await submit(call, [{ file_id: file.body.file_id }], JSONL);
    expect(body.status).toBe("completed");
    expect(parsed(await call("GET", body.output_url))).toMatchObject([{ key: "a" }, { key: "b" }]);
  });
});

describe("4.5 downloads", () => {
  let url: string;

  beforeEach(async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one")));
    url = (await submit(call, [{ file_id: file.body.file_id }], JSONL)).body.output_url;
  });

  it("answer with JSON lines, not to be kept or sniffed", async () => {
    const { headers } = await call("GET", url);
    expect(headers.get("content-type")).toMatch(/^application\/(jsonl|x-ndjson)/);
    expect(headers.get("cache-control")).toContain("no-store");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-disposition")).toMatch(/^attachment/);
    expect(headers.get("x-incomplete")).toBeNull();
  });

  it("answer in both slash forms alike", async () => {
    const other = url.endsWith("/") ? url.slice(0, -1) : `${url}/`;
    expect(parsed(await call("GET", other))).toEqual(parsed(await call("GET", url)));
  });

  it("need the key", async () => {
    expect(await service.caller()("GET", url)).toMatchObject({ status: 401, body: { error: {} } });
    expect(await service.caller(key)("GET", url)).toMatchObject({ status: 401 });
  });

  it("are unknown to other projects", async () => {
    const stranger = service.caller(`Bearer ${(await service.createKey("other")).key}`);
    expect(await stranger("GET", url)).toMatchObject({ status: 404, body: { error: {} } });
  });

  it("say X-Incomplete while the task runs, and have only whole lines", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "now"), line("b", "later", "held:model")));
    const { body } = await submit(call, [{ file_id: file.body.file_id, sla: 60 }], JSONL);
    await vi.waitFor(() => expect(held.waiting()).toBe(1), { timeout: 60_000, interval: 20 });
    const early = await call("GET", body.output_url);
    expect(early.headers.get("x-incomplete")).toBe("true");
    expect(parsed(early).length).toBeLessThan(2);
    held.release();
    await completedTask(call, body.task_id);
    const whole = await call("GET", body.output_url);
    expect(whole.headers.get("x-incomplete")).toBeNull();
    expect(parsed(whole)).toMatchObject([
      { key: "a", output: { text: "now" } },
      { key: "b", output: { text: "released" } },
    ]);
  });
});

describe("4.4 what an upload is refused for", () => {
  const whole = ["--b", 'content-disposition: form-data; name="file"; filename="x"', "", "{}", "--b--", ""];

  /** PUT of a form as it is written here. */
  async function put(body: string, type = "multipart/form-data; boundary=b", name = "in.jsonl") {
    const headers = { authorization: `Bearer ${key}`, "content-type": type };
    const answer = await sendExactly(service, { method: "PUT", path: `/v0/files/${name}`, headers, body });
    return { status: answer.status, body: JSON.parse(answer.text) as unknown };
  }

  it("takes the form that the others are changed from", async () => {
    expect((await put(whole.join("\r\n"))).status).toBeOneOf([200, 201]);
  });

  it("a field with another name", async () => {
    const form = whole.join("\r\n").replace('name="file"', 'name="document"');
    expect(await put(form)).toMatchObject({ status: 400, body: { error: {} } });
  });

  it("a second file", async () => {
    const form = [...whole.slice(0, 4), ...whole].join("\r\n");
    expect((await put(form)).status).toBeOneOf([400, 413]);
  });

  it("no file at all", async () => {
    expect(await put("--b--\r\n")).toMatchObject({ status: 400, body: { error: {} } });
  });

  it("no boundary", async () => {
    expect(await put(whole.join("\r\n"), "multipart/form-data")).toMatchObject({ status: 400 });
  });

  it("a form that breaks off", async () => {
    expect(await put(whole.slice(0, 4).join("\r\n"))).toMatchObject({ status: 400, body: { error: {} } });
  });

  it("a body that is not a form", async () => {
    expect(await put("{}", "application/json")).toMatchObject({ status: 415, body: { error: {} } });
  });

  it.each(["..%2f..%2fx", "%2e%2e%2f", "a%00b", "a%0d%0ab", "a%5cb", "x".repeat(256), "%ff"])(
    "the name %s",
    async (name) => {
      expect(await put(whole.join("\r\n"), undefined, name)).toMatchObject({
        status: 400,
        body: { error: {} },
      });
    },
  );

  it("a path that climbs", async () => {
    const answer = await put(whole.join("\r\n"), undefined, "../../x");
    expect(answer.status).toBeOneOf([400, 404]);
  });
});
