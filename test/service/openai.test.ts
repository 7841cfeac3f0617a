/**
 * The official SDK against perigee, unchanged: it uploads, creates, polls, downloads, cancels and lists.
 */
import OpenAI, { toFile } from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { batchLines, ended, jsonLines, type OpenaiService, OpenaiWorld } from "./openai_world.ts";

let world: OpenaiWorld;
let service: OpenaiService;

beforeEach(async () => {
  world = new OpenaiWorld();
  service = await world.startService();
});

afterEach(async () => {
  world.release();
  await service.close();
  await world.remove();
});

async function upload(text: string, client: OpenAI = service.client): Promise<OpenAI.FileObject> {
  return client.files.create({ file: await toFile(Buffer.from(text), "in.jsonl"), purpose: "batch" });
}

function create(input_file_id: string, more: object = {}): Promise<OpenAI.Batch> {
  return service.client.batches.create({
    input_file_id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
    ...more,
  });
}

describe("the openai SDK", () => {
  it("uploads a file, runs it as a batch and downloads answers and errors", async () => {
    const { client } = service;
    const file = await upload(batchLines(["one", "fail two", "long three"]));
    expect(file).toMatchObject({
      id: expect.stringMatching(/^file-[0-9a-f]{32}$/),
      object: "file",
      purpose: "batch",
      filename: "in.jsonl",
      status: "processed",
    });
    const created = await create(file.id, { metadata: { run: "nightly" } });
    expect(created).toMatchObject({
      id: expect.stringMatching(/^batch_[0-9a-f]{32}$/),
      object: "batch",
      endpoint: "/v1/chat/completions",
      input_file_id: file.id,
      completion_window: "24h",
      metadata: { run: "nightly" },
      errors: null,
      expires_at: created.created_at + 86_400,
    });
    const batch = await ended(client, created.id);
    expect(batch).toMatchObject({
      status: "completed",
      request_counts: { total: 3, completed: 2, failed: 1 },
    });
    expect(batch.completed_at).toBeGreaterThanOrEqual(batch.finalizing_at ?? Number.POSITIVE_INFINITY);
    const answers = await jsonLines(client, batch.output_file_id);
    expect(answers).toHaveLength(2);
    expect(answers).toContainEqual({
      id: expect.stringMatching(/^batch_req_/),
      custom_id: "r3",
      response: {
        status_code: 200,
        request_id: "chatcmpl-1",
        body: {
          id: "chatcmpl-1",
          object: "chat.completion",
          model: "gpt-test",
          choices: [
            { index: 0, message: { role: "assistant", content: "LONG THREE" }, finish_reason: "length" },
          ],
          usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
        },
      },
      error: null,
    });
    expect(await jsonLines(client, batch.error_file_id)).toEqual([
      {
        id: expect.stringMatching(/^batch_req_/),
        custom_id: "r2",
        response: null,
        error: { code: "invalid_request", message: expect.any(String), line: 2 },
      },
    ]);
    const output = await client.files.retrieve(batch.output_file_id ?? "");
    expect(output).toMatchObject({ purpose: "batch_output", filename: `${batch.id}_output.jsonl` });
  });

  it("returns each answer in the provider's own bytes but for line ends, also after a restart", async () => {
    world.sends = (text) =>
      `\r\n{ "created": 1.50,\n"id":"x","body":{"id":"}\\""},${text.slice(1, -1)},"system_fingerprint" : "fp_1" }\n`;
    const { id } = await create((await upload(batchLines(["one", "hang"]))).id);
    const completed = async () => (await service.client.batches.retrieve(id)).request_counts?.completed;
    await expect.poll(completed, { timeout: 60_000, interval: 20 }).toBe(1);
    world.release();
    await service.close();
    service = await world.startService();
    const batch = await ended(service.client, id);
    const text = await (await service.client.files.content(batch.output_file_id ?? "")).text();
    for (const prompt of ["one", "hang"])
      expect(text).toContain(
        `"body":{ "created": 1.50,"id":"x","body":{"id":"}\\""},${world.answerTo(prompt).slice(1, -1)},"system_fingerprint" : "fp_1" }},"error":null}\n`,
      );
  });

  it("translates the answer of another protocol, and invents no member", async () => {
    const { id } = await create((await upload(batchLines(["hello"], "echo:any"))).id);
    const batch = await ended(service.client, id);
    const [line] = (await jsonLines(service.client, batch.output_file_id)) as {
      response: { body: { choices: object[] } };
    }[];
    expect(line?.response).toEqual({
      status_code: 200,
      request_id: "",
      body: {
        object: "chat.completion",
        model: "echo:any",
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: "hello", refusal: null },
            logprobs: null,
            finish_reason: "stop",
          },
        ],
        usage: {
          prompt_tokens: expect.any(Number),
          completion_tokens: expect.any(Number),
          total_tokens: expect.any(Number),
          prompt_tokens_details: { cached_tokens: 0 },
          completion_tokens_details: { reasoning_tokens: 0 },
        },
      },
    });
  });

  it("has no file of answers without answers, and no file of errors without errors", async () => {
    const { client } = service;
    const good = await create((await upload(batchLines(["one"]))).id);
    expect(await ended(client, good.id)).toMatchObject({ error_file_id: null, status: "completed" });
    const bad = await create((await upload("no JSON\n")).id);
    const batch = await ended(client, bad.id);
    expect(batch).toMatchObject({
      status: "failed",
      output_file_id: null,
      request_counts: { total: 1, completed: 0, failed: 1 },
      errors: {
        object: "list",
        data: [{ code: "invalid_json", message: "the line is not one JSON value", line: 1, param: null }],
      },
    });
    expect(await jsonLines(client, batch.error_file_id)).toMatchObject([
      { custom_id: null, error: { code: "invalid_json", line: 1 } },
    ]);
    const empty = await create((await upload("\n\n")).id);
    expect(await ended(client, empty.id)).toMatchObject({
      output_file_id: null,
      error_file_id: null,
      request_counts: { total: 0, completed: 0, failed: 0 },
    });
  });

  it("tells line and code of what it could not read in a batch, beside what was answered", async () => {
    const { client } = service;
    const lines = batchLines(["one", "fail two"]).trimEnd().split("\n");
    const broken = ['{"custom_id": "a"}', "no JSON", '{"custom_id":"b","body":{"model":"gpt","model":"x"}}'];
    const { id } = await create((await upload([lines[0], ...broken, lines[1]].join("\n"))).id);
    const batch = await ended(client, id);
    expect(batch).toMatchObject({
      status: "completed",
      request_counts: { total: 5, completed: 1, failed: 4 },
    });
    expect(batch.errors?.data).toEqual([
      { line: 2, code: "invalid_line", message: "body must be an object, got nothing", param: null },
      { line: 3, code: "invalid_json", message: "the line is not one JSON value", param: null },
      {
        line: 4,
        code: "duplicate_member",
        message: 'the member "model" occurs twice in one object',
        param: null,
      },
    ]);
    expect((await client.batches.retrieve(id)).errors).toEqual(batch.errors);
    expect(await jsonLines(client, batch.error_file_id)).toHaveLength(4);
  });

  it("tells the first 50 lines that it could not read", async () => {
    const text = Array.from({ length: 80 }, () => "no JSON").join("\n");
    const batch = await ended(service.client, (await create((await upload(text)).id)).id);
    expect([batch.status, batch.errors?.data?.length]).toEqual(["failed", 50]);
  });

  it("names the model of each line, of hundreds whose answers do not come in their order", async () => {
    const prompts = Array.from(
      { length: 400 },
      (_, index) => `${index % 10 === 0 ? "hang" : "prompt"} ${index}`,
    );
    const lines = prompts.map((prompt, index) =>
      batchLines([prompt], `gpt-${index % 7}`).replace('"r1"', `"k${index}"`),
    );
    const { id } = await create((await upload(lines.join("\n"))).id); // in several blocks, blank lines between them
    const completed = async () => (await service.client.batches.retrieve(id)).request_counts?.completed;
    await expect.poll(completed, { timeout: 60_000, interval: 20 }).toBe(360);
    world.release(); // the first of the lines are answered after the last
    const batch = await ended(service.client, id);
    const answers = (await jsonLines(service.client, batch.output_file_id)) as {
      readonly custom_id: string;
      readonly response: { readonly body: { readonly model: string } };
    }[];
    expect(new Set(answers.slice(-40).map(({ custom_id }) => Number(custom_id.slice(1)) % 10))).toEqual(
      new Set([0]),
    );
    expect(answers).toHaveLength(400);
    for (const { custom_id, response } of answers)
      expect(response.body.model).toBe(`gpt-${Number(custom_id.slice(1)) % 7}`);
  });

  it("returns names of files unchanged", async () => {
    const { client } = service;
    for (const name of ["größe 你好.jsonl", "a b;c='d'.jsonl", "100%.jsonl"]) {
      const file = await client.files.create({
        file: await toFile(Buffer.from("{}"), name),
        purpose: "batch",
      });
      expect(file.filename).toBe(name);
    }
    const path = await client.files.create({
      file: await toFile(Buffer.from("{}"), "../../etc/x.jsonl"),
      purpose: "batch",
    });
    expect(path.filename).toBe("x.jsonl");
  });

  it("takes a model with its provider", async () => {
    const { id } = await create((await upload(batchLines(["hello"], "echo:any"))).id);
    const batch = await ended(service.client, id);
    expect(await jsonLines(service.client, batch.output_file_id)).toMatchObject([
      { response: { body: { model: "echo:any" } } },
    ]);
    expect(world.prompts).toEqual([]);
  });

  it("cancels a batch, keeps what was answered and tells the rest as cancelled", async () => {
    const { client } = service;
    const prompts = Array.from({ length: 2_000 }, (_, index) => (index === 0 ? "one" : `hang ${index}`));
    const { id } = await create((await upload(batchLines(prompts))).id, { completion_window: "30d" });
    while (world.prompts.length < 5) await new Promise((resolve) => setTimeout(resolve, 10));
    const file = (await client.batches.retrieve(id)).input_file_id;
    await expect(client.files.delete(file)).rejects.toMatchObject({ status: 409 });
    const cancelling = await client.batches.cancel(id);
    expect(cancelling).toMatchObject({ status: "cancelling", cancelling_at: expect.any(Number) });
    world.release();
    const batch = await ended(client, id);
    expect(batch).toMatchObject({ status: "cancelled", cancelled_at: expect.any(Number) });
    const { total, completed, failed } = batch.request_counts ?? { total: 0, completed: 0, failed: 0 };
    expect([total, completed + failed]).toEqual([2_000, 2_000]);
    expect(await jsonLines(client, batch.output_file_id)).toHaveLength(completed);
    const errors = await jsonLines(client, batch.error_file_id);
    expect(errors).toHaveLength(failed);
    expect(errors[0]).toMatchObject({ error: { code: "batch_cancelled" } });
    expect(await client.batches.cancel(id)).toMatchObject({ status: "cancelled" });
    expect(await client.files.delete(file)).toEqual({ id: file, object: "file", deleted: true });
  });

  it("lists files and batches page by page, the newest first", async () => {
    const { client } = service;
    const files: string[] = [];
    for (const key of ["a", "b", "c"]) files.unshift((await upload(batchLines([key]))).id);
    const seen: string[] = [];
    for await (const file of client.files.list({ limit: 2, purpose: "batch" })) seen.push(file.id);
    expect(seen).toEqual(files);
    const batches: string[] = [];
    for (const file of files) batches.unshift((await create(file)).id);
    const listed: string[] = [];
    for await (const batch of client.batches.list({ limit: 2 })) listed.push(batch.id);
    expect(listed).toEqual(batches);
    await Promise.all(batches.map((id) => ended(client, id)));
    expect((await service.clientOf("beta").batches.list()).data).toEqual([]);
    expect((await service.clientOf("beta").files.list()).data).toEqual([]);
  });

  it("gets errors that say what is wrong", async () => {
    const { client } = service;
    const { id } = await upload(batchLines(["one"]));
    for (const completion_window of ["14m", "31d", "1 day", "901s", ""])
      await expect(create(id, { completion_window })).rejects.toMatchObject({ status: 422 });
    const pairs = Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`k${index}`, "v"]));
    await expect(create(id, { metadata: pairs })).rejects.toMatchObject({ status: 422 });
    await expect(create(id, { endpoint: "/v1/audio/speech" })).rejects.toMatchObject({ status: 422 });
    await expect(create(id, { base_url: "http://evil.test" })).rejects.toMatchObject({ status: 422 });
    const wrong = client.files.create({ file: await toFile(Buffer.from("x"), "x"), purpose: "fine-tune" });
    await expect(wrong).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    await expect(upload('{"custom_id":"a"}\n{"custom_id":"a"}\n')).rejects.toMatchObject({ status: 422 });
    await expect(service.clientOf("be/ta").files.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    expect((await client.files.list()).data).toHaveLength(1);
  });

  it("faults 86 and 87: finds nothing by ids of others, of OpenAI, or of another form", async () => {
    const { client } = service;
    const file = await upload(batchLines(["one"]));
    const { id } = await create(file.id);
    const batch = await ended(client, id);
    const uuid = file.id.slice(5).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
    const beta = service.clientOf("beta");
    const asks = [
      ...["file-abc123", uuid, file.id.toUpperCase(), `file-${"0".repeat(32)}`, id].flatMap((wrong) => [
        () => client.files.retrieve(wrong),
        () => client.files.content(wrong),
        () => client.files.delete(wrong),
        () => create(wrong),
      ]),
      () => beta.files.retrieve(file.id),
      () => beta.files.content(batch.output_file_id ?? ""),
      () => beta.files.delete(file.id),
      () => beta.batches.retrieve(id),
      () => beta.batches.cancel(id),
      () => beta.batches.list({ after: id }).then(() => undefined),
      () => client.batches.retrieve("batch_abc123"),
      () => client.batches.retrieve(file.id),
    ];
    for (const ask of asks) await expect(ask()).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(create(batch.output_file_id ?? "")).rejects.toMatchObject({ status: 400 });
  });
});

