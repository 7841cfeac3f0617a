/**
 * Schemas over HTTP: of an item, of a file's lines and of a whole request, against a provider whose first answer to each prompt does not
 * fit, and whose second one does.
 */
import { toFile } from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { completion, type FrontWorld, openFront, sendJson } from "./front_world.ts";
import { ended, jsonLines } from "./openai_world.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
type Json = any;

const SUM = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
const TEXT = { type: "string" };
const MODEL = "openai:gpt-4o-mini";

let world: FrontWorld;
/** A prompt that no answer fits. */
let hopeless = "";

beforeEach(async () => {
  hopeless = "";
  world = await openFront(({ body }, response) => {
    const isAgain = body.messages.some(({ role }: { role: string }) => role === "assistant");
    sendJson(
      response,
      completion({ content: isAgain && body.messages[0].content !== hopeless ? '{"sum":3}' : '"three"' }),
    );
  });
});

afterEach(() => world.close());

async function posted(items: readonly object[], headers: Record<string, string> = {}): Promise<Json> {
  const answer = await world.call("/v0/infer/", { method: "POST", body: JSON.stringify(items), headers });
  const task: Json = await answer.json();
  if (answer.status !== 200) return { http: answer.status, ...task };
  const read = async (): Promise<Json> =>
    (await world.call(`/v0/infer/task/${task.task_id}?limit=100`)).json();
  await expect.poll(async () => (await read()).status).toBe("completed");
  return read();
}

const facts = ({ objects }: Json): unknown[] =>
  objects.map(({ parsed, attempts, error }: Json) => [parsed, attempts ?? error.attempts]);

async function uploaded(...lines: readonly object[]): Promise<string> {
  const form = new FormData();
  form.append("file", new Blob([lines.map((line) => JSON.stringify(line)).join("\n")]));
  const url = `${world.url}/v0/files/in.jsonl`;
  const answer = await fetch(url, {
    method: "PUT",
    body: form,
    headers: { authorization: "Bearer alpha" },
  });
  return ((await answer.json()) as Json).file_id;
}

const line = (key: string, more: object = {}): object => ({
  key,
  request: { model: MODEL, input: key, ...more },
});

describe("a schema in a post", () => {
  it("of an item is checked, and its answer is asked for again", async () => {
    const task = await posted([
      { model: MODEL, input: "a", schema: SUM },
      { model: MODEL, input: "b" },
    ]);
    expect(facts(task)).toEqual([
      [{ sum: 3 }, 2],
      [undefined, 1],
    ]);
  });

  it("of a file holds for its lines that run again, too", async () => {
    const file_id = await uploaded(line("a"));
    hopeless = "a";
    const task = await posted([{ file_id, sla: 60, schema: SUM }]);
    expect(facts(task)).toEqual([[undefined, 3]]);
    hopeless = "";
    const again = { method: "POST", body: JSON.stringify({ codes: ["schema_unmet"] }) };
    await world.call(`/v0/infer/task/${task.task_id}/retry`, again);
    const read = async (): Promise<Json> =>
      (await world.call(`/v0/infer/object/${task.objects[0].object_id}`)).json();
    await expect.poll(async () => (await read()).parsed).toEqual({ sum: 3 });
  });

  it("of a file holds for its lines that have none", async () => {
    const file_id = await uploaded(
      line("a"),
      line("b", { schema: TEXT }),
      line("c", { schema: null }),
      line("d", { schema: { type: "object", required: ["other"] } }),
    );
    const task = await posted([{ file_id, sla: 60, schema: SUM }]);
    expect(facts(task)).toEqual([
      [{ sum: 3 }, 2],
      ["three", 1],
      [undefined, 1],
      [undefined, 3],
    ]);
    expect(task.objects[3].error).toMatchObject({ code: "schema_unmet", answer: '{"sum":3}' });
  });

  it("of the request, in its header, holds for items and files that have none", async () => {
    const file_id = await uploaded(line("a"), line("b", { schema: TEXT }));
    const items = [
      { model: MODEL, input: "c", sla: 60 },
      { model: MODEL, input: "d", sla: 60, schema: TEXT },
      { file_id, sla: 60 },
    ];
    const task = await posted(items, { "x-perigee-schema": JSON.stringify(SUM) });
    expect(facts(task)).toEqual([
      [{ sum: 3 }, 2],
      ["three", 1],
      [{ sum: 3 }, 2],
      ["three", 1],
    ]);
  });

  it("that cannot be used is refused with its place, and nothing is sent", async () => {
    const file_id = await uploaded(line("a"));
    const bad = { type: "objct" };
    const inFile = await posted([{ file_id, sla: 60, schema: bad }]);
    expect(inFile).toMatchObject({ http: 422, error: { param: "0.schema" } });
    const inHeader = await posted([{ model: MODEL, input: "a" }], {
      "x-perigee-schema": JSON.stringify(bad),
    });
    expect(inHeader).toMatchObject({ http: 422, error: { param: "x-perigee-schema" } });
    const noJson = await posted([{ model: MODEL, input: "a" }], { "x-perigee-schema": "{" });
    expect(noJson).toMatchObject({ http: 422, error: { param: "x-perigee-schema" } });
    expect(world.received).toHaveLength(0);
  });

  it("makes another request of the same body and Idempotency-Key", async () => {
    const key = { "idempotency-key": "k" };
    const items = [{ model: MODEL, input: "a", sla: 60 }];
    await posted(items, { ...key, "x-perigee-schema": JSON.stringify(SUM) });
    expect(await posted(items, key)).toMatchObject({ http: 409 });
  });
});

describe("a cap that leaves no money for another request", () => {
  it("holds the item that was to be asked again, and says so", async () => {
    await world.close();
    world = await openFront(
      (_request, response) => sendJson(response, completion({ content: "x".repeat(400) })),
      { projects: { alpha: { maxCostUsd: 0.000_1 } } },
    );
    const item = { model: MODEL, input: "a", sla: 60, schema: SUM, max_tokens: 100 };
    const answer = await world.call("/v0/infer/", { method: "POST", body: JSON.stringify([item]) });
    const { task_id }: Json = await answer.json();
    const read = async (): Promise<Json> => (await world.call(`/v0/infer/task/${task_id}`)).json();
    await expect.poll(async () => (await read()).objects[0].held?.reason).toBe("cap_reached");
    expect(world.received).toHaveLength(1);
    expect((await read()).objects[0]).toMatchObject({ status: "submitted" });
    expect((await read()).held).toMatchObject([{ reason: "cap_reached", items: 1 }]);
  });
});

describe("a schema in a batch of OpenAI's interface", () => {
  it("is that of a line, or else of the request's header", async () => {
    const { client } = world;
    const body = { model: MODEL, messages: [{ role: "user", content: "a" }] };
    const text = ["a", "b"]
      .map((custom_id) => ({ custom_id, method: "POST", url: "/v1/chat/completions", body }))
      .map((each, index) => JSON.stringify(index === 0 ? each : { ...each, schema: TEXT }))
      .join("\n");
    const file = await client.files.create({
      file: await toFile(Buffer.from(text), "in.jsonl"),
      purpose: "batch",
    });
    const { id } = await client.batches.create(
      { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" },
      { headers: { "x-perigee-schema": JSON.stringify(SUM) } },
    );
    const { output_file_id } = await ended(client, id);
    const answers: Json[] = await jsonLines(client, output_file_id);
    const contentOf = (custom_id: string): string =>
      answers.find((each) => each.custom_id === custom_id).response.body.choices[0].message.content;
    expect(contentOf("a")).toBe('{"sum":3}');
    expect(contentOf("b")).toBe('"three"');
  });
});
