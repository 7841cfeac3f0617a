/**
 * Fault 83: a thousand uploads that stop half-way, and readers of a large output who do not read.
 */
import { readdirSync } from "node:fs";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { completedTask, submit } from "../service/serving.ts";
import { type LoadedService, openLoaded } from "./loaded_service.ts";

const KEYS = 50;
/** Of one key and direction at a time. */
const TRANSFERS_MAX = 20;
/** Longer than the tests take, beside whatever else runs. */
const LONG_IDLE_MS = 600_000;
const SHORT_IDLE_MS = 2_000;
const MIB = 1024 * 1024;
/** Lines of 20 KB: more than the system's buffers of one connection take, which are up to 36 MB on Linux. */
const LINES = 2_000;
/** Clients and service share the process. Twenty readers of 40 MB held in memory would be 800 MB. */
const GROWTH_BYTES_MAX = 150 * MIB;
const FORM_HEAD = '--b\r\ncontent-disposition: form-data; name="file"; filename="x"\r\n\r\n';

/** Requests that this test leaves open, closed when it is over. */
function opener(service: LoadedService) {
  const open: ClientRequest[] = [];
  onTestFinished(() => {
    for (const request of open) request.destroy();
  });
  const begin = (method: string, path: string, key: string, headers: Record<string, string> = {}) => {
    const authorization = `Bearer ${key}`;
    const request = httpRequest(new URL(path, service.url), {
      method,
      agent: false,
      headers: { authorization, ...headers },
    });
    open.push(request);
    const answer = new Promise<IncomingMessage | undefined>((resolve) => {
      request.on("response", (response) => {
        response.on("error", () => undefined);
        resolve(response.pause());
      });
      request.on("error", () => resolve(undefined)).on("close", () => resolve(undefined));
    });
    return { request, answer };
  };
  return {
    /** An upload that stops after 64 KiB of one line; its answer, undefined when the connection is closed without. */
    upload: (key: string): Promise<IncomingMessage | undefined> => {
      const { request, answer } = begin("PUT", "/v0/files/x", key, {
        "content-type": "multipart/form-data; boundary=b",
        "content-length": String(10 * MIB),
      });
      request.write(`${FORM_HEAD}{"x":"${"y".repeat(64 * 1024)}`);
      return answer;
    },
    /** A reader that takes nothing but what the system takes for it. */
    read: async (path: string, key: string): Promise<IncomingMessage | undefined> => {
      const { request, answer } = begin("GET", path, key);
      request.end();
      return answer;
    },
  };
}

/** A service with an output to read, and its path. */
async function openWithOutput(
  idleMs: number,
): Promise<{ readonly service: LoadedService; readonly output: string }> {
  const service = await openLoaded({ serverLimits: { idleMs } });
  const reader = service.callerOf("reader");
  const items = Array.from({ length: LINES }, () => ({
    model: "echo:test",
    input: "word ".repeat(4_000),
    sla: 60,
  }));
  const { body: task } = await submit(reader, items, { "output-format": "jsonl" });
  await completedTask(reader, task.task_id);
  return { service, output: new URL(task.output_url).pathname };
}

describe("fault 83: slow clients", () => {
  it("are held to twenty of a key, cost little memory and hold up nobody", async () => {
    const { service, output } = await openWithOutput(LONG_IDLE_MS);
    const { upload, read } = opener(service);
    const before = process.memoryUsage().rss;
    for (let n = 0; n < KEYS * TRANSFERS_MAX; n += 1) void upload(`key${n % KEYS}`);
    const files = (): string[] => readdirSync(join(service.dataDir, "files"));
    await vi.waitFor(() => expect(files()).toHaveLength(KEYS * TRANSFERS_MAX), {
      timeout: 60_000,
      interval: 20,
    });
    const readers = await Promise.all(Array.from({ length: TRANSFERS_MAX }, () => read(output, "reader")));
    expect(readers.map((answer) => answer?.statusCode)).toEqual(readers.map(() => 200));

    expect((await upload("key7"))?.statusCode).toBe(429);
    expect((await read(output, "reader"))?.statusCode).toBe(429);
    const other = await submit(service.callerOf("other"), [{ model: "echo:test", input: "hello" }]);
    expect([other.status, other.body.status]).toEqual([200, "completed"]);
    expect(files()).toHaveLength(KEYS * TRANSFERS_MAX); // all of them are still there
    expect(process.memoryUsage().rss - before).toBeLessThan(GROWTH_BYTES_MAX);
  }, 120_000);

  it("are cut off when nothing moves, and leave nothing", async () => {
    const { service, output } = await openWithOutput(SHORT_IDLE_MS);
    const { upload, read } = opener(service);
    const uploads = Array.from({ length: TRANSFERS_MAX }, () => upload("key"));
    const readers = await Promise.all(Array.from({ length: TRANSFERS_MAX }, () => read(output, "reader")));
    expect(readers.map((answer) => answer?.statusCode)).toEqual(readers.map(() => 200));

    expect(await Promise.all(uploads)).toEqual(uploads.map(() => undefined));
    const files = (): string[] => readdirSync(join(service.dataDir, "files"));
    await vi.waitFor(() => expect(files()).toEqual([]), { timeout: 60_000 });
    let placesFreed = 0; // those who read now take the places of all who were cut off
    await vi.waitFor(
      async () => {
        while ((await read(output, "reader"))?.statusCode === 200) placesFreed += 1;
        expect(placesFreed).toBeGreaterThanOrEqual(TRANSFERS_MAX);
      },
      { timeout: 60_000, interval: 100 },
    );
    await Promise.all(readers.map((answer) => closed(answer?.resume())));
    expect(readers.map((answer) => answer?.complete)).toEqual(readers.map(() => false));
  }, 120_000);
});

function closed(answer: IncomingMessage | undefined): Promise<unknown> {
  if (answer === undefined || answer.destroyed) return Promise.resolve();
  return new Promise((resolve) => answer.once("close", resolve));
}
