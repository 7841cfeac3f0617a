import { request as get } from "node:http";
import type { AddressInfo } from "node:net";
import { fastify } from "fastify";
import { afterEach, describe, expect, it } from "vitest";
import { BatchTally } from "../../src/engine/items/batch_tally.ts";
import type { LaneStatus } from "../../src/engine/lanes/lane_status.ts";
import type { BatchStatus } from "../../src/engine/shown/batch_status.ts";
import { Activity } from "../../src/service/operate/activity.ts";
import { Metrics } from "../../src/service/operate/metrics.ts";
import {
  countRequests,
  openMetricsPort,
  registerMetricsRoute,
} from "../../src/service/operate/metrics_routes.ts";
import { FakeClock } from "../../src/testing/index.ts";

const LANE: LaneStatus = {
  provider: "openai",
  tier: "realtime",
  family: "gpt-4o-mini",
  state: "cooldown",
  requests: { used: 120, limit: 500, share: 0.24 },
  inFlight: 7,
  inFlightMax: 64,
  waiting: 30,
  cooldownMs: 1_500,
  projects: 1,
};

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

function world(lanes: readonly LaneStatus[] = [LANE]) {
  const activity = new Activity(new FakeClock());
  const tally = new BatchTally();
  const batches: BatchStatus[] = [];
  const metrics = new Metrics({
    activity,
    batches: () => ({ tally, list: () => batches }),
    lanes: () => lanes,
    open: () => ({ tasks: 2, objects: 40 }),
    executions: () => ({ queued: 5, running: 3 }),
    holds: () => [
      {
        reason: "outage",
        since: "2026-01-01T00:00:00.000Z",
        next_try: null,
        items: 7,
        provider: "p",
        message: "x",
      },
    ],
  });
  return { activity, metrics, tally, batches };
}

function figure(text: string, line: string): number {
  const found = text.split("\n").find((one) => one.startsWith(`${line} `));
  return Number(found?.slice(line.length + 1) ?? Number.NaN);
}

async function ask(port: number, headers: Record<string, string> = {}) {
  return new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    get({ host: "127.0.0.1", port, path: "/metrics", headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode, text }));
    })
      .on("error", reject)
      .end();
  });
}

