/**
 * The whole service on a real engine and real files, whose tasks can be made to refuse.
 *
 * With `TEST_SERVICE=fleet` it is three workers behind a balancer (test/faults/balanced_fleet.ts), which refuse nothing at will.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { ConfigOptions } from "../../src/engine/config/config_options.ts";
import { openEngine } from "../../src/engine/engine.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { z } from "../../src/schema.ts";
import { createTransfers } from "../../src/service/files/transfers.ts";
import { ServedModels } from "../../src/service/front/served_models.ts";
import { type Caller, SCOPES, type Scope } from "../../src/service/http/caller.ts";
import { Idempotency } from "../../src/service/http/idempotency.ts";
import type { KeyVerifier } from "../../src/service/http/key_verifier.ts";
import { createHttpService, type HttpService } from "../../src/service/service.ts";
import { openStack, type SatelliteSettings } from "../../src/service/stack.ts";
import type { Audit } from "../../src/store/audit/audit_log.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";
import { BalancedFleet } from "../faults/balanced_fleet.ts";
import { isFleet } from "./serving.ts";

/** `satellite/own/brought`, which comes with the program. */
const brought = defineSatellite({
  ...{ name: "brought", input: z.looseObject({}), isRepeatable: true },
  run: async () => ({}),
});
const ALL: readonly Scope[] = SCOPES.filter((scope) => scope !== "admin");

/** The keys that are accepted. */
const KEYS: Readonly<Record<string, Caller>> = {
  own: caller("own", ALL),
  other: caller("other", ALL),
  reader: caller(
    "own",
    ALL.filter((scope) => scope.endsWith(":read")),
  ),
  powerless: caller("own", []),
  hurried: caller("own", SCOPES, "hurried"),
  operator: caller("own", SCOPES),
  plain: { ...caller("own", ALL, "plain"), isBeta: false },
};

export interface Whole {
  /** Undefined for a fleet. */
  readonly service: HttpService | undefined;
  readonly url: string;
  /** Makes calls while `submit` or `retry` of tasks throws this, once. Not for a fleet: the calls are left out. */
  refused(error: unknown, calls: () => Promise<unknown>): Promise<void>;
  /** Changes a byte of an uploaded file in the data folder. Not for a fleet. */
  damage(fileId: string): void;
  /** Ends a fleet; a service of this process ends after the file's tests. */
  close(): Promise<void>;
  /** Sends a request; `key` is one of `KEYS`, or anything else. */
  call(method: string, path: string, options?: WholeCall): Promise<WholeAnswer>;
}

export interface WholeCall {
  readonly key?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is when it is text or bytes or a form, as JSON otherwise. */
  readonly body?: unknown;
}

export interface WholeAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface WholeOptions {
  readonly audit?: Audit;
  readonly verifier?: KeyVerifier;
  readonly satellites?: SatelliteSettings;
  readonly config?: ConfigOptions;
}

