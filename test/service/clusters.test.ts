/** Clusters over HTTP. */
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { openClusters } from "../../src/clusters/clusters.ts";
import { reference } from "../../src/satellites.ts";
import type { Caller, Scope } from "../../src/service/http/caller.ts";
import { Idempotency } from "../../src/service/http/idempotency.ts";
import type { ServerOptions } from "../../src/service/http/server.ts";
import { registerClusterRoutes } from "../../src/service/satellites/clusters.ts";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { Answering } from "../clusters/fake_executions.ts";
import { FakeExecutions, ledger } from "../clusters/fake_executions.ts";
import { resolver } from "../clusters/satellites.ts";
import { FakeFiles } from "../clusters/world.ts";
import { type Answer, openWorld, type World } from "./world.ts";

const YAML = { "content-type": "application/yaml" };
const TEXT = `name: nightly
sla: 2h
cluster:
  satellites:
    - { name: First, uses: satellite/one/own, identifier: first, input: { x: 1 } }
    - { uses: satellite/one/own, identifier: second, each: [1, 2], input: { x: "\${{ first.output.n }}" } }
`;

const KEYS: Readonly<Record<string, Caller>> = {
  "key-one": caller("one", ["satellites:run", "satellites:read"]),
  "key-two": caller("two", ["satellites:run", "satellites:read"]),
  "key-reader": caller("one", ["satellites:read"]),
};

function caller(project: string, scopes: readonly Scope[]): Caller {
  return { keyId: `${project}-key`, project, scopes: new Set(scopes), isBeta: false };
}

interface ClusterService {
  readonly events: AuditEvent[];
  call(method: string, path: string, options?: Parameters<World["call"]>[2]): Promise<Answer>;
  /** Polls a run until it is final. */
  ended(id: string): Promise<Answer>;
}

async function openService(answer: Answering = () => ({ output: { n: 7 } })): Promise<ClusterService> {
  const store = createMemoryStore();
  const book = ledger(answer);
  const executions = new FakeExecutions(systemClock, store, book);
  const clusters = await openClusters({
    clock: systemClock,
    store,
    executions,
    resolver,
    files: new FakeFiles(),
  });
  const events: AuditEvent[] = [];
  const options: Partial<ServerOptions> = {
    audit: { note: (event) => void events.push(event) },
    verifier: { verify: (key, area) => (area === "v1" ? KEYS[key ?? ""] : undefined) },
  };
  const idempotency = new Idempotency({ clock: systemClock, store });
  const world = await openWorld({
    ...options,
    register: ({ app }) => registerClusterRoutes(app, { clusters, idempotency }),
  });
  const call: ClusterService["call"] = (method, path, { key = "key-one", headers, ...given } = {}) =>
    world.call(method, path, { ...given, key: "", headers: { authorization: key, ...headers } });
  return {
    events,
    call,
    ended: async (id) => {
      for (;;) {
        const answered = await call("GET", `/v1/clusters/${id}`);
        if (answered.json.status !== "pending") return answered;
      }
    },
  };
}

describe("POST /v1/clusters/", () => {
  it.each(["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml; charset=utf-8"])(
    "takes %s and answers with the run pending, in both slash forms",
    async (type) => {
      const { call } = await openService();
      for (const path of ["/v1/clusters", "/v1/clusters/"]) {
        const { status, json } = await call("POST", path, { body: TEXT, headers: { "content-type": type } });
        expect(status).toBe(200);
        expect(json).toEqual({
          cluster_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          name: "nightly",
          status: "pending",
          sla: "2h",
          created_at: expect.any(String),
          updated_at: expect.any(String),
          deadline: new Date(Date.parse(json.created_at) + 7_200_000).toISOString(),
          members: [
            expect.objectContaining({
              identifier: "first",
              name: "First",
              uses: "satellite/one/own",
              needs: [],
            }),
            expect.objectContaining({
              identifier: "second",
              name: "second",
              status: "waiting",
              needs: ["first"],
            }),
          ],
          error: null,
        });
      }
    },
  );

  it("takes JSON with a declaration, as an object or as YAML, and an input", async () => {
    const { call, ended } = await openService();
    const declaration = {
      cluster: {
        satellites: [{ uses: "satellite/one/own", identifier: "a", input: { x: reference("input.x") } }],
      },
    };
    for (const body of [
      { declaration, input: { x: 1 } },
      { declaration: JSON.stringify(declaration), input: { x: 1 } },
    ]) {
      const { status, json } = await call("POST", "/v1/clusters", { body });
      expect(status).toBe(200);
      expect((await ended(json.cluster_id)).json).toMatchObject({
        status: "completed",
        members: [{ status: "completed", output: { n: 7 }, error: null, retries: 0 }],
      });
    }
    const { status, json } = await call("POST", "/v1/clusters", { body: { declaration, input: {} } });
    expect([status, json.error.issues[0].message]).toEqual([422, 'input.x: there is no "x"']);
  });

  it("refuses a declaration with 422 and all issues, each with line, column and path", async () => {
    const { call } = await openService();
    const body =
      "cluster:\n  satellites:\n    - { uses: satellite/two/foreign, identifier: a, inputs: {} }\n";
    const { status, json } = await call("POST", "/v1/clusters", { body, headers: YAML });
    expect(status).toBe(422);
    expect(json.error).toEqual({
      message:
        "line 3, column 15: cluster.satellites[0].uses: there is no satellite satellite/two/foreign that this project may use (and 1 more)",
      type: "invalid_request_error",
      code: "invalid_request",
      param: "cluster.satellites[0].uses",
      issues: [
        {
          line: 3,
          column: 15,
          path: "cluster.satellites[0].uses",
          message: "there is no satellite satellite/two/foreign that this project may use",
        },
        {
          line: 3,
          column: 53,
          path: "cluster.satellites[0].inputs",
          message: 'unknown key "inputs": did you mean input?',
        },
      ],
    });
  });

  it.each([
    ["no declaration", {}, 422, "declaration"],
    ["another field", { declaration: "x", inputs: {} }, 422, "body"],
    ["an input that is a list", { declaration: "x", input: [] }, 422, "input"],
  ])("refuses a body with %s", async (_name, body, expected, param) => {
    const { call } = await openService();
    const { status, json } = await call("POST", "/v1/clusters", { body });
    expect([status, json.error.param]).toEqual([expected, param]);
  });

  it("refuses more than 256 KiB, what is not UTF-8, and other types", async () => {
    const { call } = await openService();
    const large = await call("POST", "/v1/clusters", { body: "#".repeat(262_145), headers: YAML });
    expect([large.status, large.json.error.code]).toEqual([413, "too_large"]);
    const other = await call("POST", "/v1/clusters", {
      body: TEXT,
      headers: { "content-type": "text/plain" },
    });
    expect(other.status).toBe(415);
    const elsewhere = await call("POST", "/v1/clusters/x/cancel", { body: TEXT, headers: YAML });
    expect(elsewhere.status).toBe(415);
  });

  it("makes one run for an Idempotency-Key", async () => {
    const { call, events } = await openService();
    const headers = { ...YAML, "idempotency-key": "mine" };
    const first = await call("POST", "/v1/clusters", { body: TEXT, headers });
    const second = await call("POST", "/v1/clusters", { body: TEXT, headers });
    expect(second.json.cluster_id).toBe(first.json.cluster_id);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    const other = await call("POST", "/v1/clusters", { body: `${TEXT}#`, headers });
    expect(other.json.error.code).toBe("idempotency_mismatch");
    expect(events.filter(({ kind }) => kind === "cluster.submitted")).toEqual([
      {
        kind: "cluster.submitted",
        project: "one",
        keyId: expect.any(String),
        clusterId: first.json.cluster_id,
      },
    ]);
  });
});

