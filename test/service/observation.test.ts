/**
 * What a service tells of itself, all of it together.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { z } from "../../src/schema.ts";
import { createPerigeeService, type PerigeeServiceOptions } from "../../src/service/index.ts";
import { freePort } from "../free_port.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(options: Partial<PerigeeServiceOptions> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-observation-"));
  closing.push(() => rmSync(dataDir, { recursive: true, force: true }));
  let log = "";
  const service = await createPerigeeService({
    dataDir,
    env: {},
    threads: 1,
    log: {
      level: "info",
      write: (lines) => {
        log += lines;
      },
    },
    verifier: {
      verify: (header) =>
        header === "Bearer own"
          ? { keyId: "k1", project: "red", scopes: new Set(["infer:read", "infer:write"]), isBeta: false }
          : undefined,
    },
    ...options,
  });
  closing.push(() => service.close());
  const url = await service.listen({ port: 0 });
  const call = (path: string, method = "GET", body?: unknown, key = "own") =>
    fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const lines = () =>
    log
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { url, call, lines };
}

describe("a service", () => {
  it("counts and logs every request, also those that are refused before they reach a route", async () => {
    const { call, lines } = await open();
    await call("/v0/infer/", "POST", [{ model: "echo:test", input: "hello" }]);
    await call("/v0/infer/tasks", "GET", undefined, "wrong");
    await call("/nowhere");
    const text = await (await call("/metrics")).text();
    for (const line of [
      'perigee_http_requests_total{method="POST",route="/v0/infer/",status="200"} 1',
      'perigee_http_requests_total{method="GET",route="/v0/infer/tasks",status="401"} 1',
      'perigee_http_requests_total{method="GET",route="none",status="404"} 1',
      'perigee_items_total{outcome="completed"} 1',
      'perigee_attempts_total{provider="echo",outcome="completed"} 1',
      'perigee_tasks_finished_total{status="completed"} 1',
      "perigee_tasks_open 0",
      'perigee_lane_limit{provider="echo",tier="realtime",family="test",limit="concurrency"} 64',
    ])
      expect(text).toContain(`${line}\n`);
    expect(text).toMatch(/perigee_commit_duration_seconds_count [1-9]/);
    const told = lines().map(({ route, status, key_id: keyId, code }) => [route, status, keyId, code]);
    expect(told.slice(0, 3)).toEqual([
      ["/v0/infer/", 200, "k1", undefined],
      ["/v0/infer/tasks", 401, undefined, "unauthenticated"],
      ["none", 404, "k1", undefined],
    ]);
  });

  it("counts executions, and tells that a satellite said something but not what", async () => {
    const said: string[] = [];
    const step = defineSatellite({
      ...{ name: "step", input: z.strictObject({ text: z.string() }), isRepeatable: true },
      run: async ({ input, log }) => {
        log("warn", `read ${input.text}`);
        return {};
      },
    });
    const { url, call, lines } = await open({
      satellites: {
        trusted: [{ project: "red", satellites: [step] }],
        onLog: ({ message }) => said.push(message),
      },
      verifier: {
        verify: (key) =>
          key === "own"
            ? { keyId: "k1", project: "red", scopes: new Set(["satellites:run"]), isBeta: false }
            : undefined,
      },
    });
    const answer = await fetch(`${url}/v1/satellites/red/step/`, {
      method: "POST",
      headers: { authorization: "own", "content-type": "application/json" },
      body: JSON.stringify({ input: { text: "canary-51" } }),
    });
    const { execution_id } = (await answer.json()) as { execution_id: string };
    const finished = 'perigee_executions_finished_total{satellite="other",status="completed"} 1';
    await expect.poll(async () => (await call("/metrics")).text()).toContain(finished);
    expect(await (await call("/metrics")).text()).toContain('perigee_executions_pending{phase="running"} 0');
    expect(lines().filter(({ event }) => event === "satellite")).toMatchObject([
      { level: "warn", execution_id, satellite: "satellite/red/step", attempt: 1, project: "red" },
    ]);
    expect(JSON.stringify(lines())).not.toContain("canary-51");
    expect(said).toEqual(["read canary-51"]);
  });

  it("has its metrics only on a separate port when one is named", async () => {
    const metricsPort = await freePort();
    const { call } = await open({ metricsPort });
    const found = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
    expect([found.status, await found.text()]).toEqual([200, expect.stringContaining("perigee_lanes 0")]);
    expect((await call("/metrics")).status).toBe(404);
  });

  it("streams events to the operator page, and ends them when it closes", async () => {
    const { call } = await open();
    await call("/v0/infer/", "POST", [{ model: "echo:test", input: "hello", sla: 60 }]);
    const response = await call("/v0/operator/events");
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("event: snapshot")) text += (await reader?.read())?.value ?? "";
    expect(text).toMatch(/^event: history\ndata: \{"start":\d+,"items":\[/);
    expect(text).toContain('"total_items":1');
    await closing.pop()?.();
    for (;;) {
      const { done } = (await reader?.read()) ?? { done: true };
      if (done) break;
    }
  });

  it("tells events to nobody without a key that may read", async () => {
    const { call, url } = await open();
    expect((await call("/v0/operator/events", "GET", undefined, "wrong")).status).toBe(401);
    expect((await fetch(`${url}/v0/operator/events?key=own`)).status).toBe(401);
    expect((await call("/v0/operator/events?after=1")).status).toBe(422);
    expect((await call("/")).status).toBe(200);
  });
});
