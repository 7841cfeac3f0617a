/** The interface's tasks and objects (2.1 to 2.3, 3.1, 4.1 to 4.3), over the network, in the order of its document. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import {
  type Answer,
  type Call,
  COUNT,
  completedTask,
  FACTOR,
  type HeldProvider,
  line,
  lines,
  type Service,
  startHeldProvider,
  startService,
  submit,
  UUID,
  upload,
} from "./serving.ts";

let service: Service;
let held: HeldProvider;
let call: Call;

beforeAll(async () => {
  held = await startHeldProvider();
  service = await startService(held.env);
  call = service.caller(`Bearer ${(await service.createKey("acme")).key}`);
});
afterAll(async () => {
  await service.stop();
  await held.stop();
});
afterEach(() => held.release());

const NOW = { model: "echo:small", input: "What is a quark?" };
const LATER = { ...NOW, sla: 60 };
const HELD = { model: "held:model", input: "What is a lepton?", sla: 60 };

/** Waits until the provider holds this many requests. */
function holding(requests: number): Promise<void> {
  return vi.waitFor(() => expect(held.waiting()).toBe(requests), { timeout: 60_000, interval: 20 });
}

function getObject(id: string | undefined): Promise<Answer> {
  return call("GET", `/v0/infer/object/${id}`);
}

describe("2.1 request items", () => {
  it("takes an inline item of model and input, without an sla", async () => {
    expect(await submit(call, [NOW])).toMatchObject({ status: 200, body: { total_items: 1 } });
  });

  it("takes an inline item of model, input and sla", async () => {
    expect(await submit(call, [LATER])).toMatchObject({ status: 200, body: { total_items: 1 } });
  });

  it("takes an item with messages or contents, and settings beside them", async () => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "hello" },
    ];
    const task = await submit(call, [
      { model: "echo:small", messages, temperature: 0.5 },
      { model: "echo:small", contents: [{ parts: [{ text: "there" }] }], max_output_tokens: 64 },
    ]);
    expect(task.body.objects).toMatchObject([{ output: { text: "hello" } }, { output: { text: "there" } }]);
  });

  it("takes a file whose lines are items by themselves", async () => {
    const item = { key: "a", model: "echo:small", input: "hello", temperature: 0.5 };
    const file = await upload(call, "in.jsonl", `${JSON.stringify(item)}\n`);
    const task = await submit(call, [{ file_id: file.body.file_id }]);
    expect(task.body.objects).toMatchObject([{ output: { text: "hello" } }]);
  });

  it("takes a file item of file_id and sla, and one object is made of each line", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one"), line("b", "two")));
    const task = await submit(call, [{ file_id: file.body.file_id, sla: 60 }]);
    expect(task).toMatchObject({ status: 200, body: { total_items: 2, objects: [{}, {}] } });
  });

  it("takes a file item without an sla", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one")));
    const task = await submit(call, [{ file_id: file.body.file_id }]);
    expect(task).toMatchObject({ status: 200, body: { status: "completed", total_items: 1 } });
  });

  it("splits a model at its first colon", async () => {
    const task = await submit(call, [{ model: "echo:family:size", input: "hello" }]);
    expect(task.body.objects[0]).toMatchObject({ output: { type: "text", text: "hello" } });
  });
});

