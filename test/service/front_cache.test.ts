/** Callers of the service are answered from the operator's cache if they ask for it, each project from its own answers. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Answers, completion, type FrontWorld, openFront, sendJson } from "./front_world.ts";

let world: FrontWorld | undefined;
let dir = "";

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "front-cache-"));
});

afterEach(async () => {
  await world?.close();
  world = undefined;
  rmSync(dir, { recursive: true, force: true });
});

const words: Answers = ({ body }, response) => {
  if (body.stream !== true)
    return sendJson(response, completion({ content: `to ${body.messages[0].content}` }));
  response.writeHead(200, { "content-type": "text/event-stream" });
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: body.model };
  const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
  for (const data of [
    {
      ...head,
      choices: [{ index: 0, delta: { role: "assistant", content: "streamed" }, finish_reason: null }],
    },
    { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    { ...head, choices: [], usage },
  ])
    response.write(`data: ${JSON.stringify(data)}\n\n`);
  response.end("data: [DONE]\n\n");
};

async function cachedFront(cache: object = {}): Promise<FrontWorld> {
  world = await openFront(words, { cache: { dir: join(dir, "answers"), ...cache } });
  return world;
}

/** A call of a project; what its caller sees of it. */
async function chat(
  { url }: FrontWorld,
  {
    project = "alpha",
    age = "1h",
    text = "hello",
    headers = {},
    path = "/v1/chat/completions",
    body = {},
  } = {},
) {
  const response = await fetch(url + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${project}`,
      "content-type": "application/json",
      ...(age === "" ? {} : { "x-perigee-cache": age }),
      ...headers,
    },
    body: JSON.stringify({
      model: "openai:gpt-4o-mini",
      messages: [{ role: "user", content: text }],
      ...body,
    }),
  });
  return {
    status: response.status,
    isCached: response.headers.get("x-perigee-cached"),
    costUsd: response.headers.get("x-perigee-cost-usd"),
    text: await response.text(),
  };
}

describe("x-perigee-cache", () => {
  it("answers a request that was answered before without a request, for nothing, and says so", async () => {
    const front = await cachedFront();
    const first = await chat(front);
    const second = await chat(front);
    expect(front.received.length).toBe(1);
    expect([first.isCached, second.isCached]).toEqual([null, "true"]);
    expect(second.costUsd).toBe("0");
    expect(JSON.parse(second.text).choices).toEqual(JSON.parse(first.text).choices);
    expect(JSON.parse(second.text).usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 3 });
  });

  it("never answers a project with what another was answered", async () => {
    const front = await cachedFront();
    await chat(front, { project: "alpha" });
    const other = await chat(front, { project: "beta" });
    expect(other.isCached).toBeNull();
    expect(front.received.length).toBe(2);
    expect((await chat(front, { project: "beta" })).isCached).toBe("true");
  });

  it("neither uses nor keeps answers of calls without it", async () => {
    const front = await cachedFront();
    await chat(front, { age: "" });
    expect((await chat(front)).isCached).toBeNull();
    expect((await chat(front, { age: "" })).isCached).toBeNull();
    expect(front.received.length).toBe(3);
  });

  it("asks again for an answer that is older than the caller or the operator allows", async () => {
    const front = await cachedFront({ ttl: "1s" });
    await chat(front);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect((await chat(front, { age: "1h" })).isCached).toBeNull();
    expect(front.received.length).toBe(2);
  });

  it("is kept over a restart, with calls that have an sla", async () => {
    const call = { headers: { "x-perigee-sla": "15m" }, body: { model: "echo:small" } }; // whose address stays the same
    const first = await chat(await cachedFront(), call);
    await world?.close();
    const second = await chat(await cachedFront(), call);
    expect([first.isCached, second.isCached]).toEqual([null, "true"]);
  });

  it("answers a stream whole from the cache, as chunks", async () => {
    const front = await cachedFront();
    await chat(front, { body: { stream: true } });
    const { isCached, text } = await chat(front, { body: { stream: true } });
    expect([isCached, front.received.length]).toEqual(["true", 1]);
    expect(text).toContain("streamed");
    expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
  });

  it("answers the lines of a batch that were answered before, with the bodies that the provider sent", async () => {
    const { client, received } = await cachedFront();
    const line = JSON.stringify({
      ...{ custom_id: "a", method: "POST", url: "/v1/chat/completions" },
      body: { model: "openai:gpt-4o-mini", messages: [{ role: "user", content: "hello" }] },
    });
    const file = await client.files.create({
      file: new File([`${line}\n`], "in.jsonl"),
      purpose: "batch",
    });
    const answered = async (headers: Record<string, string>): Promise<string> => {
      const { id } = await client.batches.create(
        {
          ...{ input_file_id: file.id, endpoint: "/v1/chat/completions" },
          completion_window: "15m" as "24h", // any duration here
        },
        { headers },
      );
      for (;;) {
        const { status, output_file_id: output } = await client.batches.retrieve(id);
        if (status === "completed") return (await client.files.content(output as string)).text();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    const first = await answered({ "x-perigee-cache": "1h" });
    expect(await answered({ "x-perigee-cache": "1h" })).toContain("to hello");
    expect(first).toContain("to hello");
    expect(received.length).toBe(1);
    await answered({});
    expect(received.length).toBe(2);
    await expect(answered({ "x-perigee-cache": "soon" })).rejects.toThrow(/x-perigee-cache/);
  });

  it("marks the objects of /v0, small and large, and counts nothing for them in the project's usage", async () => {
    const front = await cachedFront();
    const post = async (slas: readonly number[]) => {
      const response = await front.call("/v0/infer/", {
        method: "POST",
        headers: { "x-perigee-cache": "1h" },
        body: JSON.stringify(
          slas.map((sla, index) => ({ model: "openai:gpt-4o-mini", input: `question ${index}`, sla })),
        ),
      });
      const { task_id } = (await response.json()) as { task_id: string };
      for (;;) {
        const task = (await (await front.call(`/v0/infer/task/${task_id}`)).json()) as {
          status: string;
          objects: { cached?: true; cost?: { billed_usd: number } }[];
          usage: { billed_usd: number };
        };
        if (task.status !== "submitted") return task;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    const first = await post([30, 30]);
    expect(first.objects.map(({ cached }) => cached)).toEqual([undefined, undefined]);
    for (const slas of [
      [30, 30],
      [30, 45],
    ]) {
      const { objects, usage } = await post(slas); // one part, and a run for each sla
      expect(objects.map(({ cached }) => cached)).toEqual([true, true]);
      expect(usage.billed_usd).toBe(0);
    }
    expect(front.received.length).toBe(2);
    const metrics = await (await fetch(`${front.url}/metrics`)).text();
    expect(metrics).toContain("perigee_items_cached_total 4");
  });

  it.each([
    ["soon", 'x-perigee-cache: expected a duration above 0, such as 90m, 24h or 7d; got "soon"'],
    ["0s", 'x-perigee-cache: expected a duration above 0, such as 90m, 24h or 7d; got "0s"'],
  ])("is refused with 422 as %j", async (age, message) => {
    const { status, text } = await chat(await cachedFront(), { age });
    expect([status, JSON.parse(text).error]).toMatchObject([422, { param: "x-perigee-cache", message }]);
  });

  it("is refused with 422 where the operator has no cache, and says what to do", async () => {
    world = await openFront(words);
    const { status, text } = await chat(world);
    expect(status).toBe(422);
    expect(JSON.parse(text).error.message).toContain("ask the operator to set cache in its configuration");
    expect(world.received.length).toBe(0);
  });
});
