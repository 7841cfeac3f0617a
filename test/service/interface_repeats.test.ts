/** Submissions that come again with their Idempotency-Key: one task, a conflict while it is made, a refusal of other work. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import {
  type Call,
  type HeldProvider,
  type Service,
  startHeldProvider,
  startService,
  submit,
} from "./serving.ts";

const NOW = { model: "echo:small", input: "hello" };

let service: Service;
let held: HeldProvider;
let call: Call;

beforeAll(async () => {
  held = await startHeldProvider();
  service = await startService(held.env);
  call = service.caller(`Bearer ${(await service.createKey("acme")).key}`);
});
afterEach(() => held.release());
afterAll(async () => {
  await service.stop();
  await held.stop();
});

describe("a submission with an Idempotency-Key", () => {
  it("makes one task however often it is sent, and returns its id again", async () => {
    const headers = { "idempotency-key": "order-1" };
    const first = await submit(call, [{ ...NOW, sla: 60 }], headers);
    const second = await submit(call, [{ ...NOW, sla: 60 }], headers);
    expect(second).toMatchObject({ status: 200, body: { task_id: first.body.task_id, total_items: 1 } });
  });

  it("is a 409 while the first one is not answered yet, and its task afterwards", async () => {
    const headers = { "idempotency-key": "order-2" };
    const items = [{ model: "held:model", input: "hello" }];
    const first = submit(call, items, headers);
    await vi.waitFor(() => expect(held.waiting()).toBe(1), { timeout: 60_000, interval: 20 });
    expect(await submit(call, items, headers)).toMatchObject({
      status: 409,
      body: { error: { code: "idempotency_in_progress" }, request_id: expect.any(String) },
    });
    held.release();
    const { body } = await first;
    expect(body).toMatchObject({ status: "completed", objects: [{ output: { text: "released" } }] });
    expect(await submit(call, items, headers)).toMatchObject({
      status: 200,
      body: { task_id: body.task_id },
    });
    expect(held.waiting()).toBe(0);
  });

  it("is a 409 with another body or Output-Format", async () => {
    const headers = { "idempotency-key": "order-3" };
    expect(await submit(call, [NOW], headers)).toMatchObject({ status: 200 });
    const refused = { status: 409, body: { error: { code: "idempotency_mismatch" } } };
    expect(await submit(call, [{ ...NOW, input: "other" }], headers)).toMatchObject(refused);
    expect(await submit(call, [NOW], { ...headers, "output-format": "jsonl" })).toMatchObject(refused);
  });

  it("means nothing to another project's", async () => {
    const headers = { "idempotency-key": "order-4" };
    const other = service.caller(`Bearer ${(await service.createKey("other")).key}`);
    const ours = await submit(call, [NOW], headers);
    const theirs = await submit(other, [{ ...NOW, input: "another" }], headers);
    expect(theirs).toMatchObject({ status: 200, body: { objects: [{ output: { text: "another" } }] } });
    expect(theirs.body.task_id).not.toBe(ours.body.task_id);
  });
});
