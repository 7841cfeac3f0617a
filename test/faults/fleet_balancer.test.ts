/**
 * The service over a load balancer that spreads requests over three processes answers as one process: cases of the conformance tests, and what
 * projects with different homes share. All of them, by hand: `npm run fleet:conformance`.
 */
import { createHmac } from "node:crypto";
import OpenAI, { toFile } from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SCOPES } from "../../src/service/http/caller.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES } from "../postgres_server.ts";
import { callOpenai } from "../service/conformance_files.ts";
import { callFront } from "../service/conformance_front.ts";
import { callClusters, callExecutions, callSecrets } from "../service/conformance_satellites.ts";
import { DescribedService } from "../service/described_service.ts";
import { hostShout, SHOUTED } from "../service/hosted_satellite.ts";
import { batchLines, ended, jsonLines } from "../service/openai_world.ts";
import { balancedWhole, type Whole } from "../service/whole.ts";
import { BalancedFleet } from "./balanced_fleet.ts";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const PRICES = { "echo:priced": { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } };
const ALL = SCOPES.filter((scope) => scope !== "admin");

let fleet: BalancedFleet;
let whole: Whole;
let described: DescribedService;

/** As JSON. */
async function ask(method: string, path: string, key: string, body?: unknown) {
  const { status, text } = await whole.call(method, path, { key, body });
  return { status, json: text === "" ? undefined : JSON.parse(text) };
}

