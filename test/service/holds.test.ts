/** What holds items is said by everything that shows them, and they go on when it is gone. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { createPerigeeService } from "../../src/service/index.ts";

const KEY = "Bearer pgk_live_test";

/** A server that refuses connections until it is opened. */
async function provider() {
  const server = createServer((_, response) => {
    const message = { role: "assistant", content: "yes" };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }], usage: {} }));
  });
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${port}/v1`, open: () => listen(port) };
}

async function service(url: string) {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-holds-"));
  const lines: string[] = [];
  const made = await createPerigeeService({
    dataDir,
    env: {},
    threads: 1,
    providers: { down: { baseUrl: url } },
    log: { level: "error", write: (text) => void lines.push(text) },
    verifier: {
      verify: () => ({
        keyId: "k1",
        project: "red",
        scopes: new Set(["infer:read", "infer:write"] as const),
        isBeta: false,
      }),
    },
  });
  onTestFinished(async () => {
    await made.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const base = await made.listen({ port: 0 });
  const call = async (path: string, body?: unknown): Promise<Response> =>
    fetch(new URL(path, base), {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: KEY, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  return { call, lines };
}

it("holds of an outage are in tasks, objects, /readyz, /metrics and the log, and are gone with it", async () => {
  const { url, open } = await provider();
  const { call, lines } = await service(url);
  const items = [
    { model: "down:m", input: "a", sla: 60 },
    { model: "echo:test", input: "b", sla: 60 },
    { model: "down:m", input: "c", sla: 60 },
  ];
  const { task_id: id } = (await (await call("/v0/infer/", items)).json()) as { task_id: string };
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT/);
  const hold = { reason: "outage", since: time, next_try: time, provider: "down", code: "connection_failed" };
  const looked = async (): Promise<{
    held?: object;
    objects: { held?: object; last_error?: object; object_id: string }[];
  }> => (await (await call(`/v0/infer/task/${id}`)).json()) as never;
  await vi.waitFor(
    async () =>
      expect(await looked()).toMatchObject({ held: [{ ...hold, items: 2 }], counts: { submitted: 2 } }),
    { timeout: 60_000, interval: 100 },
  );
  const { objects } = await looked();
  expect(objects.map(({ held }) => held)).toEqual([hold, undefined, hold]);
  expect(objects.map((object) => object.last_error)).toContainEqual({ code: "connection_failed" });
  const object = await (await call(`/v0/infer/object/${objects[0]?.object_id}`)).json();
  expect(object).toMatchObject({ status: "submitted", held: hold });
  const ready = await call("/readyz");
  expect({ status: ready.status, body: await ready.json() }).toEqual({
    status: 200,
    body: { status: "ok", held: [{ reason: "outage", provider: "down", since: time, items: 2 }] },
  });
  expect(await (await call("/metrics")).text()).toContain(
    'perigee_held_items{reason="outage",provider="down"} 2\n',
  );
  await vi.waitFor(() => expect(lines.join("")).toContain('"event":"held"'), { timeout: 60_000 });
  await open();
  await vi.waitFor(async () => expect(await looked()).toMatchObject({ counts: { completed: 3 } }), {
    timeout: 60_000,
    interval: 100,
  });
  expect(await looked()).not.toHaveProperty("held");
  await vi.waitFor(() => expect(lines.join("")).toContain('"event":"released"'), { timeout: 60_000 });
  const told = lines.flatMap((text) => text.trim().split("\n")).map((line) => JSON.parse(line) as object);
  const what = { reason: "outage", provider: "down", since: time, items: 2 };
  expect(told.filter((line) => "reason" in line)).toEqual([
    { level: "warn", time, event: "held", ...what },
    { level: "warn", time, event: "released", ...what },
  ]);
}, 60_000);
