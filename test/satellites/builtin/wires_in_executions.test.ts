/** call-webhook, forward-logs and send-alert as the runtime runs them: repeats, ids, secrets, progress, destinations. */
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { AllowList } from "../../../src/egress/address.ts";
import { createEgress } from "../../../src/egress/egress.ts";
import { PerigeeError } from "../../../src/errors.ts";
import { openWorkLog } from "../../../src/log/work_log.ts";
import { vendorSatellites } from "../../../src/satellites/builtin/vendor.ts";
import { openExecutions } from "../../../src/satellites/executions/executions.ts";
import type { Executions, ExecutionView } from "../../../src/satellites/sdk/execution.ts";
import { createGuardedHttp } from "../../../src/satellites/sdk/guarded_http.ts";
import type { Satellite } from "../../../src/satellites/sdk/satellite.ts";
import { createMemoryStore } from "../../../src/store/memory.ts";
import type { Files } from "../../../src/tasks/files/files.ts";
import type { Tasks } from "../../../src/tasks/shapes/tasks.ts";
import type { JsonObject } from "../../../src/work/json.ts";
import { openReceiver } from "./receiver.ts";

const CALLER = { project: "one", keyId: "k", isBeta: true };

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function open(secrets: Readonly<Record<string, string>> = {}): Promise<Executions> {
  const all = vendorSatellites() as unknown as readonly Satellite[]; // as the catalogue gives them
  const satellites = new Map(all.map((one) => [one.name, one]));
  const store = createMemoryStore();
  const executions = await openExecutions({
    ...{ clock: systemClock, store, workLog: await openWorkLog({ clock: systemClock, store }) },
    resolver: {
      resolve: async (_caller, reference) => {
        const satellite = satellites.get(reference.name);
        if (satellite === undefined) throw new PerigeeError("not_found", "none");
        return { reference, kind: "vendor", satellite, fixedConfig: {} };
      },
    },
    secrets: { reveal: async (_project, name) => secrets[name] },
    http: createGuardedHttp(createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.0/8"]) })),
    files: {} as Files, // these never read one
    tasks: {} as Tasks,
  });
  closing.push(() => executions.close());
  return executions;
}

async function run(
  executions: Executions,
  name: string,
  given: { readonly config: JsonObject; readonly input?: JsonObject },
): Promise<ExecutionView> {
  const finished = new Promise<ExecutionView>((resolve) => {
    const stop = executions.onFinished((view) => {
      if (view.id !== id) return;
      stop();
      resolve(view);
    });
  });
  const id = crypto.randomUUID();
  const satellite = { namespace: "perigee", name };
  await executions.submit(CALLER, {
    id,
    satellite,
    input: given.input ?? {},
    config: given.config,
    sla: "5m",
  });
  return finished;
}

describe("call-webhook", () => {
  const secret = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;

  it("is repeated under one id until the receiver takes it, with its secrets, which come back nowhere", async () => {
    const { url, received } = await openReceiver((_request, response, { headers }, call) => {
      response.writeHead(call === 1 ? 503 : call === 2 ? 500 : 200, { "content-type": "text/plain" });
      response.end(`echo ${headers.authorization}`);
    });
    const executions = await open({ hook: `${url}/hidden`, token: "hunter2-hunter2", signing: secret });
    const config = {
      url: "secret://hook",
      headers: { authorization: "Bearer secret://token" },
      secret: "secret://signing",
      answer: {},
    };
    const view = await run(executions, "call-webhook", { config, input: { a: 1 } });
    expect(view).toMatchObject({ status: "completed", retries: 2, output: { status: 200 } });
    expect(received.map((one) => [one.url, one.headers["webhook-id"], one.headers.authorization])).toEqual(
      Array(3).fill(["/hidden", view.id, "Bearer hunter2-hunter2"]),
    );
    expect(JSON.stringify(view)).not.toMatch(/hunter2|whsec_/);
  });

  it("that nobody may repeat fails as ambiguous, and what is refused for good fails at once", async () => {
    const executions = await open();
    const lost = await openReceiver((request) => request.socket.resetAndDestroy());
    const view = await run(executions, "call-webhook", { config: { url: lost.url } });
    expect([view.status, view.error?.code, view.retries, lost.received.length]).toEqual([
      "failed",
      "ambiguous",
      0,
      1,
    ]);
    const gone = await openReceiver({ status: 410 });
    const told = await run(executions, "call-webhook", { config: { url: gone.url, secret } });
    expect(told).toMatchObject({ status: "failed", error: { code: "gone", retryable: false }, retries: 0 });
    const inward = await run(executions, "call-webhook", { config: { url: "http://169.254.169.254/" } });
    expect(inward).toMatchObject({
      status: "failed",
      error: { code: "blocked_destination", retryable: false },
    });
  });

  it("names the fields that are wrong at submission", async () => {
    const executions = await open();
    const config = { url: "ftp://x", method: "TRACE", headers: { Host: "a" } };
    const submitted = run(executions, "call-webhook", { config });
    const error = await submitted.catch((thrown: unknown) => thrown as PerigeeError);
    const { issues } = (error as PerigeeError).details as { issues: { path: string }[] };
    expect(issues.map(({ path }) => path).sort()).toEqual(["config.headers", "config.method", "config.url"]);
  });

  it("to a host that hangs delays nobody else, also where its address is a secret", async () => {
    const slow = await openReceiver(() => undefined);
    const quick = await openReceiver();
    const executions = await open({ slow: slow.url });
    const satellite = { namespace: "perigee", name: "call-webhook" };
    for (let n = 0; n < 400; n++) {
      const config = { url: n % 2 === 0 ? "secret://slow" : slow.url };
      await executions.submit(CALLER, { satellite, input: {}, config, sla: "5m" });
    }
    const startMs = systemClock.nowMs();
    expect(await run(executions, "call-webhook", { config: { url: quick.url } })).toMatchObject({
      status: "completed",
    });
    expect(systemClock.nowMs() - startMs).toBeLessThan(2_000);
    expect(slow.received.length).toBeLessThanOrEqual(32);
  });
});

describe("forward-logs", () => {
  it("continues after what was acknowledged, and sends only items without room again", async () => {
    const { url, received } = await openReceiver((_request, response, { body }, call) => {
      const count = body.trim().split("\n").length / 2;
      const items = Array.from({ length: count }, (_, n) => ({
        create:
          call === 2 && n < 2
            ? { status: 429, error: { type: "es_rejected_execution_exception" } }
            : { status: 201 },
      }));
      response.end(JSON.stringify({ errors: call === 2, items }));
    });
    const config = { receiver: "elasticsearch", url, index: "logs", batch: { entries: 3 } };
    const entries = Array.from({ length: 7 }, (_, n) => ({ message: `m${n}` }));
    const view = await run(await open(), "forward-logs", { config, input: { entries } });
    expect(view).toMatchObject({
      status: "completed",
      retries: 1,
      output: { receiver: "elasticsearch", entries: 7, batches: 3 },
    });
    expect(received.map(({ body }) => body.match(/"m\d"/g))).toEqual([
      ['"m0"', '"m1"', '"m2"'],
      ['"m3"', '"m4"', '"m5"'],
      ['"m3"', '"m4"'],
      ['"m6"'],
    ]);
  });
});

describe("send-alert", () => {
  it("keeps one key over its attempts", async () => {
    const { url, received } = await openReceiver((_request, response, _received, call) => {
      response.writeHead(call === 1 ? 429 : 202).end('{"status":"success"}');
    });
    const config = { receiver: "pagerduty", routing_key: "secret://pagerduty", base_url: url };
    const view = await run(await open({ pagerduty: "R".repeat(32) }), "send-alert", {
      config,
      input: { title: "t" },
    });
    expect(view).toMatchObject({ status: "completed", retries: 1, output: { dedup_key: view.id } });
    expect(received.map(({ body }) => JSON.parse(body) as object)).toMatchObject(
      Array(2).fill({ dedup_key: view.id, routing_key: "R".repeat(32), payload: { source: "perigee" } }),
    );
  });
});
