/**
 * Fault 82: a task that is polled thousands of times while it is worked on.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { TaskObjects } from "../../src/tasks/large/task_objects.ts";
import { submit } from "../service/serving.ts";
import { type LoadedService, openLoaded, slowItems } from "./loaded_service.ts";

const ITEMS = 400;
const POLLERS = 16;
const POLLS_MIN = 2_000;
const PAUSE_MS = 10;

/** Submits a task and waits until its last item came to the provider. */
async function work(service: LoadedService, name: string, onTask: (id: string) => void): Promise<void> {
  const { provider } = service;
  const before = provider.prompts.length;
  const { body } = await submit(service.callerOf("acme"), slowItems(name, ITEMS));
  onTask(body.task_id);
  await vi.waitFor(() => expect(provider.prompts.length - before).toBe(ITEMS), {
    timeout: 60_000,
    interval: 20,
  });
}

describe("fault 82: polls of a task", () => {
  it("are answered from one body for each version, while the work goes on", async () => {
    const service = await openLoaded({ latencyMs: 50, places: 10 });
    const built = vi.spyOn(TaskObjects.prototype, "page");
    const call = service.callerOf("acme");
    const versions = new Set<string>();
    let polls = 0;
    let unchanged = 0;
    let isWorking = true;
    const poller = async (id: string, isConditional: boolean): Promise<void> => {
      let etag = "";
      while (isWorking || polls < POLLS_MIN) {
        const headers = isConditional && etag !== "" ? { "if-none-match": etag } : {};
        const answer = await call("GET", `/v0/infer/task/${id}?limit=100`, { headers });
        polls += 1;
        expect([200, 304]).toContain(answer.status);
        if (answer.status === 304) expect([answer.text, answer.headers.get("etag")]).toEqual(["", etag]);
        if (answer.status === 304) unchanged += 1;
        etag = answer.headers.get("etag") ?? "";
        versions.add(etag);
        await sleep(PAUSE_MS);
      }
    };
    const pollers: Promise<void>[] = [];
    await work(service, "polled", (id) => {
      built.mockClear(); // the answer to the POST
      for (let n = 0; n < POLLERS; n += 1) pollers.push(poller(id, n % 2 === 0));
    });
    isWorking = false;
    await Promise.all(pollers);
    expect(polls).toBeGreaterThanOrEqual(POLLS_MIN);
    expect(unchanged).toBeGreaterThan(0);
    expect(built.mock.calls.length).toBeLessThanOrEqual(versions.size);
  }, 40_000);
});
