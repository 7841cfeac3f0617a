import { request as httpRequest, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import type { FastifyInstance } from "../../src/service/http/fastify.ts";
import { outputUrl, registerOutputRoutes } from "../../src/service/infer/output.ts";
import type { OutputView, TaskOutput } from "../../src/tasks/shapes/task_view.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";
import { createMemoryStore, FakeClock } from "../../src/testing/index.ts";
import { bareApp } from "./app.ts";

const TASK = "aaaaaaaa-2222-4333-8444-555555555555";
const LINES = '{"key":"a","output":{"type":"text","text":"1"}}\n{"key":"b","output":null,"error":{}}\n';
const alpha = { authorization: "Bearer alpha" };

let app: FastifyInstance | undefined;
afterEach(() => app?.close());

/** One task of project alpha, with an output that a test decides on. */
function world(output: Partial<TaskOutput> = {}) {
  const views: OutputView[] = [];
  let open = 0;
  const tasks = {
    task: async (project: string, id: string) => {
      if (project !== "alpha" || id !== TASK) throw new PerigeeError("not_found", "no task");
      return { id };
    },
    output: async (project: string, id: string, view: OutputView = "all") => {
      await tasks.task(project, id);
      views.push(view);
      return {
        isComplete: true,
        bytes: LINES.length,
        etag: '"v1"',
        read: async function* ({ start = 0, end = LINES.length } = {}) {
          open += 1;
          try {
            yield Buffer.from(LINES.slice(start, end));
          } finally {
            open -= 1;
          }
        },
        ...output,
      };
    },
  };
  const clock = new FakeClock({ wallMs: 0 });
  const store = createMemoryStore();
  app = bareApp({ tasks: tasks as unknown as Tasks, clock, store }, registerOutputRoutes);
  const made = app;
  const get = (path: string, headers: Record<string, string> = {}, method: "GET" | "HEAD" | "POST" = "GET") =>
    made.inject({ method, url: path, headers: { ...alpha, ...headers } });
  return { app, clock, get, views, open: () => open };
}

const PATH = `/v0/files/output/${TASK}.jsonl`;

describe("output_url", () => {
  it("returns the lines of a finished task, whole and in part", async () => {
    const { get } = world();
    expect(outputUrl({ publicUrl: () => "http://perigee.test" }, TASK)).toBe(`http://perigee.test${PATH}`);
    const whole = await get(PATH);
    expect(whole.body).toBe(LINES);
    expect(whole.headers).toMatchObject({
      etag: '"v1"',
      "content-type": "application/jsonl",
      "content-disposition": `attachment; filename="${TASK}.jsonl"; filename*=UTF-8''${TASK}.jsonl`,
      "cache-control": "private, no-store",
      "x-content-type-options": "nosniff",
      "content-length": String(LINES.length),
    });
    expect(whole.headers["x-incomplete"]).toBeUndefined();
    const part = await get(PATH, { range: "bytes=-4", "if-range": '"v1"' });
    expect(part).toMatchObject({ statusCode: 206, body: "{}}\n" });
    expect((await get(PATH, { range: "bytes=5000-" })).statusCode).toBe(416);
    expect((await get(PATH, { "if-none-match": 'W/"v1"' })).statusCode).toBe(304);
    const head = await get(PATH, { range: "bytes=0-3" }, "HEAD"); // only GET has ranges
    expect(head).toMatchObject({ statusCode: 200, body: "" });
    expect(head.headers["content-length"]).toBe(String(LINES.length));
    expect((await get(PATH.replace(".jsonl", ""))).body).toBe(LINES);
    expect((await get(`${PATH}/`)).body).toBe(LINES);
  });

  it("returns the lines so far of a task that runs, and says that more will follow", async () => {
    const { get } = world({ isComplete: false, etag: undefined });
    const response = await get(PATH, { range: "bytes=0-3" });
    expect(response).toMatchObject({ statusCode: 200, body: LINES });
    expect(response.headers).toMatchObject({ "x-incomplete": "true", "accept-ranges": "none" });
    expect(response.headers["etag"]).toBeUndefined();
  });

  it("returns only errors, whose size nobody knows before", async () => {
    const { get, views } = world({ bytes: undefined });
    const response = await get(`${PATH}?view=errors`, { range: "bytes=0-3" });
    expect(response.statusCode).toBe(200);
    expect(response.headers).toMatchObject({ etag: '"v1"', "accept-ranges": "none" });
    expect(response.headers["content-disposition"]).toContain(`${TASK}-errors.jsonl`);
    expect((await get(`${PATH}?view=some`)).statusCode).toBe(422);
    expect(views).toEqual(["errors"]);
  });

  it("needs the key, and is not there for other projects", async () => {
    const { app, get } = world();
    expect((await app.inject({ url: PATH })).statusCode).toBe(401);
    const foreign = await get(PATH, { authorization: "Bearer beta" });
    expect(foreign.statusCode).toBe(404);
    const unknown = "11111111-2222-4333-8444-555555555555";
    expect((await get(PATH.replace(TASK, unknown))).body).toBe(foreign.body);
    expect((await get("/v0/files/output/.jsonl")).statusCode).toBe(404);
  });

  it("can be read by a signed link without a key, for an hour at most", async () => {
    const { app, clock, get, views } = world();
    const made = await get(`${PATH}/link?view=answers&expires_in=60`, {}, "POST");
    expect(made.json().expires_at).toBe("1970-01-01T00:01:00.000Z");
    const path = new URL(made.json().url).pathname;
    expect(await app.inject({ url: path })).toMatchObject({ statusCode: 200, body: LINES });
    expect((await app.inject({ url: path, method: "HEAD" })).headers["referrer-policy"]).toBe("no-referrer");
    expect(views).toEqual(["answers", "answers"]);
    expect((await app.inject({ url: path, method: "POST" })).statusCode).toBe(404);
    const [claim = "", mac = ""] = path.slice("/v0/files/link/".length).split(".");
    const forged = Buffer.from(JSON.stringify(["alpha", TASK, "all", 9e15])).toString("base64url");
    for (const token of [`${forged}.${mac}`, `${claim}.${"A".repeat(43)}`, claim, `${claim}.`, "x.y"])
      expect((await app.inject({ url: `/v0/files/link/${token}` })).statusCode).toBe(404);
    await clock.advance(60_000);
    expect((await app.inject({ url: path })).statusCode).toBe(404);
    expect((await get(`${PATH}/link?expires_in=3601`, {}, "POST")).statusCode).toBe(422);
    expect((await get(`${PATH}/link`, { authorization: "Bearer beta" }, "POST")).statusCode).toBe(404);
  });
});

describe("fault 83: slow readers", () => {
  const endless = {
    bytes: undefined,
    read: async function* () {
      for (;;) yield Buffer.alloc(1024 * 1024);
    },
  };

  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await turn();
  }

  function begin(port: number, onAnswer: (response: IncomingMessage) => void): () => void {
    const request = httpRequest({ port, path: PATH, headers: alpha, agent: false }, (response) => {
      response.pause();
      response.on("error", () => undefined);
      onAnswer(response);
    });
    request.on("error", () => undefined);
    request.end();
    return () => request.destroy();
  }

  it("are cut off when they take nothing for a minute", async () => {
    let isReading = false;
    let given = 0;
    const { app, clock } = world({
      ...endless,
      read: async function* () {
        isReading = true;
        try {
          for (;;) {
            given += 1;
            yield Buffer.alloc(1024 * 1024);
          }
        } finally {
          isReading = false;
        }
      },
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    const { port } = app.server.address() as AddressInfo;
    begin(port, () => undefined);
    await until(() => isReading);
    let before = -1;
    while (before !== given) {
      before = given;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(given).toBeLessThan(50);
    await clock.advance(59_000);
    expect(isReading).toBe(true);
    await clock.advance(2_000);
    await until(() => !isReading);
  });

  it("are at most twenty of one key", async () => {
    const { app, get } = world(endless);
    await app.listen({ port: 0, host: "127.0.0.1" });
    const { port } = app.server.address() as AddressInfo;
    let answered = 0;
    const leaves = Array.from({ length: 20 }, () =>
      begin(port, () => {
        answered += 1;
      }),
    );
    await until(() => answered === 20);
    expect((await get(PATH)).statusCode).toBe(429);
    expect((await get(PATH, {}, "HEAD")).statusCode).toBe(200);
    for (const leave of leaves) leave();
    let status = 429;
    while (status === 429) {
      const ended = await new Promise<number>((resolve) => {
        const leave = begin(port, (response) => {
          resolve(response.statusCode ?? 0);
          leave();
        });
      });
      status = ended;
    }
    expect(status).toBe(200);
  });
});
