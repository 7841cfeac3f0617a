/** A posted task that goes with a batch, as its caller sees it: the POST, its task, its objects, a receipt and the usage of the day. */
import { afterAll, expect, it, vi } from "vitest";
import { FakeAnthropicBatches } from "../batch_servers/anthropic.ts";
import { serve } from "../batch_servers/serve.ts";
import { openWhole } from "./whole.ts";

const ITEMS = 100;
const times = { p50: 100, p90: 100, p99: 100 };
const fake = new FakeAnthropicBatches({
  ...{ seed: 1, nowMs: () => Date.now(), times, validatingMs: 0, finalizingMs: 0 },
});
const served = await serve(fake);
afterAll(() => served.close());
const whole = await openWhole({
  config: {
    providers: { anthropic: { baseUrl: served.url, key: "k" } },
    lanes: { pollSeconds: { min: 0.1, max: 0.2 }, priors: { batch: { p50: 1, p90: 2, p99: 3 } } },
  },
});

interface Seen {
  readonly status: string;
  readonly task_id: string;
  readonly objects: readonly { readonly object_id: string; readonly output?: { readonly text: string } }[];
}

interface Usage {
  readonly days: readonly {
    readonly items: number;
    readonly list_usd: number;
    readonly billed_usd: number;
  }[];
}

const get = async <T>(path: string): Promise<T> => JSON.parse((await whole.call("GET", path)).text) as T;

it("is accepted at once, and shows its answers, its batch and half of the list price", async () => {
  const body = Array.from({ length: ITEMS }, (_, line) => ({
    model: "anthropic:claude-haiku-4-5",
    input: `prompt ${line + 1}`,
    max_tokens: 64,
    sla: 1_440,
  }));
  const made = await whole.call("POST", "/v0/infer/", { body });
  expect(made.status).toBe(200);
  const { task_id: id, status } = JSON.parse(made.text) as Seen;
  expect(status).toBe("submitted");
  await vi.waitFor(
    async () => expect(await get(`/v0/infer/task/${id}`)).toMatchObject({ status: "completed" }),
    {
      timeout: 60_000,
      interval: 50,
    },
  );
  const { objects } = await get<Seen>(`/v0/infer/task/${id}`);
  expect(objects.map(({ output }) => output?.text.replace(/^.* to /, ""))).toEqual(
    body.map(({ input }) => input),
  );
  const receipt = await get(`/v0/infer/object/${objects[0]?.object_id}/receipt`);
  expect(receipt).toMatchObject({ lane: "batch", provider: "anthropic", tier: "batch", met: true });
  const { days } = await get<Usage>("/v0/usage");
  const [day] = days;
  expect(day?.items).toBe(ITEMS);
  expect(2 * (day?.billed_usd ?? 0)).toBeCloseTo(day?.list_usd ?? 0, 9);
  expect(fake.ledger.batches.size).toBe(1);
});
