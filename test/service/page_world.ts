/**
 * A service for tests of the operator page: a real engine and tasks, a provider that answers at a pace, and one
 * key.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { openEngine } from "../../src/engine/engine.ts";
import { openAftercare } from "../../src/service/aftercare.ts";
import type { Caller } from "../../src/service/caller.ts";
import { Idempotency } from "../../src/service/idempotency.ts";
import { Observation } from "../../src/service/observation.ts";
import { createHttpService, type HttpService } from "../../src/service/service.ts";
import { createFiles } from "../../src/tasks/file_store.ts";
import { createSpending } from "../../src/tasks/spending.ts";
import { openTasks } from "../../src/tasks/task_desk.ts";
import type { Tasks } from "../../src/tasks/tasks.ts";

export const KEY = "pgk_live_test";
export const PROJECT = "red";

export interface PageWorld {
  url: string;
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
  const observation = new Observation({ clock: systemClock });
  const opened = await openEngine({
    dataDir,
    env: {},
    providers: { demo: { baseUrl: provider.url, key: "k" } },
    limits: { demo: { requestsPerMinute: 30_000, tokensPerMinute: 1_200_000, concurrency: 24 } },
    prices: { "demo:*": { inputUsdPerMillion: 2, outputUsdPerMillion: 8 } },
    observer: observation.observer,
    threads: 1,
  });
  const { clock, disk, store, measurer } = opened.parts;
  const files = await createFiles({ store, disk, clock, measurer, dataDir });
  const spending = createSpending({ clock, store, capUsd: () => undefined });
  const aftercare = await openAftercare({
    clock,
    store,
    files,
    egressAllow: undefined,
    retentionDays: undefined,
    onFault: () => undefined,
    openTasks: (onFinished) => openTasks({ ...opened, files, spending, dataDir, onFinished }),
  });
  const { tasks, webhooks } = aftercare;
  const verifier = { verify: (header: string | undefined) => world.callerOf(header) };
  observation.join({ tasks, verifier, lanes: () => opened.parts.lanes() });
  const { engine } = opened;
  const idempotency = new Idempotency({ clock, store });
  const context = {
    clock,
    disk,
    store,
    engine,
    tasks,
    files,
    webhooks,
    idempotency,
    dataDir,
    publicUrl: () => world.url,
  };
  let service: HttpService;
  const world: PageWorld & { callerOf(header: string | undefined): Caller | undefined } = {
    url: "",
    tasks,
    delayMs: 40,
    isKeyValid: true,
    callerOf: (header) =>
      world.isKeyValid && header === `Bearer ${KEY}`
        ? { keyId: "k1", project: PROJECT, scopes: new Set(["infer:read", "infer:write"]), isBeta: false }
        : undefined,
    async listen() {
      service = await createHttpService({ context, spending, verifier, version: "0.0.0", observation });
      const port = Number(new URL(world.url || "http://x:0").port);
      world.url = `${await service.listen({ port })}/`;
    },
    async cut() {
      const closed = service.close();
      service.app.server.closeAllConnections();
      await closed;
    },
    async close() {
      await world.cut();
      await aftercare.close();
      await engine.close();
      await provider.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  await world.listen();
  return world;
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