describe("metrics", () => {
  it("count executions by how they ended, those of projects' own satellites together", async () => {
    const { metrics } = world();
    const status = "completed";
    metrics.executed({ satellite: { namespace: "perigee", name: "call-webhook" }, status });
    for (const name of ["mine", "private-plan"])
      metrics.executed({ satellite: { namespace: "acme", name }, status: "failed" });
    const { text } = await metrics.render();
    const finished = "perigee_executions_finished_total";
    expect(figure(text, `${finished}{satellite="call-webhook",status="completed"}`)).toBe(1);
    expect(figure(text, `${finished}{satellite="other",status="failed"}`)).toBe(2);
    expect(figure(text, 'perigee_held_items{reason="outage",provider="p"}')).toBe(7);
    expect(figure(text, 'perigee_executions_pending{phase="queued"}')).toBe(5);
    expect(figure(text, 'perigee_executions_pending{phase="running"}')).toBe(3);
    expect(text).not.toMatch(/acme|private-plan/);
  });

  it("show open batches by provider and state, and what was done with batches, without ids and projects", async () => {
    const { metrics, batches, tally } = world();
    const batch: BatchStatus = {
      ...{ id: "batch_secret", tag: "tag_secret", provider: "openai", model: "openai:m", project: "acme" },
      ...{ taskId: "task_secret", state: "running", items: 100, itemsOpen: 90, enqueuedTokens: 5_000 },
      ageMs: 60_000,
    };
    batches.push(batch, { ...batch, ageMs: 90_000 });
    batches.push({ ...batch, provider: "gemini", state: "spooled", enqueuedTokens: 0, itemsOpen: 3 });
    for (const outcome of ["running", "running", "ended", "unknown"] as const)
      tally.polled("openai", outcome);
    tally.ended("openai", "expired");
    tally.collected("openai", 60);
    await metrics.render();
    const { text } = await metrics.render(); // asked twice, counted once
    expect(figure(text, 'perigee_batches_open{provider="openai",state="running"}')).toBe(2);
    expect(figure(text, 'perigee_batches_open{provider="gemini",state="spooled"}')).toBe(1);
    expect(figure(text, 'perigee_batch_items{provider="openai"}')).toBe(180);
    expect(figure(text, 'perigee_batch_enqueued_tokens{provider="openai"}')).toBe(10_000);
    expect(figure(text, 'perigee_batch_enqueued_tokens{provider="gemini"}')).toBe(0);
    expect(figure(text, 'perigee_batch_oldest_seconds{provider="openai"}')).toBe(90);
    expect(figure(text, 'perigee_batch_polls_total{provider="openai",outcome="running"}')).toBe(2);
    expect(figure(text, 'perigee_batch_polls_total{provider="openai",outcome="unknown"}')).toBe(1);
    expect(figure(text, 'perigee_batch_submissions_total{provider="openai",outcome="expired"}')).toBe(1);
    expect(figure(text, 'perigee_batch_results_total{provider="openai"}')).toBe(60);
    expect(text).not.toMatch(/secret|acme/);
    batches.length = 0;
    const after = await metrics.render();
    expect(after.text).not.toContain("perigee_batches_open{");
  });

  it("count requests by the pattern of their route, never by their address", async () => {
    const { metrics } = world();
    const app = fastify();
    countRequests(app, metrics);
    app.get("/v0/infer/task/:id", async () => ({}));
    app.get("/broken", async () => {
      throw new Error("no");
    });
    for (const url of ["/v0/infer/task/secret-1?q=secret-2", "/v0/infer/task/b", "/broken", "/secret-3"])
      await app.inject({ url });
    const { text } = await metrics.render();
    const task = 'method="GET",route="/v0/infer/task/:id"';
    expect(figure(text, `perigee_http_requests_total{${task},status="200"}`)).toBe(2);
    expect(figure(text, `perigee_http_request_duration_seconds_count{${task}}`)).toBe(2);
    expect(figure(text, 'perigee_http_requests_total{method="GET",route="/broken",status="500"}')).toBe(1);
    expect(figure(text, 'perigee_http_requests_total{method="GET",route="none",status="404"}')).toBe(1);
    expect(text).not.toContain("secret");
  });

  it("show the results of items, attempts and commits", async () => {
    const { activity, metrics } = world();
    const item = {
      project: "p",
      inputTokens: 10,
      outputTokens: 5,
      listUsd: 0.5,
      usd: 0.25,
      billedUsd: 0.5,
      ambiguousUsd: 0,
    };
    activity.settled({ ...item, status: "completed", code: undefined, isCached: true });
    activity.settled({ ...item, status: "failed", code: "timeout" });
    const attempt = { project: "p", lane: "openai:realtime:gpt", model: "openai:gpt", usage: undefined };
    activity.attempted({ ...attempt, code: "timeout", latencyMs: 9 });
    metrics.committed(4);
    metrics.finished("completed");
    await metrics.render();
    const { text } = await metrics.render(); // asked twice, counted once
    expect(figure(text, 'perigee_items_total{outcome="completed"}')).toBe(1);
    expect(figure(text, 'perigee_items_total{outcome="timeout"}')).toBe(1);
    expect(figure(text, "perigee_items_cached_total")).toBe(1);
    expect(figure(text, 'perigee_tokens_total{direction="input"}')).toBe(20);
    expect(figure(text, 'perigee_cost_usd_total{price="list"}')).toBe(1);
    expect(figure(text, 'perigee_cost_usd_total{price="factored"}')).toBe(0.5);
    expect(figure(text, 'perigee_attempts_total{provider="openai",outcome="timeout"}')).toBe(1);
    expect(figure(text, 'perigee_commit_duration_seconds_bucket{le="0.005"}')).toBe(1);
    expect(figure(text, "perigee_tasks_open")).toBe(2);
    expect(figure(text, "perigee_objects_open")).toBe(40);
    expect(figure(text, 'perigee_tasks_finished_total{status="completed"}')).toBe(1);
    expect(figure(text, "nodejs_eventloop_lag_p99_seconds")).toBeGreaterThanOrEqual(0);
    expect(figure(text, "process_resident_memory_bytes")).toBeGreaterThan(0);
  });

  it("show each lane's limits and their use", async () => {
    const { metrics } = world();
    const { text } = await metrics.render();
    const lane = 'provider="openai",tier="realtime",family="gpt-4o-mini"';
    expect(figure(text, `perigee_lane_limit{${lane},limit="requests_per_minute"}`)).toBe(500);
    expect(figure(text, `perigee_lane_used{${lane},limit="requests_per_minute"}`)).toBe(120);
    expect(figure(text, `perigee_lane_limit{${lane},limit="concurrency"}`)).toBe(64);
    expect(figure(text, `perigee_lane_in_flight{${lane}}`)).toBe(7);
    expect(figure(text, `perigee_lane_waiting{${lane}}`)).toBe(30);
    expect(figure(text, `perigee_lane_cooldown_seconds{${lane}}`)).toBe(1.5);
    expect(figure(text, `perigee_lane_open{${lane}}`)).toBe(0);
    expect(text).not.toContain("input_tokens_per_minute");
  });

  it("show 200 lanes at most, and how many there are", async () => {
    const { metrics } = world(Array.from({ length: 300 }, (_, index) => ({ ...LANE, family: `f${index}` })));
    const { text } = await metrics.render();
    expect(figure(text, "perigee_lanes")).toBe(300);
    expect(text.match(/^perigee_lane_waiting\{/gm)).toHaveLength(200);
  });

  it("are served on the service's port only to this machine, and not through a proxy on it", async () => {
    const { metrics } = world();
    const app = fastify();
    registerMetricsRoute(app, metrics);
    await app.listen({ host: "127.0.0.1", port: 0 });
    closing.push(() => app.close());
    const { port } = app.server.address() as AddressInfo;
    const answer = await ask(port);
    expect(answer.status).toBe(200);
    expect(answer.text).toContain("perigee_lanes 1");
    for (const header of ["X-Forwarded-For", "Forwarded", "Via"])
      expect((await ask(port, { [header]: "203.0.113.9" })).status).not.toBe(200);
    const foreign = await app.inject({ url: "/metrics", remoteAddress: "203.0.113.9" });
    expect(foreign.statusCode).not.toBe(200);
    expect(foreign.body).not.toContain("perigee_lanes");
  });

  it("are served on a separate port when one is set", async () => {
    const { metrics } = world();
    const opened = await openMetricsPort(metrics, { host: "127.0.0.1", port: 0 });
    closing.push(() => opened.close());
    expect(await ask(opened.port, { Via: "a proxy" })).toMatchObject({ status: 200 });
    const elsewhere = await fetch(`http://127.0.0.1:${opened.port}/v0/infer/task/1`);
    expect(elsewhere.status).toBe(404);
    const refused = openMetricsPort(metrics, { host: "127.0.0.1", port: opened.port });
    await expect(refused).rejects.toMatchObject({ code: "EADDRINUSE" });
  });
});
