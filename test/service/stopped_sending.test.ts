/** A service that closes while a client still sends its body: providers receive nothing more, and what is in flight is answered. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { z } from "../../src/schema.ts";
import { createPerigeeService, type PerigeeService } from "../../src/service/index.ts";

const SCOPES = new Set(["infer:read", "infer:write", "files:read", "files:write", "satellites:run"] as const);
const ANSWER = '{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}';
const HEADERS = { authorization: "Bearer k", "content-type": "application/json" };

let dataDir: string;
let provider: Server;
/** Requests that the provider has received, and those that it has answered. */
let received: number;
let answered: number;
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "perigee-stopped-"));
  [received, answered] = [0, 0];
  provider = createServer((request, response) => {
    received += 1;
    request.resume();
    setTimeout(() => {
      answered += 1;
      response.writeHead(200, { "content-type": "application/json" }).end(ANSWER);
    }, 300);
  });
  provider.listen(0, "127.0.0.1");
  await once(provider, "listening");
});
afterEach(() => {
  provider.closeAllConnections();
  provider.close();
  rmSync(dataDir, { recursive: true, force: true });
});

let begun = 0;
/** Its attempts are refused, and repeated soon. */
const refused = defineSatellite({
  name: "refused",
  input: z.strictObject({}),
  isRepeatable: true,
  run: async () => {
    begun += 1;
    throw new SatelliteError("refused", "busy", "not now", { retryAfterMs: 20 });
  },
});

async function opened(): Promise<{ readonly service: PerigeeService; readonly base: string }> {
  const { port } = provider.address() as AddressInfo;
  const service = await createPerigeeService({
    dataDir,
    env: {},
    threads: 1,
    maxInFlight: 2,
    providers: { local: { baseUrl: `http://127.0.0.1:${port}/v1`, needsKey: false } },
    satellites: { trusted: [{ project: "red", satellites: [refused] }] },
    verifier: { verify: () => ({ keyId: "k1", project: "red", scopes: SCOPES, isBeta: false }) },
  });
  return { service, base: await service.listen({ port: 0 }) };
}

/** Sends the head of an upload and a part of its body. */
async function slowUpload(base: string): Promise<Socket> {
  const socket = connect(Number(new URL(base).port), "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  const type = "content-type: multipart/form-data; boundary=x";
  socket.write(
    `PUT /v0/files/a.jsonl HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\n${type}\r\ncontent-length: 100000\r\n\r\n--x\r\n`,
  );
  await sleep(200);
  return socket;
}

const items = (count: number, sla?: number) =>
  JSON.stringify(
    Array.from({ length: count }, () => ({
      model: "local:m",
      contents: [{ parts: [{ text: "hello" }] }],
      ...(sla === undefined ? {} : { sla }),
    })),
  );

describe("a service that closes while a client still sends its body", () => {
  it("sends nothing more, and the next process sends only what was not answered", async () => {
    const { service, base } = await opened();
    const posted = await fetch(new URL("/v0/infer/", base), {
      method: "POST",
      headers: HEADERS,
      body: items(12, 60),
    });
    const { task_id: id } = (await posted.json()) as { task_id: string };
    const upload = await slowUpload(base);
    while (answered < 2) await sleep(20);
    const closing = service.close();
    await sleep(200); // a request that is recorded is in flight
    const before = received;
    expect(before).toBeLessThanOrEqual(6);
    await sleep(2_000);
    expect(received).toBe(before);
    expect(answered).toBe(before); // what was in flight
    upload.destroy();
    await closing;
    expect(received).toBe(before);

    const next = await opened();
    const view = async (): Promise<{ counts: Record<string, number> }> =>
      (await (await fetch(new URL(`/v0/infer/task/${id}`, next.base), { headers: HEADERS })).json()) as never;
    while ((await view()).counts["completed"] !== 12) await sleep(50);
    expect(received).toBe(12);
    await next.service.close();
  });

  it("begins no further attempt of an execution, and the next process continues it", async () => {
    const { service, base } = await opened();
    const url = new URL("/v1/satellites/red/refused/", base);
    const posted = await fetch(url, {
      method: "POST",
      headers: { ...HEADERS, authorization: "k" },
      body: JSON.stringify({ input: {} }),
    });
    expect(posted.ok).toBe(true);
    const upload = await slowUpload(base);
    while (begun < 2) await sleep(5);
    const closing = service.close();
    await sleep(50); // one that has its intent is under way
    const before = begun;
    await sleep(3_000);
    expect(begun).toBe(before);
    upload.destroy();
    await closing;
    const next = await opened();
    while (begun === before) await sleep(20);
    await next.service.close();
  });

  it("answers a caller who waits once what is in flight is answered, with the task as it is", async () => {
    const { service, base } = await opened();
    const upload = await slowUpload(base);
    const posting = fetch(new URL("/v0/infer/", base), { method: "POST", headers: HEADERS, body: items(12) });
    while (answered < 2) await sleep(20);
    const startMs = performance.now();
    const closing = service.close();
    const response = await posting;
    expect(performance.now() - startMs).toBeLessThan(2_000);
    const task = (await response.json()) as { status: string; counts: Record<string, number> };
    expect(task.status).toBe("submitted");
    expect(task.counts["completed"]).toBe(received);
    expect(received).toBeLessThan(12);
    upload.destroy();
    await closing;
  });
});