describe("2.2 tasks", () => {
  it("answers a submission with status, task_id, total_items and objects", async () => {
    const task = await submit(call, [LATER, LATER]);
    expect(task.status).toBe(200);
    expect(task.headers.get("content-type")).toMatch(/^application\/json/);
    expect(task.body).toMatchObject({
      status: "submitted",
      task_id: UUID,
      total_items: 2,
      objects: [{ object_id: UUID }, { object_id: UUID }],
    });
  });

  it("answers for a task with the same fields", async () => {
    const { body } = await submit(call, [LATER]);
    expect((await completedTask(call, body.task_id)).body).toMatchObject({
      status: "completed",
      task_id: body.task_id,
      total_items: 1,
      objects: [{ object_id: body.objects[0]?.object_id }],
    });
  });

  it("has no output_url unless Output-Format: jsonl was requested", async () => {
    const { body } = await submit(call, [LATER]);
    expect(body).not.toHaveProperty("output_url");
    expect((await completedTask(call, body.task_id)).body).not.toHaveProperty("output_url");
  });

  it("counts its objects by their status", async () => {
    const { body } = await submit(call, [LATER, NOW]);
    expect(await completedTask(call, body.task_id)).toMatchObject({
      body: { counts: { submitted: 0, completed: 2, failed: 0, cancelled: 0, expired: 0 } },
    });
  });

  it("lists its objects in the order of the items, and keeps their ids", async () => {
    const inputs = Array.from({ length: 50 }, (_, index) => `input ${index}`);
    const { body } = await submit(
      call,
      inputs.map((input) => ({ ...LATER, input })),
    );
    const { objects } = (await completedTask(call, body.task_id)).body;
    expect(objects.map((object) => object.object_id)).toEqual(body.objects.map((object) => object.object_id));
    expect(objects).toMatchObject(inputs.map((text) => ({ output: { text } })));
    expect(new Set(objects.map((object) => object.object_id)).size).toBe(50);
  });
});

describe("2.3 objects", () => {
  it("have status, usage and an id from their submission, and neither output nor output_tokens", async () => {
    const { body } = await submit(call, [HELD]);
    const expected = {
      object_id: UUID,
      status: "submitted",
      usage: { input_tokens: COUNT, price_factor: FACTOR },
    };
    await holding(1);
    const task = await call("GET", `/v0/infer/task/${body.task_id}`);
    const object = await getObject(body.objects[0]?.object_id);
    for (const seen of [body.objects[0], task.body.objects[0], object.body]) {
      expect(seen).toMatchObject(expected);
      expect(seen).not.toHaveProperty("output");
      expect(seen).not.toHaveProperty("usage.output_tokens");
    }
  });

  it("have an output of type text, and output_tokens, once they are completed", async () => {
    const { body } = await submit(call, [LATER]);
    const task = await completedTask(call, body.task_id);
    const object = await getObject(body.objects[0]?.object_id);
    for (const seen of [task.body.objects[0], object.body]) {
      expect(seen).toMatchObject({
        object_id: body.objects[0]?.object_id,
        status: "completed",
        usage: { input_tokens: COUNT, price_factor: FACTOR, output_tokens: COUNT },
        output: { type: "text", text: "What is a quark?" },
      });
    }
  });

  it("have an error that is null while they run and when they are completed", async () => {
    const { body } = await submit(call, [HELD]);
    await holding(1);
    expect((await getObject(body.objects[0]?.object_id)).body).toMatchObject({
      status: "submitted",
      error: null,
    });
    held.release();
    await completedTask(call, body.task_id);
    expect((await getObject(body.objects[0]?.object_id)).body).toMatchObject({
      status: "completed",
      error: null,
    });
  });

  it("say in a phase how far they are while they run", async () => {
    const { body } = await submit(call, [HELD]);
    await holding(1);
    const object = await getObject(body.objects[0]?.object_id);
    expect(object.body).toMatchObject({ phase: expect.toBeOneOf(["queued", "running", "retrying"]) });
  });

  it("say why they failed, without an output, and the others are completed", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "x", "nowhere"), line("b", "y")));
    const { body } = await submit(call, [{ file_id: file.body.file_id, sla: 60 }]);
    const task = await completedTask(call, body.task_id);
    expect(task.body).toMatchObject({ counts: { completed: 1, failed: 1 } });
    const failed = await getObject(task.body.objects[0]?.object_id);
    expect(failed.body).toMatchObject({
      status: "failed",
      error: { code: "unknown_model", message: expect.any(String), retryable: false, attempts: 0 },
    });
    expect(failed.body).not.toHaveProperty("output");
    expect((await getObject(task.body.objects[1]?.object_id)).body).toMatchObject({
      status: "completed",
      error: null,
      output: { type: "text", text: "y" },
    });
  });

  it("keep the price factor that they were submitted with", async () => {
    const { body } = await submit(call, [{ ...LATER, sla: 1440 }]);
    const { objects } = (await completedTask(call, body.task_id)).body;
    expect(objects[0]?.usage.price_factor).toBe(body.objects[0]?.usage.price_factor);
  });
});

