/**
 * The routes of executions on a server of their own: real executions on a store in memory, with two satellites.
 *
 *   satellite/perigee/echo   vendor: answers {response} with its prompt, or waits for `release` when that is "wait"
 *   satellite/one/own        only of the project `one`
 */
import type { AddressInfo } from "node:net";
import { afterAll } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { PerigeeError } from "../../src/errors.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { openExecutions } from "../../src/satellites/executions/executions.ts";
import type { ResolvedSatellite, SatelliteResolver } from "../../src/satellites/sdk/catalogue.ts";
import type { Executions } from "../../src/satellites/sdk/execution.ts";
import type { GuardedHttp } from "../../src/satellites/sdk/guarded_http.ts";
import type { Satellite } from "../../src/satellites/sdk/satellite.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { z } from "../../src/schema.ts";
import { type Caller, SCOPES, type Scope } from "../../src/service/http/caller.ts";
import { Idempotency } from "../../src/service/http/idempotency.ts";
import type { KeyVerifier } from "../../src/service/http/key_verifier.ts";
import { createServer, type ServerOptions } from "../../src/service/http/server.ts";
import { registerExecutionRoutes } from "../../src/service/satellites/executions.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";

/** Keys by name; `beta` may run vendor satellites. */
const KEYS: Readonly<Record<string, Caller>> = {
  beta: caller("one", SCOPES, true),
  plain: caller("one", SCOPES, false),
  reader: caller("one", ["satellites:read"], true),
  other: caller("two", SCOPES, true),
};

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of many shapes
  readonly json: any;
}

export interface CallOptions {
  /** The whole Authorization header; absent: only the key `beta`. */
  readonly authorization?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ExecutionService {
  readonly executions: Executions;
  /** Lets executions that wait go on. */
  release(): void;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Asks until it is no longer pending. */
  finished(path: string): Promise<Answer>;
}

const verifier: KeyVerifier = {
  verify: (authorization, area) => {
    const pattern = area === "v1" ? /^([^ ]+)$/ : /^Bearer ([^ ]+)$/;
    return KEYS[pattern.exec(authorization ?? "")?.[1] ?? ""];
  },
};

/** Closed after the file's tests. */
export async function openExecutionService(options: Partial<ServerOptions> = {}): Promise<ExecutionService> {
  const store = createMemoryStore();
  const waiting = new Set<() => void>();
  const catalogue = resolverOf(waiting);
  const executions = await openExecutions({
    ...{ clock: systemClock, store, workLog: await openWorkLog({ clock: systemClock, store }) },
    resolver: catalogue,
    secrets: { reveal: async () => undefined },
    http: {} as GuardedHttp,
    files: {} as Files,
    tasks: {} as Tasks,
  });
  const { app } = createServer({ clock: systemClock, verifier, ...options });
  const idempotency = new Idempotency({ clock: systemClock, store });
  registerExecutionRoutes(app, { satellites: { executions, catalogue }, idempotency });
  await app.listen({ host: "127.0.0.1", port: 0 });
  afterAll(async () => {
    await app.close();
    await executions.close();
  });
  const { port } = app.server.address() as AddressInfo;
  const call = (method: string, path: string, given: CallOptions = {}): Promise<Answer> =>
    send(`http://127.0.0.1:${port}${path}`, method, given);
  return {
    executions,
    release: () => {
      for (const go of waiting) go();
      waiting.clear();
    },
    call,
    finished: async (path) => {
      for (;;) {
        const answer = await call("GET", path);
        if (answer.json.status !== "pending") return answer;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
  };
}

function resolverOf(waiting: Set<() => void>): SatelliteResolver {
  const echo: Satellite = {
    name: "echo",
    description: "Answers with its prompt.",
    input: z.strictObject({ prompt: z.string() }) as unknown as Satellite["input"],
    config: z.strictObject({
      max_tokens: z.int().min(1).optional(),
      temperature: z.number().optional(),
    }) as unknown as Satellite["config"],
    isRepeatable: true,
    run: async ({ input, signal }) => {
      if (input["prompt"] === "fail") throw new SatelliteError("permanent", "echo_failed", "it was asked to");
      if (input["prompt"] === "wait")
        await new Promise<void>((resolve, reject) => {
          waiting.add(resolve);
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      return { response: input["prompt"] ?? null };
    },
  };
  return {
    resolve: async ({ project, isBeta }, reference): Promise<ResolvedSatellite> => {
      const { namespace, name } = reference;
      const satellite = { ...echo, name };
      if (namespace === "perigee" && name === "echo") {
        if (!isBeta) throw new PerigeeError("forbidden", "the key may not run vendor satellites");
        return { reference, kind: "vendor", satellite, fixedConfig: {} };
      }
      if (namespace === "one" && name === "own" && project === "one")
        return { reference, kind: "custom", satellite, fixedConfig: {} };
      throw new PerigeeError("not_found", "no such satellite");
    },
  };
}

async function send(
  url: string,
  method: string,
  { authorization = "beta", body, headers }: CallOptions,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    redirect: "manual",
    headers: {
      ...(authorization === "" ? {} : { authorization }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: text === "" ? undefined : JSON.parse(text),
  };
}

function caller(project: string, scopes: readonly Scope[], isBeta: boolean): Caller {
  return { keyId: `${project}-key`, project, scopes: new Set(scopes), isBeta };
}
