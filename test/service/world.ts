/**
 * A service on a port of its own, with keys and tasks that tests make up.
 */
import { type AddressInfo, connect } from "node:net";
import { onTestFinished } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { ServiceContext } from "../../src/service/context.ts";
import type { Caller, Scope } from "../../src/service/http/caller.ts";
import type { KeyVerifier } from "../../src/service/http/key_verifier.ts";
import { createServer, type HttpServer, type ServerOptions } from "../../src/service/http/server.ts";
import { registerInferRoutes } from "../../src/service/infer/infer.ts";
import { FakeTasks } from "./fake_tasks.ts";

const ALL: readonly Scope[] = ["infer:read", "infer:write", "files:read", "files:write"];

/** Keys by what they may do. */
const KEYS: Readonly<Record<string, Caller>> = {
  "key-one": caller("one", ALL),
  "key-two": caller("two", ALL),
  "key-reader": caller("one", ["infer:read", "files:read"]),
};

/** What a response came to. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of many shapes
  readonly json: any;
}

export interface World {
  readonly url: string;
  readonly port: number;
  readonly tasks: FakeTasks;
  readonly server: HttpServer;
  readonly faults: unknown[];
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Sends bytes as they are and gives all that comes back, until the other side closes or `waitMs` have passed. */
  raw(bytes: string | readonly string[], waitMs?: number): Promise<string>;
}

export interface CallOptions {
  readonly key?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export async function openWorld(
  options: Partial<ServerOptions> & { readonly register?: (server: HttpServer) => void } = {},
): Promise<World> {
  const tasks = new FakeTasks();
  const faults: unknown[] = [];
  const server = createServer({
    clock: systemClock,
    verifier: fakeVerifier,
    onFault: (error) => faults.push(error),
    ...options,
  });
  let url = "";
  const context = { clock: systemClock, tasks, publicUrl: () => url } as unknown as ServiceContext;
  registerInferRoutes(server.app, context);
  options.register?.(server);
  await server.app.listen({ host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    server.destroyConnections();
    await server.app.close();
  });
  const { port } = server.app.server.address() as AddressInfo;
  url = `http://127.0.0.1:${port}`;
  return {
    url,
    port,
    tasks,
    server,
    faults,
    call: (method, path, given = {}) => call(url + path, method, given),
    raw: (bytes, waitMs = 2_000) => raw(port, typeof bytes === "string" ? [bytes] : bytes, waitMs),
  };
}

export const fakeVerifier: KeyVerifier = {
  verify: (authorization, area) => {
    const key = area === "v0" ? /^Bearer ([\w-]+)$/.exec(authorization ?? "")?.[1] : authorization;
    return KEYS[key ?? ""];
  },
};

/** The body without what differs in every answer. */
export function withoutId(answer: Answer): string {
  return answer.text.replace(/,"request_id":"[^"]*"/, "");
}

async function call(
  url: string,
  method: string,
  { key = "key-one", body, headers }: CallOptions,
): Promise<Answer> {
  const isJson = body !== undefined && typeof body !== "string";
  const response = await fetch(url, {
    method,
    redirect: "manual",
    headers: {
      ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isJson ? JSON.stringify(body) : (body as string) }),
  });
  const text = await response.text();
  const isJsonAnswer = response.headers.get("content-type")?.startsWith("application/json") === true;
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isJsonAnswer && text !== "" ? JSON.parse(text) : undefined,
  };
}

function raw(port: number, parts: readonly string[], waitMs: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    const end = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(text);
    };
    const timer = setTimeout(end, waitMs);
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => undefined);
    socket.on("close", end);
    for (const part of parts) socket.write(part, "latin1");
  });
}

function caller(project: string, scopes: readonly Scope[]): Caller {
  return { keyId: `${project}-${scopes.length}`, project, scopes: new Set(scopes), isBeta: false };
}
