/**
 * From an uploaded file to its output, on a real engine: what a reader gets while the task runs and after it.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { batchLines, type OpenaiProcess, OpenaiWorld } from "./openai_world.ts";

const headers = { authorization: "Bearer alpha" };

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

async function taskOn(text: string): Promise<{ readonly id: string; readonly path: string }> {
  const body = new FormData();
  body.append("file", new Blob([text]));
  const url = service.baseURL.replace("/v1", "/v0/files/in.jsonl");
  const { file_id } = (await (await fetch(url, { method: "PUT", body, headers })).json()) as {
    file_id: string;
  };
  const { id } = await service.tasks.submit("alpha", { items: [{ file_id, sla: 60 }], hasOutputFile: true });
  return { id, path: `/v0/files/output/${id}.jsonl` };
}

const get = (path: string, more: Record<string, string> = {}) =>
  service.app.inject({ url: path, headers: { ...headers, ...more } });

const keysOf = (text: string) =>
  text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line).key]));

it("an output has whole lines at any time, and once it is complete it can be taken in parts", async () => {
  const prompts = Array.from({ length: 600 }, (_, index) => {
    if (index % 10 === 0) return `fail ${index}`;
    return index < 300 ? `prompt ${index}` : `hang ${index}`;
  });
  const { id, path } = await taskOn(`${batchLines(prompts)}\nno JSON\n`);
  while ((await service.tasks.task("alpha", id)).counts.completed < 250)
    await new Promise((resolve) => setTimeout(resolve, 10));
  const early = await get(path, { range: "bytes=0-10" });
  expect(early).toMatchObject({ statusCode: 200, headers: { "x-incomplete": "true" } });
  expect(early.body.endsWith("\n")).toBe(true);
  const earlyKeys = keysOf(early.body);
  expect(earlyKeys.length).toBeGreaterThanOrEqual(250);
  expect(new Set(keysOf((await get(`${path}?view=answers`)).body)).size).toBeLessThan(600);
  world.release();
  while ((await service.tasks.task("alpha", id)).status === "submitted")
    await new Promise((resolve) => setTimeout(resolve, 10));

  const whole = await get(path);
  expect(whole.headers["x-incomplete"]).toBeUndefined();
  expect(whole.body.startsWith(early.body)).toBe(true);
  const expected = [...prompts.map((_, index) => `r${index + 1}`), null].sort();
  expect(keysOf(whole.body).sort()).toEqual(expected);
  const { etag } = whole.headers;
  let joined = "";
  while (joined.length < whole.body.length) {
    const range = `bytes=${joined.length}-${joined.length + 9_999}`;
    const part = await get(path, { range, "if-range": String(etag) });
    expect(part.statusCode).toBe(206);
    joined += part.body;
  }
  expect(joined).toBe(whole.body);
  const errors = keysOf((await get(`${path}?view=errors`)).body);
  const answers = keysOf((await get(`${path}?view=answers`)).body);
  expect(errors).toHaveLength(61);
  expect([...errors, ...answers].sort()).toEqual(expected);
  expect((await get(path, { "if-none-match": String(etag) })).statusCode).toBe(304);
});

it("a file that a task works on cannot be removed, and its answers stay without it", async () => {
  const { id } = await taskOn(batchLines(["hang"]));
  while (world.prompts.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  const [file] = (await service.files.list("alpha", { limit: 1 })).items;
  const remove = () => service.app.inject({ method: "DELETE", url: `/v0/files/${file?.id}`, headers });
  expect((await remove()).statusCode).toBe(409);
  world.release();
  while ((await remove()).statusCode === 409) await new Promise((resolve) => setTimeout(resolve, 10));
  expect((await service.tasks.task("alpha", id)).status).toBe("completed");
  expect((await get(`/v0/files/output/${id}.jsonl`)).body).toContain("HANG");
});

it("a file of user_data cannot be the input of a task, and the refusal says why", async () => {
  const body = new FormData();
  body.append("file", new Blob([batchLines(["one"])]));
  const url = service.baseURL.replace("/v1", "/v0/files/in.jsonl?purpose=user_data");
  const { file_id } = (await (await fetch(url, { method: "PUT", body, headers })).json()) as {
    file_id: string;
  };
  const submitted = service.tasks.submit("alpha", { items: [{ file_id, sla: 60 }], hasOutputFile: true });
  await expect(submitted).rejects.toMatchObject({
    code: "usage", // 422
    message: expect.stringContaining("purpose batch"),
    details: { param: "file_id" },
  });
  expect(
    (await service.app.inject({ method: "DELETE", url: `/v0/files/${file_id}`, headers })).statusCode,
  ).toBe(200);
});
