/**
 * The whole service on a real engine: as a server, in Express, in Fastify.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import express from "express";
import { fastify } from "fastify";
import { afterEach, describe, expect, it } from "vitest";
import type { KeyVerifier } from "../../src/service/http/key_verifier.ts";
import { createPerigeeService, type PerigeeService } from "../../src/service/index.ts";
import { fakeVerifier } from "./world.ts";

const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function openService(verifier: KeyVerifier = fakeVerifier): Promise<PerigeeService> {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-service-"));
  closers.push(() => rmSync(dataDir, { recursive: true, force: true }));
  const service = await createPerigeeService({ dataDir, env: {}, verifier });
  closers.push(() => service.close());
  return service;
}

const headers = { authorization: "Bearer key-one", "content-type": "application/json" };
const body = JSON.stringify([
  { model: "echo:test", input: "one", sla: 5 },
  { model: "echo:other", input: "two", sla: 60 },
]);

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Submits and polls until the task is over. */
async function roundTrip(base: string): Promise<void> {
  const posted = await fetch(`${base}/v0/infer/`, { method: "POST", headers, body });
  const task = (await posted.json()) as { task_id: string; total_items: number };
  expect([posted.status, task.total_items]).toEqual([200, 2]);
  for (;;) {
    const polled = (await (await fetch(`${base}/v0/infer/task/${task.task_id}`, { headers })).json()) as {
      status: string;
      objects: { output?: { text: string }; usage: { output_tokens?: number } }[];
    };
    if (polled.status === "submitted") continue;
    expect(polled.objects.map(({ output }) => output?.text)).toEqual(["one", "two"]);
    return;
  }
}