describe("an upload of OpenAI's form", () => {
  it.each([
    ["purpose first", ["purpose", "file"], 200],
    ["file first", ["file", "purpose"], 200],
    ["no purpose", ["file"], 400],
    ["purpose twice", ["purpose", "file", "purpose"], 400],
    ["an unknown field", ["purpose", "file", "other"], 400],
  ])("with %s", async (_what, names, status) => {
    const body = new FormData();
    for (const name of names)
      if (name === "file") body.append("file", new Blob([batchLines(["one"])]), "x.jsonl");
      else body.append(name, "batch");
    const headers = { authorization: "Bearer alpha" };
    const response = await fetch(`${service.baseURL}/files`, { method: "POST", body, headers });
    expect(response.status).toBe(status);
    await response.text();
    expect((await service.client.files.list()).data).toHaveLength(status === 200 ? 1 : 0);
  });
});

describe("a file that is not a batch", () => {
  it.each([
    ["purpose first", ["purpose", "file"]],
    ["file first", ["file", "purpose"]],
  ])(
    "is kept as user_data with any bytes and its type, with %s, and cannot be an input",
    async (_what, names) => {
      const { client } = service;
      const bytes = Buffer.from([0x25, 0x50, 0x44, 0x46, 0, 0xff, 10, 10]);
      const body = new FormData();
      for (const name of names)
        if (name === "file") body.append("file", new Blob([bytes], { type: "application/pdf" }), "x.pdf");
        else body.append(name, "user_data");
      const headers = { authorization: "Bearer alpha" };
      const response = await fetch(`${service.baseURL}/files`, { method: "POST", body, headers });
      const made = (await response.json()) as { id: string };
      expect(made).toMatchObject({ filename: "x.pdf", purpose: "user_data", bytes: 8 });
      const content = await client.files.content(made.id);
      expect(content.headers.get("content-type")).toBe("application/pdf");
      expect(Buffer.from(await content.arrayBuffer())).toEqual(bytes);
      expect((await client.files.list({ purpose: "user_data" })).data).toHaveLength(1);
      await expect(create(made.id)).rejects.toMatchObject({
        status: 400,
        message: expect.stringContaining("purpose batch"),
      });
    },
  );
});

describe("a batch over restarts", () => {
  it("is finished by the next process, its files made once", async () => {
    const file = await upload(batchLines(["one", "hang two"]));
    const { id } = await create(file.id);
    while (world.prompts.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    const closing = service.close();
    world.release();
    await closing;
    service = await world.startService();
    const batch = await ended(service.client, id);
    expect(batch).toMatchObject({ status: "completed", request_counts: { total: 2, completed: 2 } });
    await service.close();
    service = await world.startService();
    expect(await service.client.batches.retrieve(id)).toEqual(batch);
    const made = await service.client.files.list({ purpose: "batch_output" });
    expect(made.data.map((each) => each.id)).toEqual([batch.output_file_id]);
    expect(await jsonLines(service.client, batch.output_file_id)).toHaveLength(2);
  });
});
