/** Other endpoints than a chat's over HTTP: batches by the official SDK, and items with a kind. */
import { toFile } from "openai";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ended, jsonLines, type OpenaiProcess, OpenaiWorld } from "./openai_world.ts";

let world: OpenaiWorld;
let service: OpenaiProcess;

beforeEach(async () => {
  world = new OpenaiWorld();
  service = await world.start();
});

afterEach(async () => {
  world.release();
  await service.close();
  await world.remove();
});

it("answers a batch of embeddings with a list for each line, also where lines share a request", async () => {
  const { client } = service;
  const texts = ["one", "two", "three", "one"];
  const lines = texts.map((input, index) => {
    const line = { custom_id: `r${index}`, method: "POST", url: "/v1/embeddings" };
    return JSON.stringify({ ...line, body: { model: "echo:e", input, dimensions: 3 } });
  });
  const file = await client.files.create({
    file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"),
    purpose: "batch",
  });
  const created = await client.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/embeddings",
    completion_window: "24h",
  });
  const batch = await ended(client, created.id);
  expect(batch).toMatchObject({ status: "completed", endpoint: "/v1/embeddings" });
  const answers = (await jsonLines(client, batch.output_file_id)) as {
    readonly custom_id: string;
    readonly response: { readonly body: { readonly data: readonly { readonly embedding: number[] }[] } };
  }[];
  const vectors = new Map(answers.map((each) => [each.custom_id, each.response.body.data]));
  expect(vectors.size).toBe(4);
  for (const data of vectors.values()) {
    expect(data).toHaveLength(1);
    expect(data[0]?.embedding).toHaveLength(3);
  }
  expect(vectors.get("r0")).toEqual(vectors.get("r3"));
  expect(vectors.get("r0")).not.toEqual(vectors.get("r1"));
});
