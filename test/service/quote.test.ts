import { afterEach, describe, expect, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { registerQuoteRoutes } from "../../src/service/infer/quote.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import { bareApp } from "./app.ts";

const apps: ReturnType<typeof bareApp>[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

/** Posts the items; answers the status, the message, with what options the engine was asked, and which files were looked for. */
async function quoted(items: readonly object[]) {
  const asked: unknown[] = [];
  const engine = {
    quote: async (_source: unknown, options: unknown) => {
      asked.push(options);
      return { time: { seconds: 61 } };
    },
  } as unknown as Engine;
  const found: string[] = [];
  const index = async (_project: string, id: string) => {
    found.push(id);
    return { path: "/nowhere", bytes: 5_000 };
  };
  const files = { index } as unknown as Files;
  const app = bareApp({ engine, files }, registerQuoteRoutes);
  apps.push(app);
  const answer = await app.inject({
    method: "POST",
    url: "/v0/quote",
    headers: { authorization: "Bearer one" },
    payload: items as object,
  });
  return { status: answer.statusCode, body: answer.json(), asked, found };
}

const inline = (sla: number): object => ({ model: "echo:a", input: "x", sla });

describe("POST /v0/quote", () => {
  it("quotes an hour, a day and the windows of its items, and no more models than a second takes", async () => {
    const { status, body, asked } = await quoted([inline(30), inline(30), inline(60)]);
    expect([status, body.earliest_sla]).toEqual([200, 2]);
    expect(asked).toMatchObject([{ project: "one", slas: [30, 60, 1_440], modelsMax: 1_000 }]);
  });

  it("counts the volume as the task would: 0 for a small one, else the bytes of lines and files", async () => {
    const volumeOf = async (items: readonly object[]) =>
      ((await quoted(items)).asked as { sizeBytes: number }[])[0]?.sizeBytes;
    expect(await volumeOf([inline(30), inline(30)])).toBe(0);
    expect(await volumeOf([{ file_id: "one", sla: 60 }])).toBe(5_000);
    const line = {
      key: "0".repeat(36),
      request: { model: "echo:a", contents: [{ parts: [{ text: "x" }] }] },
    };
    const lineBytes = JSON.stringify(line).length + 1;
    expect(await volumeOf([inline(30), inline(60)])).toBe(2 * lineBytes);
    expect(await volumeOf([inline(60), { file_id: "one", sla: 60 }])).toBe(lineBytes + 5_000);
  });

  it("finds a file by its id of either form, that of PUT /v0/files/ and that of OpenAI's client", async () => {
    const { status, found } = await quoted([
      { file_id: "file-0b9d6a520c1d4e2f8a3b5c6d7e8f9012", sla: 60 },
      { file_id: "0b9d6a52-0c1d-4e2f-8a3b-5c6d7e8f9013", sla: 60 },
    ]);
    expect([status, found]).toEqual([
      200,
      ["0b9d6a52-0c1d-4e2f-8a3b-5c6d7e8f9012", "0b9d6a52-0c1d-4e2f-8a3b-5c6d7e8f9013"],
    ]);
  });

  // Each model is quoted for each window: 20,000 of both kept the process from answering until its watchdog ended it.
  it("refuses more windows and files than a task may have, before anything is read", async () => {
    for (const items of [
      Array.from({ length: 65 }, (_, index) => inline(index + 1)),
      Array.from({ length: 65 }, () => ({ file_id: "one", sla: 60 })),
    ]) {
      const { status, body, asked } = await quoted(items);
      expect([status, body.error.code, asked]).toEqual([429, "too_many", []]);
    }
  });
});