/** Closed after the file's tests. */
export async function openWhole(options: WholeOptions = {}): Promise<Whole> {
  if (isFleet) return openBalancedWhole(options);
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-whole-"));
  const { config, ...others } = options;
  const opened = await openEngine({ ...config, dataDir, env: {} });
  const { engine, core } = opened;
  const { clock, disk, store } = core.storage;
  const stack = await openStack(opened, {
    ...{ dataDir, env: {}, egressAllow: ["127.0.0.1"], onFault: () => undefined },
    satellites: { ...options.satellites, trusted: [{ project: "own", satellites: [brought] }] },
    ...(options.verifier === undefined ? {} : { verifier: options.verifier }),
  });
  const { files, tasks, satellites, webhooks, spending } = stack;
  let refusal: unknown;
  const orRefused = <T>(call: () => Promise<T>): Promise<T> => {
    const error = refusal;
    refusal = undefined;
    return error === undefined ? call() : Promise.reject(error);
  };
  const refusing: Pick<Tasks, "submit" | "retry"> = {
    submit: (project, request) => orRefused(() => tasks.submit(project, request)),
    retry: (project, id, codes) => orRefused(() => tasks.retry(project, id, codes)),
  };
  let url = "";
  const service = await createHttpService({
    spending,
    context: {
      clock,
      disk,
      store,
      engine,
      tasks: withMethods(tasks, refusing),
      files,
      satellites,
      webhooks,
      idempotency: new Idempotency({ clock, store }),
      transfers: createTransfers(),
      dataDir,
      publicUrl: () => url,
      isStopping: () => false,
      front: { models: new ServedModels(core.config) },
    },
    verifier: {
      verify: (authorization = "", area) => {
        if (area === "v1") return KEYS[authorization];
        return authorization.startsWith("Bearer ") ? KEYS[authorization.slice(7)] : undefined;
      },
    },
    requestLimits: {
      take: (keyId) => ({
        isAllowed: keyId !== "hurried",
        limitPerMinute: 100,
        remaining: 1,
        resetMs: 1_000,
        retryAfterMs: 1_000,
      }),
    },
    limits: { keylessPerMinute: 1_000_000 },
    version: "0.0.0",
    ...others,
  });
  url = await service.listen({ port: 0 });
  afterAll(async () => {
    await service.close();
    await stack.close();
    await engine.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    ...{ service, url, close: async () => undefined },
    refused: async (error, calls) => {
      refusal = error;
      await calls();
    },
    damage: (fileId) => {
      const path = join(dataDir, "files", fileId);
      const bytes = readFileSync(path);
      bytes[0] = 0x20;
      writeFileSync(path, bytes);
    },
    call: (method, path, options) => send(url + path, method, options ?? {}),
  };
}

/** The same over three workers behind a balancer; its caller closes it. */
async function openBalancedWhole({ satellites, config }: WholeOptions = {}): Promise<Whole> {
  const fleet = await BalancedFleet.open({
    options: {
      ...config,
      ...{ isBrought: true, egressAllow: ["127.0.0.1"], serverLimits: { keylessPerMinute: 1_000_000 } },
      ...(satellites === undefined ? {} : { satellites }),
    },
  });
  return balancedWhole(fleet);
}

/** Makes the keys of `KEYS` in a fleet. */
export async function balancedWhole(fleet: BalancedFleet): Promise<Whole> {
  for (const [name, { project, scopes, isBeta }] of Object.entries(KEYS))
    await fleet.key({ project, name, scopes: [...scopes], isBeta }, name);
  return {
    ...{ service: undefined, url: fleet.url, refused: async () => undefined, close: () => fleet.close() },
    damage: () => {
      throw new Error("the files of a fleet are not damaged here");
    },
    call: (method, path, options) => send(fleet.url + path, method, options ?? {}),
  };
}

/** A form with one file of these lines. */
export function formOf(lines: readonly object[], field = "file"): FormData {
  const form = new FormData();
  form.append(field, new Blob([lines.map((line) => `${JSON.stringify(line)}\n`).join("")]), "in.jsonl");
  return form;
}

function withMethods(tasks: Tasks, methods: Partial<Tasks>): Tasks {
  return new Proxy(tasks, {
    get: (_target, name: keyof Tasks) => {
      if (methods[name] !== undefined) return methods[name];
      const method = tasks[name] as (...given: unknown[]) => unknown;
      return (...given: unknown[]) => method.apply(tasks, given); // its fields are private to it
    },
  });
}

/** Satellites take the key with no scheme word. */
const BARE = /^\/v1\/(clusters|executions|satellites|secrets)(\/|$)/;

async function send(
  url: string,
  method: string,
  { key = "own", headers, body }: WholeCall,
): Promise<WholeAnswer> {
  const isRaw = typeof body === "string" || body instanceof FormData || body instanceof Uint8Array;
  const response = await fetch(url, {
    method,
    redirect: "manual",
    headers: {
      ...(key === "" ? {} : { authorization: BARE.test(new URL(url).pathname) ? key : `Bearer ${key}` }),
      ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

function caller(project: string, scopes: readonly Scope[], keyId = `${project}${scopes.length}`): Caller {
  return { keyId, project, scopes: new Set(scopes), isBeta: true };
}