describe("3.1 states", () => {
  it("an accepted item with an sla is submitted, though its answer were there at once", async () => {
    const { body } = await submit(call, [LATER]);
    expect(body).toMatchObject({ status: "submitted", objects: [{ status: "submitted" }] });
  });

  it("an object goes from submitted to completed when its inference finishes", async () => {
    const { body } = await submit(call, [HELD]);
    await holding(1);
    expect((await getObject(body.objects[0]?.object_id)).body).toMatchObject({ status: "submitted" });
    held.release();
    await completedTask(call, body.task_id);
    expect((await getObject(body.objects[0]?.object_id)).body).toMatchObject({
      status: "completed",
      output: { type: "text", text: "released" },
      usage: { output_tokens: COUNT },
    });
  });

  it("an item without an sla is completed in the answer, output and output_tokens included", async () => {
    const { body } = await submit(call, [NOW]);
    expect(body).toMatchObject({
      status: "completed",
      objects: [
        {
          object_id: UUID,
          status: "completed",
          usage: { input_tokens: COUNT, price_factor: 1, output_tokens: COUNT },
          output: { type: "text", text: "What is a quark?" },
        },
      ],
    });
  });

  it("items with and without an sla may come together, and the task is submitted until both are done", async () => {
    const { body } = await submit(call, [HELD, NOW]);
    expect(body).toMatchObject({
      status: "submitted",
      objects: [{ status: "submitted" }, { status: "completed", output: { text: NOW.input } }],
    });
    await holding(1);
    held.release();
    await completedTask(call, body.task_id);
  });

  it("a task is submitted while its objects are of mixed states", async () => {
    const { body } = await submit(call, [LATER, HELD]);
    await holding(1);
    await vi.waitFor(async () => {
      expect((await getObject(body.objects[0]?.object_id)).body).toMatchObject({ status: "completed" });
    });
    const task = await call("GET", `/v0/infer/task/${body.task_id}`);
    expect(task.body).toMatchObject({
      status: "submitted",
      objects: [{ status: "completed" }, { status: "submitted" }],
    });
    held.release();
    expect((await completedTask(call, body.task_id)).body).toMatchObject({
      objects: [{ status: "completed" }, { status: "completed" }],
    });
  });

  it("a file item without an sla is completed in the answer when Output-Format: jsonl is asked for", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one")));
    const headers = { "output-format": "jsonl" };
    expect(await submit(call, [{ file_id: file.body.file_id }], headers)).toMatchObject({
      status: 200,
      body: { status: "completed", task_id: UUID, total_items: 1, output_url: expect.any(String) },
    });
  });
});