describe("the service", () => {
  it("listens on a port of its own and answers from its engine", async () => {
    const service = await openService();
    const url = await service.listen({ port: 0 });
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    await roundTrip(url);
    const file = await fetch(`${url}/v0/infer/`, {
      method: "POST",
      headers: { ...headers, "Output-Format": "jsonl" },
      body,
    });
    const { output_url } = (await file.json()) as { output_url: string };
    expect(output_url.startsWith(url)).toBe(true);
    expect((await fetch(output_url, { headers })).status).toBe(200);
    expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ status: "ok", held: [] });
  });

  it("answers items without sla in the response", async () => {
    const service = await openService();
    const url = await service.listen({ port: 0 });
    const response = await fetch(`${url}/v0/infer/`, {
      method: "POST",
      headers,
      body: JSON.stringify([{ model: "echo:test", input: "now" }]),
    });
    const { status, objects } = (await response.json()) as { status: string; objects: object[] };
    expect(status).toBe("completed");
    expect(objects[0]).toMatchObject({
      status: "completed",
      usage: { price_factor: 1, input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
      output: { type: "text", text: "now" },
      error: null,
    });
  });

  it("quotes what it would cost, and tells what was used", async () => {
    const service = await openService();
    const url = await service.listen({ port: 0 });
    const quoted = await fetch(`${url}/v0/quote`, { method: "POST", headers, body });
    expect(await quoted.json()).toMatchObject({
      items: 2,
      earliest_sla: expect.any(Number),
      rejected_lines: 0,
      billed_usd_low: 0,
      billed_usd_high: 0,
      models: [1, 2].map(() => ({ items: 1, expected_output_basis: ["default"], learnt_answers: 0 })),
    });
    expect(quoted.status).toBe(200);
    await roundTrip(url);
    const usage = async (): Promise<unknown> => (await fetch(`${url}/v0/usage`, { headers })).json();
    await expect
      .poll(usage, { timeout: 20_000 })
      .toMatchObject({ project: "one", items: 2, days: [{ items: 2 }], month: { cap_usd: null } });
  });

  it("refuses a public address without a proxy", async () => {
    const service = await openService();
    await expect(service.listen({ host: "0.0.0.0", port: 0 })).rejects.toMatchObject({ code: "usage" });
  });

  it("is mounted in Express", async () => {
    const service = await openService();
    const app = express();
    app.use("/perigee", service.handler);
    app.use(express.json());
    app.get("/own", (_request, response) => {
      response.json({ own: true });
    });
    const server = createServer(app);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    const url = urlOf(server);
    await roundTrip(`${url}/perigee`);
    expect(await (await fetch(`${url}/own`)).json()).toEqual({ own: true });
    expect((await fetch(`${url}/perigee/v0/infer/`, { method: "POST", body })).status).toBe(401);
  });

  it("tells where an output is by the address and the path that it is mounted at", async () => {
    const outputOf = async (base: string): Promise<string> => {
      const posted = await fetch(`${base}/v0/infer/`, {
        method: "POST",
        headers: { ...headers, "Output-Format": "jsonl" },
        body: JSON.stringify([{ model: "echo:test", input: "one" }]),
      });
      return ((await posted.json()) as { output_url: string }).output_url;
    };
    const inExpress = express();
    inExpress.use("/perigee", (await openService()).handler);
    const server = createServer(inExpress);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    const inFastify = fastify();
    await inFastify.register((await openService()).plugin, { prefix: "/perigee" });
    const fastifyUrl = await inFastify.listen({ port: 0, host: "127.0.0.1" });
    closers.push(() => inFastify.close());
    const alone = createServer((await openService()).handler);
    await new Promise<void>((resolve) => alone.listen(0, "127.0.0.1", resolve));
    closers.push(() => new Promise((resolve) => alone.close(resolve)));
    const bases = [`${urlOf(server)}/perigee`, `${fastifyUrl}/perigee`, urlOf(alone)];
    for (const base of bases) {
      const url = await outputOf(base);
      expect(url).toMatch(new RegExp(`^${base}/v0/files/output/`));
      expect((await fetch(url, { headers })).status).toBe(200);
    }
  });

  it("leads to the operator page where the path that it is mounted at ends without a slash", async () => {
    const app = express();
    app.use("/own/perigee", (await openService()).handler);
    const server = createServer(app);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    const inFastify = fastify();
    await inFastify.register((await openService()).plugin, { prefix: "/own/perigee" });
    const fastifyUrl = await inFastify.listen({ port: 0, host: "127.0.0.1" });
    closers.push(() => inFastify.close());
    for (const base of [urlOf(server), fastifyUrl]) {
      const page = await fetch(`${base}/own/perigee?x=1`);
      expect([page.status, page.url]).toEqual([200, `${base}/own/perigee/`]);
      const [, style = ""] = /href="([^"]+\.css)"/.exec(await page.text()) ?? [];
      expect((await fetch(new URL(style, page.url))).status).toBe(200);
    }
  });

  it("says at once that the body was read before it arrived", async () => {
    const app = express();
    app.use(express.json());
    app.use("/perigee", (await openService()).handler);
    const server = createServer(app);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => new Promise((resolve) => server.close(resolve)));
    const base = `${urlOf(server)}/perigee`;
    const posted = await fetch(`${base}/v0/infer/`, { method: "POST", headers, body });
    expect(posted.status).toBe(500);
    expect(await posted.json()).toMatchObject({
      error: {
        code: "internal_error",
        message: expect.stringContaining("before anything that reads bodies"),
      },
    });
    expect((await fetch(`${base}/v0/infer/tasks`, { headers })).status).toBe(200);
  });

  it("is mounted in Fastify, under its own rules", async () => {
    const service = await openService();
    const app = fastify();
    await app.register(service.plugin, { prefix: "/perigee" });
    app.post("/own", async (request) => ({ body: request.body }));
    const url = await app.listen({ port: 0 });
    closers.push(() => app.close());
    await roundTrip(`${url}/perigee`);
    expect((await fetch(`${url}/perigee/healthz`)).status).toBe(200);
    expect((await fetch(`${url}/perigee/healthz?x=1`)).status).toBe(422);
    expect((await fetch(`${url}/perigee/v0/none`, { headers })).status).toBe(404);
    const own = await fetch(`${url}/own`, { method: "POST", headers, body: '{"a":1}' });
    expect(await own.json()).toEqual({ body: { a: 1 } });
  });

  it("ends requests under way before it closes, and takes no new ones", async () => {
    let tellCame = (): void => undefined;
    const came = new Promise<void>((resolve) => {
      tellCame = resolve;
    });
    const service = await openService({
      verify: (...given) => {
        tellCame();
        return fakeVerifier.verify(...given);
      },
    });
    const url = await service.listen({ port: 0 });
    const immediate = JSON.stringify(Array.from({ length: 200 }, () => ({ model: "echo:test", input: "x" })));
    const pending = fetch(`${url}/v0/infer/`, { method: "POST", headers, body: immediate });
    await came; // a connection that nobody has taken yet is reset by the kernel when its port is closed
    await service.close();
    expect((await pending).status).toBe(200);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  });
});
