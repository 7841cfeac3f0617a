/** Secrets over HTTP. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { openSecrets } from "../../src/satellites/secrets/secret_store.ts";
import type { Secrets } from "../../src/satellites/secrets/secrets.ts";
import type { Caller, Scope } from "../../src/service/http/caller.ts";
import { registerSecretRoutes } from "../../src/service/satellites/secrets.ts";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { type Answer, openWorld, type World } from "./world.ts";

const CANARY = "canary-secret-value";
const KEYS: Readonly<Record<string, Caller>> = {
  writer: caller("one", ["secrets:write", "satellites:read"]),
  second: caller("two", ["secrets:write", "satellites:read"]),
  runner: caller("one", ["satellites:run", "satellites:read"]),
};

let dataDir: string;
let secrets: Secrets;
let world: World;
const noted: AuditEvent[] = [];

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-secrets-"));
  secrets = await openSecrets({ store: createMemoryStore(), dataDir, clock: systemClock, env: {} });
  noted.length = 0;
  world = await openWorld({
    verifier: { verify: (key, area) => (area === "v1" ? KEYS[key ?? ""] : undefined) },
    audit: { note: (event) => noted.push(event) },
    register: ({ app }) => registerSecretRoutes(app, { secrets }),
  });
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

function caller(project: string, scopes: readonly Scope[]): Caller {
  return { keyId: `key-of-${project}`, project, scopes: new Set(scopes), isBeta: false };
}

function call(method: string, path: string, key = "writer", body?: unknown): Promise<Answer> {
  return world.call(method, path, { key: "", headers: { authorization: key }, body });
}

it("a secret is set, listed by name, replaced and removed, and no answer has its value", async () => {
  const answers = [
    await call("PUT", "/v1/secrets/token/", "writer", { value: CANARY }),
    await call("PUT", "/v1/secrets/token", "writer", { value: `${CANARY}-2` }),
    await call("GET", "/v1/secrets/"),
    await call("GET", "/v1/secrets"),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(answers[0]?.json).toEqual({ name: "token", set: true });
  const times = { created_at: expect.stringMatching(/Z$/), updated_at: expect.stringMatching(/Z$/) };
  expect(answers[2]?.json).toEqual({ secrets: [{ name: "token", ...times }] });
  expect(answers[3]?.json).toEqual(answers[2]?.json);
  expect(await secrets.reveal("one", "token")).toBe(`${CANARY}-2`);
  const removed = await call("DELETE", "/v1/secrets/token/");
  expect(removed.json).toEqual({ name: "token", deleted: true });
  expect((await call("DELETE", "/v1/secrets/token")).status).toBe(404);
  expect((await call("GET", "/v1/secrets/token")).status).toBe(405);
  expect(answers.filter(({ text }) => text.includes("canary"))).toEqual([]);
});

it("the audit log has who set and removed which secret, and no value", async () => {
  await call("PUT", "/v1/secrets/token", "writer", { value: CANARY });
  await call("DELETE", "/v1/secrets/token");
  await call("DELETE", "/v1/secrets/token");
  const who = { project: "one", keyId: "key-of-one", secret: "token" };
  expect(noted).toEqual([
    { kind: "secret.set", ...who },
    { kind: "secret.removed", ...who },
  ]);
});

it("another project's secrets are not there", async () => {
  await call("PUT", "/v1/secrets/token", "writer", { value: CANARY });
  expect((await call("GET", "/v1/secrets", "second")).json).toEqual({ secrets: [] });
  const foreign = await call("DELETE", "/v1/secrets/token", "second");
  const unknown = await call("DELETE", "/v1/secrets/none", "second");
  expect([foreign.status, foreign.json.error]).toEqual([404, unknown.json.error]);
  expect(await secrets.reveal("one", "token")).toBe(CANARY);
});

it("a key that runs satellites sees the names and writes nothing", async () => {
  expect((await call("GET", "/v1/secrets", "runner")).status).toBe(200);
  expect((await call("PUT", "/v1/secrets/token", "runner", { value: "x" })).status).toBe(403);
  expect((await call("DELETE", "/v1/secrets/token", "runner")).status).toBe(403);
  expect((await call("GET", "/v1/secrets", "none")).status).toBe(401);
  const bearer = await world.call("GET", "/v1/secrets", { key: "writer" });
  expect(bearer.status).toBe(401);
});

it("refuses invalid names and values, and repeats nothing of the value", async () => {
  const refused = [
    await call("PUT", "/v1/secrets/UPPER", "writer", { value: CANARY }),
    await call("PUT", "/v1/secrets/a%2Fb", "writer", { value: CANARY }),
    await call("PUT", "/v1/secrets/token", "writer", { value: { text: CANARY } }),
    await call("PUT", "/v1/secrets/token", "writer", { value: CANARY, name: CANARY }),
    await call("PUT", "/v1/secrets/token", "writer", { value: "" }),
    await call("PUT", "/v1/secrets/token", "writer", `{"value": "${CANARY}`),
    await call("PUT", "/v1/secrets/token", "writer", { value: CANARY.repeat(4_000) }),
  ];
  expect(refused.map(({ status }) => status)).toEqual([422, 422, 422, 422, 422, 400, 413]);
  expect(refused.filter(({ text }) => text.includes("canary"))).toEqual([]);
  expect(world.faults).toEqual([]);
  expect((await call("GET", "/v1/secrets")).json).toEqual({ secrets: [] });
});