describe("4.1 submitting", () => {
  it("mixes models in one request", async () => {
    const models = ["echo:small", "echo:large", "held:model"];
    const { body } = await submit(
      call,
      models.map((model) => ({ model, input: model, sla: 60 })),
    );
    await holding(1);
    held.release();
    expect((await completedTask(call, body.task_id)).body).toMatchObject({
      objects: ["echo:small", "echo:large", "released"].map((text) => ({ output: { text } })),
    });
  });

  it("mixes inline and file items in one request", async () => {
    const file = await upload(call, "in.jsonl", lines(line("a", "one"), line("b", "two")));
    const { body } = await submit(call, [LATER, { file_id: file.body.file_id, sla: 60 }]);
    expect(body).toMatchObject({ total_items: 3, objects: [{}, {}, {}] });
    expect((await completedTask(call, body.task_id)).body).toMatchObject({
      objects: [NOW.input, "one", "two"].map((text) => ({ output: { text } })),
    });
  });

  it("takes the model and the input of each line from the file", async () => {
    const text = lines(line("a", "one", "echo:small"), line("b", "two", "held:model"));
    const file = await upload(call, "in.jsonl", text);
    const { body } = await submit(call, [{ file_id: file.body.file_id, sla: 60 }]);
    await holding(1);
    held.release();
    expect((await completedTask(call, body.task_id)).body).toMatchObject({
      objects: [{ output: { text: "one" } }, { output: { text: "released" } }],
    });
  });

  it("answers in both slash forms alike", async () => {
    for (const path of ["/v0/infer", "/v0/infer/"]) {
      const headers = { "content-type": "application/json" };
      const answer = await call("POST", path, { headers, body: JSON.stringify([NOW]) });
      expect(answer).toMatchObject({ status: 200, body: { status: "completed", task_id: UUID } });
    }
  });

  it("lists the objects of all of 10,000 items, and of a task that is looked at 1,000 at a time", async () => {
    const items = Array.from({ length: 10_000 }, (_, index) => ({ ...LATER, input: `input ${index}` }));
    const { body } = await submit(call, items);
    expect(body.total_items).toBe(10_000);
    expect(new Set(body.objects.map((object) => object.object_id)).size).toBe(10_000);
    const task = await completedTask(call, body.task_id);
    const ids = (objects: typeof body.objects): string[] => objects.map((object) => object.object_id);
    expect(ids(task.body.objects)).toEqual(ids(body.objects.slice(0, 1_000)));
    const after = body.objects.at(-2)?.object_id;
    const last = await call("GET", `/v0/infer/task/${body.task_id}?after=${after}`);
    expect(last.body).toMatchObject({ has_more: false, objects: [{ output: { text: "input 9999" } }] });
  });

  it("takes a charset beside the content type", async () => {
    const headers = { "content-type": "application/json; charset=utf-8" };
    expect(await submit(call, [NOW], headers)).toMatchObject({ status: 200 });
  });
});

describe("4.2 and 4.3 asking", () => {
  it("answers for a task in both slash forms alike", async () => {
    const { body } = await submit(call, [NOW]);
    const bare = await call("GET", `/v0/infer/task/${body.task_id}`);
    const slashed = await call("GET", `/v0/infer/task/${body.task_id}/`);
    expect(bare.status).toBe(200);
    expect([slashed.status, slashed.text]).toEqual([bare.status, bare.text]);
  });

  it("answers for an object in both slash forms alike", async () => {
    const id = (await submit(call, [NOW])).body.objects[0]?.object_id;
    const bare = await getObject(id);
    const slashed = await call("GET", `/v0/infer/object/${id}/`);
    expect(bare.status).toBe(200);
    expect([slashed.status, slashed.text]).toEqual([bare.status, bare.text]);
  });

  it("answers the same to every key of the project", async () => {
    const { body } = await submit(call, [NOW]);
    const colleague = service.caller(`Bearer ${(await service.createKey("acme")).key}`);
    expect(await colleague("GET", `/v0/infer/task/${body.task_id}`)).toMatchObject({ status: 200 });
  });

  it("has the whole task again after it was completed, as often as it is asked for", async () => {
    const { body } = await submit(call, [NOW]);
    const first = await call("GET", `/v0/infer/task/${body.task_id}`);
    const second = await call("GET", `/v0/infer/task/${body.task_id}`);
    expect(second.text).toBe(first.text);
    expect(first.body.objects).toEqual([
      expect.objectContaining({ output: { type: "text", text: NOW.input } }),
    ]);
  });
});