describe("POST /v1/clusters/check/", () => {
  it("tells what is wrong with 200, and makes nothing", async () => {
    const { call } = await openService();
    const right = await call("POST", "/v1/clusters/check/", { body: TEXT, headers: YAML });
    expect([right.status, right.json]).toEqual([200, { valid: true, issues: [] }]);
    const wrong = await call("POST", "/v1/clusters/check", { body: { declaration: "sla: 1h" } });
    expect([wrong.status, wrong.json]).toEqual([
      200,
      { valid: false, issues: [{ line: 1, column: 1, path: "cluster", message: "is missing" }] },
    ]);
    expect((await call("GET", "/v1/clusters")).json).toEqual({
      clusters: [],
      has_more: false,
      last_id: null,
    });
  });
});

describe("GET /v1/clusters/{id}/", () => {
  it("shows members with outputs, and answers 304 while nothing has changed", async () => {
    const { call, ended } = await openService();
    const { json } = await call("POST", "/v1/clusters", { body: TEXT, headers: YAML });
    const { headers, json: shown } = await ended(json.cluster_id);
    expect(shown.members[1]).toMatchObject({
      status: "completed",
      counts: { pending: 0, completed: 2, failed: 0, cancelled: 0, expired: 0 },
      output: [{ n: 7 }, { n: 7 }],
      started_at: expect.any(String),
      finished_at: expect.any(String),
    });
    const again = await call("GET", `/v1/clusters/${json.cluster_id.toUpperCase()}/`, {
      headers: { "if-none-match": headers.get("etag") ?? "" },
    });
    expect([again.status, again.text]).toEqual([304, ""]);
  });

  it("answers alike for ids of others, of nobody and of no form", async () => {
    const { call } = await openService();
    const { json } = await call("POST", "/v1/clusters", { body: TEXT, headers: YAML });
    const bodies = [];
    for (const id of [json.cluster_id, "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001", "x"]) {
      for (const [method, path] of [
        ["GET", `/v1/clusters/${id}`],
        ["POST", `/v1/clusters/${id}/cancel`],
      ] as const) {
        const answered = await call(method, path, { key: "key-two" });
        bodies.push(`${answered.status} ${answered.json.error.message}`);
      }
    }
    expect(new Set(bodies)).toEqual(new Set(["404 nothing with this id is in your project"]));
  });

  it("needs the scope, and only the key in its header", async () => {
    const { call } = await openService();
    expect((await call("GET", "/v1/clusters", { key: "key-reader" })).status).toBe(200);
    expect((await call("POST", "/v1/clusters", { key: "key-reader", body: {} })).status).toBe(403);
    expect((await call("GET", "/v1/clusters", { key: "Bearer key-one" })).status).toBe(401);
  });
});

describe("POST /v1/clusters/{id}/cancel/", () => {
  it("cancels what is pending, once and again", async () => {
    const { call, events } = await openService(() => undefined);
    const { json } = await call("POST", "/v1/clusters", { body: TEXT, headers: YAML });
    for (let time = 0; time < 2; time += 1) {
      const cancelled = await call("POST", `/v1/clusters/${json.cluster_id}/cancel/`);
      expect([cancelled.status, cancelled.json.status, cancelled.json.error.code]).toEqual([
        200,
        "cancelled",
        "cancelled",
      ]);
    }
    expect(events.map(({ kind }) => kind)).toEqual([
      "cluster.submitted",
      "cluster.cancelled",
      "cluster.cancelled",
    ]);
    expect((await call("GET", "/v1/clusters")).json.clusters).toMatchObject([{ status: "cancelled" }]);
  });
});
