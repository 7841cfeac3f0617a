/**
 * The service's front over a real socket, before a provider that a test scripts: it receives what was sent, and answers it.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterEach } from "vitest";
import type { Caller } from "../../src/service/http/caller.ts";
import { SCOPES } from "../../src/service/http/caller.ts";
import {
  openPerigeeService,
  type PerigeeService,
  type ServicePlace,
} from "../../src/service/perigee_service.ts";
import type { PerigeeServiceOptions } from "../../src/service/service_options.ts";

/** A request as a provider got it. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of many shapes
  readonly body: any;
}

/** Answers a request; `left` resolves when the caller hangs up. */
export type Answers = (request: Received, response: ServerResponse) => void | Promise<void>;

export interface FrontWorld {
  readonly baseURL: string;
  readonly url: string;
  readonly client: OpenAI;
  readonly service: PerigeeService;
  /** What the provider got, in order. */
  readonly received: Received[];
  clientOf(apiKey: string, more?: Partial<ConstructorParameters<typeof OpenAI>[0]>): OpenAI;
  /** As `fetch`, below the service's address, with the key. */
  call(path: string, init?: RequestInit): Promise<Response>;
  close(): Promise<void>;
}

/** As `openFront`, for each test of a file; what a test opened is closed after it. */
export function frontOfEachTest(): typeof openFront {
  let world: FrontWorld | undefined;
  afterEach(async () => {
    await world?.close();
    world = undefined;
  });
  return async (...given) => {
    world = await openFront(...given);
    return world;
  };
}

/** Opens a service whose providers `openai`, `anthropic` and `gemini` are answered by `answers`. Any key is a project's name. */
export async function openFront(
  answers: Answers,
  options: Partial<PerigeeServiceOptions> = {},
  place: ServicePlace = {},
): Promise<FrontWorld> {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-front-"));
  const received: Received[] = [];
  const provider = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const found = { path: request.url ?? "", headers: request.headers, body: JSON.parse(text || "null") };
      received.push(found);
      void answers(found, response);
    });
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const service = await openPerigeeService(
    {
      dataDir,
      env: {},
      providers: {
        openai: { baseUrl: `${origin}/v1`, key: "sk-upstream" },
        anthropic: { baseUrl: `${origin}/v1`, key: "sk-ant" },
        gemini: { baseUrl: `${origin}/v1beta`, key: "AIza" },
      },
      lanes: { deny: ["batch", "flex"] },
      verifier: {
        verify: (authorization) => {
          const project = /^Bearer (\w+)$/.exec(authorization ?? "")?.[1];
          return project === undefined ? undefined : callerOf(project);
        },
      },
      ...options,
    },
    place,
  );
  const url = await service.listen({ port: 0 });
  const baseURL = `${url}/v1`;
  const clientOf: FrontWorld["clientOf"] = (apiKey, more = {}) =>
    new OpenAI({ apiKey, baseURL, maxRetries: 0, ...more });
  return {
    ...{ url, baseURL, service, received, clientOf, client: clientOf("alpha") },
    call: (path, init = {}) =>
      fetch(url + path, {
        ...init,
        headers: { authorization: "Bearer alpha", "content-type": "application/json", ...init.headers },
      }),
    close: async () => {
      await service.close();
      provider.closeAllConnections();
      await new Promise((resolve) => provider.close(resolve));
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Sends a JSON body. */
export function sendJson(response: ServerResponse, body: unknown, status = 200, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

/** A chat completion of OpenAI. */
export function completion(message: object, more: object = {}): object {
  return {
    id: "chatcmpl-9",
    object: "chat.completion",
    created: 1,
    model: "gpt-4o-mini-2024",
    choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop" }],
    usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
    ...more,
  };
}

function callerOf(project: string): Caller {
  const scopes = project === "reader" ? SCOPES.filter((scope) => scope.endsWith(":read")) : SCOPES;
  return { keyId: project, project, scopes: new Set(scopes), isBeta: false };
}
