/**
 * A service for tests of the operator page: a real engine and tasks, a provider that answers at a pace, and the routes
 * that the page uses, for one key.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type FastifyInstance, fastify } from "fastify";
import { systemClock } from "../../src/clock.ts";
import { openEngine } from "../../src/engine/engine.ts";
import { Activity } from "../../src/service/activity.ts";
import type { LaneView } from "../../src/service/lane_view.ts";
import { registerOperatorRoutes } from "../../src/service/operator.ts";
import { OperatorFeed } from "../../src/service/operator_feed.ts";
import { registerPageRoutes } from "../../src/service/page.ts";
import { createSpending } from "../../src/tasks/spending.ts";
import { openTasks } from "../../src/tasks/task_desk.ts";
import type { Tasks } from "../../src/tasks/tasks.ts";

export const KEY = "pgk_live_test";
export const PROJECT = "red";

export interface PageWorld {
  readonly url: string;
  readonly tasks: Tasks;
  /** What the provider takes for an answer. */
  delayMs: number;
  /** Whether the key is accepted. */
  isKeyValid: boolean;
  close(): Promise<void>;
  /** Stops listening and breaks every connection, as a crash would; `listen` begins again on the same port. */
  cut(): Promise<void>;
  listen(): Promise<void>;
}

export async function openPageWorld(): Promise<PageWorld> {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-page-"));
  const provider = await startProvider(() => world.delayMs);
  const activity = new Activity(systemClock);
  const opened = await openEngine({
    dataDir,
    env: {},
    providers: { demo: { baseUrl: provider.url, key: "k" } },
    limits: { demo: { requestsPerMinute: 30_000, tokensPerMinute: 1_200_000, concurrency: 24 } },
    prices: { "demo:*": { inputUsdPerMillion: 2, outputUsdPerMillion: 8 } },
    observer: {
      attempted: (report) => activity.attempted(report),
      settled: (report) => activity.settled(report),
      committed: () => undefined,
    },
    threads: 1,
  });
  const noFiles = new Proxy({}, { get: () => () => Promise.reject(new Error("no files here")) });
  const tasks = await openTasks({
    ...opened,
    dataDir,
    files: noFiles as never,
    spending: createSpending({ ...opened.parts, capUsd: () => undefined }),
  });
  const lanes = (): LaneView[] =>
    [...opened.parts.lanes()].map((lane) => {
      const [provider = "", , ...family] = lane.key.split(":");
      const limits = lane.limits.snapshot(systemClock.nowMs());
      return { provider, tier: "realtime", family: family.join(":"), waiting: 0, ...limits };
    });
  const isAccepted = (header: string | undefined) => world.isKeyValid && header === `Bearer ${KEY}`;
  let app: FastifyInstance;
  let port = 0;
  const world: PageWorld = {
    url: "",
    tasks,
    delayMs: 40,
    isKeyValid: true,
    async listen() {
      app = fastify({ forceCloseConnections: true });
      const feed = new OperatorFeed({ clock: systemClock, tasks, activity, lanes });
      registerPageRoutes(app);
      registerCaller(app, isAccepted);
      registerOperatorRoutes(app, { feed, isAccepted });
      registerActions(app, tasks);
      await app.listen({ host: "127.0.0.1", port });
      port = (app.server.address() as AddressInfo).port;
    },
    async cut() {
      const closed = app.close();
      app.server.closeAllConnections();
      await closed;
    },
    async close() {
      await world.cut();
      await tasks.close();
      await opened.engine.close();
      await provider.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  await world.listen();
  return Object.assign(world, { url: `http://127.0.0.1:${port}/` });
}

function registerCaller(app: FastifyInstance, isAccepted: (header: string | undefined) => boolean): void {
  app.addHook("onRequest", async (request, reply) => {
    if (request.routeOptions.config.scope === undefined) return;
    if (!isAccepted(request.headers.authorization)) {
      return reply.code(401).send({ error: { message: "a valid API key is needed" } });
    }
    request.caller = { keyId: "k1", project: PROJECT, scopes: new Set(["infer:read"]), isBeta: false };
  });
}

function registerActions(app: FastifyInstance, tasks: Tasks): void {
  const config = { scope: "infer:write" } as const;
  app.post<{ Params: { id: string } }>("/v0/infer/task/:id/cancel", { config }, async ({ params }) => ({
    task: await tasks.cancel(PROJECT, params.id),
  }));
  app.get<{ Params: { id: string } }>("/v0/files/output/:id", { config }, async ({ params }, reply) => {
    const { isComplete, read } = await tasks.output(PROJECT, params.id);
    const chunks: Uint8Array[] = [];
    for await (const chunk of read()) chunks.push(chunk);
    if (!isComplete) reply.header("x-incomplete", "true");
    return reply.type("application/jsonl").send(Buffer.concat(chunks));
  });
}

/** Speaks OpenAI's protocol; a prompt that holds `[[refuse]]` is refused. */
async function startProvider(delayMs: () => number) {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      setTimeout(() => {
        const isRefused = body.includes("[[refuse]]");
        const answer = isRefused
          ? { error: { message: "no", type: "invalid_request_error", code: "invalid_request_error" } }
          : {
              model: "m",
              choices: [{ message: { role: "assistant", content: "Because." }, finish_reason: "stop" }],
              usage: { prompt_tokens: 120, completion_tokens: 60, total_tokens: 180 },
            };
        response.writeHead(isRefused ? 400 : 200, { "content-type": "application/json" });
        response.end(JSON.stringify(answer));
      }, delayMs());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
