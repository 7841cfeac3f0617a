/**
 * The routes of satellites, executions and clusters over a real catalogue, on a server of their own, with keys that come and go.
 */
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { openClusters } from "../../src/clusters/clusters.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { openExecutions } from "../../src/satellites/executions/executions.ts";
import { openCatalogue } from "../../src/satellites/kinds/open_catalogue.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { createVault } from "../../src/satellites/secrets/vault.ts";
import { z } from "../../src/schema.ts";
import { type Caller, SCOPES } from "../../src/service/http/caller.ts";
import { Idempotency } from "../../src/service/http/idempotency.ts";
import { createServer } from "../../src/service/http/server.ts";
import { registerCatalogueRoutes } from "../../src/service/satellites/catalogue.ts";
import { registerClusterRoutes } from "../../src/service/satellites/clusters.ts";
import { registerExecutionRoutes } from "../../src/service/satellites/executions.ts";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import type { Tasks } from "../../src/tasks/shapes/tasks.ts";
import { localHttp } from "../satellites/orbit_world.ts";

const ALL = SCOPES.filter((scope) => scope !== "admin");

/** Keys by the text of their header. */
export type Keys = Map<string, Caller>;

export interface CatalogueWorld {
  readonly url: string;
  readonly keys: Keys;
  readonly events: AuditEvent[];
  /** Lets attempts of `satellite/perigee/wait` end; until then they are refused and repeated. */
  go(): void;
  call(key: string, method: string, path: string, body?: unknown): Promise<WorldAnswer>;
  /** Submits and waits for the end. */
  run(key: string, path: string, body?: object): Promise<WorldAnswer>;
}

export interface WorldAnswer {
  readonly status: number;
  /** Without the id of the request. */
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of many shapes
  readonly json: any;
}

export async function openCatalogueWorld(): Promise<CatalogueWorld> {
  const store = createMemoryStore();
  const keys: Keys = new Map([
    ["beta", caller("acme", true)],
    ["plain", caller("acme", false)],
    ["other", caller("other", false)],
    ["reader", { ...caller("acme", true), scopes: new Set(["satellites:read"]) }],
    ["operator", { ...caller("ops", false), scopes: new Set(SCOPES) }],
  ]);
  const events: AuditEvent[] = [];
  let isOpen = false;
  const isBetaKey = (id: string): boolean => [...keys.values()].some((key) => key.keyId === id && key.isBeta);
  const vault = createVault({ id: "0".repeat(16), bytes: Buffer.alloc(32, 7) });
  const vendor = vendorSatellites(() => isOpen);
  const catalogue = await openCatalogue({
    clock: systemClock,
    store,
    vault,
    vendor,
    http: localHttp,
    isBetaKey,
  });
  const parts = { clock: systemClock, store, resolver: catalogue };
  const executions = await openExecutions({
    ...parts,
    workLog: await openWorkLog(parts),
    secrets: { reveal: async (project, name) => (name === "token" ? `${project}-token` : undefined) },
    http: localHttp,
    files: {} as Files, // not used here
    tasks: {} as Tasks,
  });
  const clusters = await openClusters({ ...parts, executions, secrets: { list: async () => [] } } as never);
  const { app } = createServer({
    clock: systemClock,
    verifier: { verify: (text = "", area) => (area === "v1" ? keys.get(text) : undefined) },
    audit: { note: (event) => void events.push(event) },
  });
  const idempotency = new Idempotency({ clock: systemClock, store });
  registerCatalogueRoutes(app, { catalogue });
  registerExecutionRoutes(app, { satellites: { executions, catalogue }, idempotency });
  registerClusterRoutes(app, { clusters, idempotency });
  await app.listen({ host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    await app.close();
    await clusters.close();
    await executions.close();
  });
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  const call: CatalogueWorld["call"] = (key, method, path, body) => send(url + path, method, key, body);
  return {
    ...{ url, keys, events, call },
    go: () => {
      isOpen = true;
    },
    run: async (key, path, body = { input: {} }) => {
      const submitted = await call(key, "POST", path, body);
      if (submitted.status !== 200) return submitted;
      for (;;) {
        const answer = await call(key, "GET", `${path}${submitted.json.execution_id}/`);
        if (answer.json.status !== "pending") return answer;
        await systemClock.sleep(10);
      }
    },
  };
}

function vendorSatellites(isOpen: () => boolean) {
  const input = z.looseObject({});
  return [
    defineSatellite({
      ...{ name: "post", description: "Says what it was set to.", input, isRepeatable: true },
      config: z.strictObject({
        url: z.string(),
        token: z.string().optional(),
        retries: z.int().max(9).default(1),
      }),
      run: async ({ config }) => ({
        url: config.url,
        hasToken: config.token !== undefined,
        retries: config.retries,
      }),
    }),
    defineSatellite({
      ...{ name: "wait", input, isRepeatable: true },
      run: async () => {
        if (!isOpen()) throw new SatelliteError("refused", "closed", "not yet", { retryAfterMs: 50 });
        return { done: true };
      },
    }),
  ];
}

async function send(url: string, method: string, key: string, body: unknown): Promise<WorldAnswer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(key === "" ? {} : { authorization: key }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = (await response.text()).replace(/,"request_id":"[^"]*"/, "");
  return { status: response.status, text, json: JSON.parse(text) };
}

function caller(project: string, isBeta: boolean): Caller {
  return { keyId: `key_${project}_${isBeta}`, project, scopes: new Set(ALL), isBeta };
}
