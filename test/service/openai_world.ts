/**
 * The OpenAI front on a real engine, over a real socket, before a provider that a test scripts by the prompt:
 * `fail` is refused, `hang` waits until `release`, all else is answered in capitals.
 *
 * With `TEST_SERVICE=fleet`, `startService` starts three workers behind a balancer (test/faults/balanced_fleet.ts).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import type { ConfigOptions } from "../../src/engine/config/config_options.ts";
import { openEngine } from "../../src/engine/engine.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { registerFileRoutes } from "../../src/service/files/files.ts";
import { registerAudit } from "../../src/service/http/audit.ts";
import { SCOPES } from "../../src/service/http/caller.ts";
import type { FastifyInstance } from "../../src/service/http/fastify.ts";
import { registerOutputRoutes } from "../../src/service/infer/output.ts";
import { registerOpenAiRoutes } from "../../src/service/openai/openai_batches.ts";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import { createFiles } from "../../src/tasks/files/file_store.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import { type OpenedTasks, openTasks } from "../../src/tasks/open_tasks.ts";
import { createSpending } from "../../src/tasks/usage/spending.ts";
import { BalancedFleet } from "../faults/balanced_fleet.ts";
import { bareApp } from "./app.ts";
import { isFleet } from "./serving.ts";

/** Projects that tests have keys of. */
const PROJECTS = ["alpha", "beta"];

export class OpenaiWorld {
  readonly dataDir: string = mkdtempSync(join(tmpdir(), "perigee-openai-"));
  readonly #provider = createServer((request, response) => void this.#answer(request, response));
  #waiting: (() => void)[] = [];
  #providerUrl = "";
  #isReleased = false;
  #fleet: BalancedFleet | undefined;
  /** What requests left in the audit log. */
  readonly noted: AuditEvent[] = [];
  /** Prompts in the order of their coming. */
  readonly prompts: string[] = [];
  /** The bytes that an answer is sent as. */
  sends: (body: string) => string = (body) => body;

  /** The service as its callers see it; the same again after it was closed. */
  startService(): Promise<OpenaiService> {
    return isFleet ? this.#startFleet() : this.start();
  }

  async #startFleet(): Promise<OpenaiService> {
    if (this.#fleet !== undefined) await this.#fleet.start();
    else {
      this.#fleet = await BalancedFleet.open({ options: await this.#settings() });
      for (const project of PROJECTS)
        await this.#fleet.key({ project, name: "default", scopes: SCOPES, isBeta: false }, project);
    }
    const fleet = this.#fleet;
    return { ...clients(`${fleet.url}/v1`), close: () => fleet.stop() };
  }

  /** Of the engine; the provider listens then. */
  async #settings(): Promise<Pick<ConfigOptions, "providers" | "lanes">> {
    if (this.#providerUrl === "") {
      await new Promise<void>((resolve) => this.#provider.listen(0, "127.0.0.1", resolve));
      this.#providerUrl = `http://127.0.0.1:${(this.#provider.address() as AddressInfo).port}/v1`;
    }
    const lanes = { deny: ["batch" as const] }; // it answers nothing but chats
    return { providers: { openai: { baseUrl: this.#providerUrl, key: "k" } }, lanes };
  }

  async start(): Promise<OpenaiProcess> {
    const { dataDir } = this;
    const opened = await openEngine({ env: {}, dataDir, ...(await this.#settings()) });
    const { measurer, storage } = opened.core;
    const { store, disk, clock } = storage;
    const files = await createFiles({ store, disk, clock, measurer, dataDir });
    const tasks = await openTasks({
      ...opened,
      files,
      workLog: await openWorkLog({ store, clock }),
      spending: createSpending({ clock, store, capUsd: () => undefined }),
      dataDir,
    });
    const app = bareApp(
      { ...storage, engine: opened.engine, files, tasks, dataDir },
      (bare) => registerAudit(bare, { note: (event) => this.noted.push(event) }),
      registerFileRoutes,
      registerOutputRoutes,
      registerOpenAiRoutes,
    );
    await app.listen({ port: 0, host: "127.0.0.1" });
    const baseURL = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/v1`;
    const close = async (): Promise<void> => {
      await app.close();
      await tasks.close();
      await opened.engine.close();
    };
    return { app, files, tasks, ...clients(baseURL), close };
  }

  /** Answers what hangs, and nothing hangs from now on. */
  release(): void {
    this.#isReleased = true;
    for (const answer of this.#waiting.splice(0)) answer();
  }

  async remove(): Promise<void> {
    await this.#fleet?.close();
    this.#provider.closeAllConnections();
    await new Promise((resolve) => this.#provider.close(resolve));
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const body = JSON.parse(text) as { model: string; messages: { content: string }[] };
    const prompt = body.messages.at(-1)?.content ?? "";
    this.prompts.push(prompt);
    if (prompt.includes("hang") && !this.#isReleased)
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const isFailure = prompt.includes("fail");
    response.writeHead(isFailure ? 400 : 200, { "content-type": "application/json" });
    const error = { error: { message: "no", type: "invalid_request_error", code: "bad" } };
    response.end(isFailure ? JSON.stringify(error) : this.sends(this.answerTo(prompt, body.model)));
  }

  /** The body of an answer. */
  answerTo(prompt: string, model = "gpt-test"): string {
    const message = { role: "assistant", content: prompt.toUpperCase() };
    return JSON.stringify({
      id: "chatcmpl-1",
      object: "chat.completion",
      model,
      choices: [{ index: 0, message, finish_reason: prompt.includes("long") ? "length" : "stop" }],
      usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
    });
  }
}

interface OpenaiClients {
  /** Of project alpha. */
  readonly client: OpenAI;
  clientOf(project: string): OpenAI;
  readonly baseURL: string;
}

export interface OpenaiService extends OpenaiClients {
  close(): Promise<void>;
}

export interface OpenaiProcess extends OpenaiService {
  readonly app: FastifyInstance;
  readonly files: Files;
  readonly tasks: OpenedTasks;
}

function clients(baseURL: string): OpenaiClients {
  const clientOf = (apiKey: string): OpenAI => new OpenAI({ apiKey, baseURL, maxRetries: 0 });
  return { client: clientOf("alpha"), clientOf, baseURL };
}

/** Lines of OpenAI's batch layout, one for each prompt, `r1` first. */
export function batchLines(prompts: readonly string[], model = "gpt-test"): string {
  return prompts
    .map((content, index) => {
      const body = { model, messages: [{ role: "user", content }], max_tokens: 16 };
      const line = { custom_id: `r${index + 1}`, method: "POST", url: "/v1/chat/completions", body };
      return `${JSON.stringify(line)}\n`;
    })
    .join("");
}

/** Polls as users of the interface do. */
export async function ended(client: OpenAI, id: string): Promise<OpenAI.Batch> {
  for (;;) {
    const batch = await client.batches.retrieve(id);
    if (["completed", "failed", "expired", "cancelled"].includes(batch.status)) return batch;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function jsonLines(client: OpenAI, fileId: string | undefined): Promise<unknown[]> {
  const response = await client.files.content(fileId ?? "");
  const text = await response.text();
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
}