describeCounterpart("three workers behind a load balancer", POSTGRES, () => {
  beforeAll(async () => {
    fleet = await BalancedFleet.open({
      options: { egressAllow: ["127.0.0.1"], prices: PRICES, serverLimits: { keylessPerMinute: 100_000 } },
      env: { PERIGEE_PROVIDER_OPENAI_WEBHOOK_SECRET: SECRET, OPENAI_API_KEY: "sk-none" },
    });
    whole = await balancedWhole(fleet);
    for (const project of ["alpha", "beta", "gamma"])
      await fleet.key({ project, name: "default", scopes: ALL, isBeta: true }, project);
    await fleet.key({ project: "ops", name: "default", scopes: SCOPES, isBeta: true }, "ops");
    described = await DescribedService.of(whole);
  }, 120_000);
  afterAll(() => fleet?.close());

  it("spreads requests over all of them, and projects over their partitions", async () => {
    for (const key of ["alpha", "beta", "gamma"])
      expect((await ask("GET", "/v0/infer/tasks", key)).status).toBe(200);
    const homes = new Set<number | undefined>();
    for (const project of ["alpha", "beta", "gamma"]) homes.add(await fleet.homeOf(project));
    expect(homes.size).toBe(3);
    expect([...fleet.balancer.sent.values()].every((requests) => requests > 0)).toBe(true);
    expect(fleet.balancer.sent.size).toBe(3);
  });

  it("answers OpenAI's interface as it is described", { timeout: 120_000 }, async () => {
    await callOpenai(described);
    await callFront(described);
  });

  it("answers for satellites, executions, clusters and secrets as they are described", {
    timeout: 120_000,
  }, async () => {
    await callSecrets(described);
    await callExecutions(described);
    await callClusters(described);
  });

  it("serves the official SDK of OpenAI: uploads, batches, downloads and streams", {
    timeout: 120_000,
  }, async () => {
    const client = new OpenAI({ apiKey: "beta", baseURL: `${fleet.url}/v1`, maxRetries: 0 });
    const text = batchLines(["one", "two", "three"], "echo:small");
    const file = await client.files.create({
      file: await toFile(Buffer.from(text), "in.jsonl"),
      purpose: "batch",
    });
    const created = await client.batches.create({
      ...{ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" },
    });
    const batch = await ended(client, created.id);
    expect(batch).toMatchObject({
      status: "completed",
      request_counts: { total: 3, completed: 3, failed: 0 },
    });
    expect(await jsonLines(client, batch.output_file_id ?? undefined)).toHaveLength(3);
    const stream = await client.chat.completions.create({
      ...{ model: "echo:small", stream: true },
      messages: [{ role: "user", content: "hello there" }],
    });
    let streamed = "";
    for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? "";
    expect(streamed).toBe("hello there");
    const other = new OpenAI({ apiKey: "gamma", baseURL: `${fleet.url}/v1`, maxRetries: 0 });
    await expect(other.batches.retrieve(created.id)).rejects.toMatchObject({ status: 404 });
  });

  it("lets every project run a satellite of another that an operator of a third has approved, until it is disabled", {
    timeout: 60_000,
  }, async () => {
    await hostShout(whole.call, [{ project: "alpha", key: "alpha" }]);
    const path = "/v1/satellites/alpha/shout";
    expect((await ask("GET", path, "beta")).status).toBe(404);
    for (const action of ["verify", "approve"])
      expect([action, (await ask("POST", `${path}/${action}`, "ops")).status]).toEqual([action, 200]);
    for (let round = 0; round < 3; round += 1)
      expect((await ask("GET", path, "beta")).json).toMatchObject({ state: "approved" });
    const { json } = await ask("GET", "/v1/satellites/alpha", "gamma");
    expect(json.satellites).toHaveLength(1);
    const run = await ask("POST", path, "beta", { ...SHOUTED, sla: "1h" });
    expect(run.status).toBe(200);
    await expect
      .poll(async () => (await ask("GET", `${path}/${run.json.execution_id}`, "beta")).json)
      .toMatchObject({ status: "completed", output: { said: "HI!" } });
    expect((await ask("POST", `${path}/disable`, "ops")).status).toBe(200);
    expect((await ask("POST", path, "beta", SHOUTED)).status).toBe(404);
    expect((await ask("POST", "/v1/satellites/perigee/call-webhook/disable", "ops")).status).toBe(200);
    for (const key of ["alpha", "beta", "gamma"])
      expect((await ask("GET", "/v1/satellites/perigee/call-webhook", key)).status).toBe(404);
    expect((await ask("POST", `${path}/enable`, "alpha")).status).toBe(403);
  });

  it("shows the operator the margin of all projects, which are those of one process together", async () => {
    for (const [at, key] of ["alpha", "beta", "gamma"].entries())
      await ask("POST", "/v0/infer/", key, Array(at + 1).fill({ model: "echo:priced", input: "hello" }));
    await expect.poll(async () => (await ask("GET", "/v0/margin", "ops")).json.projects.length).toBe(4);
    const { status, json } = await ask("GET", "/v0/margin", "ops");
    const names = json.projects.map(({ project }: { project: string }) => project);
    expect([status, names]).toEqual([200, ["alpha", "beta", "gamma", "own"]]);
    for (const sum of ["items", "billed_usd", "charged_usd"]) {
      const nano = (usd: number): number => Math.round(usd * 1e9);
      const parts = json.projects.map((each: Record<string, number>) => nano(each[sum] ?? 0));
      expect(nano(json[sum])).toBe(parts.reduce((one: number, other: number) => one + other, 0));
    }
    expect((await ask("GET", "/v0/margin?project=beta", "ops")).json.projects).toHaveLength(1);
    expect((await ask("GET", "/v0/margin", "alpha")).status).toBe(403);
    expect((await ask("GET", "/v0/margin?no=1", "ops")).status).toBe(422);
  });

  it("takes a provider's event for a batch of any partition, and refuses one with a wrong signature", async () => {
    const body = JSON.stringify({ type: "batch.completed", data: { id: "batch_1" } });
    const post = (secret: string) => {
      const timestamp = String(Math.floor(Date.now() / 1_000));
      const key = Buffer.from(secret.slice("whsec_".length), "base64");
      const mac = createHmac("sha256", key).update(`evt.${timestamp}.${body}`).digest("base64");
      const headers = {
        "webhook-id": "evt",
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${mac}`,
      };
      return whole.call("POST", "/v0/provider-events/openai", { key: "", body, headers });
    };
    const wrong = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
    expect([(await post(SECRET)).status, (await post(wrong)).status]).toEqual([204, 401]);
  });

  it("refuses a body that is too large with 413 before it arrives, wherever its project is at home", async () => {
    const body = `["${"x".repeat(11 * 1024 * 1024)}"]`;
    for (const key of ["alpha", "beta", "gamma"]) {
      const path = "/v0/infer/task/00000000-0000-4000-8000-000000000000/cancel";
      expect((await whole.call("POST", path, { key, body })).status).toBe(413);
    }
  });
});
