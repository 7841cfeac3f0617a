/**
 * When a batch is left, as its moments say, which move a little whenever more is known of how fast realtime answers.
 */
import { expect, it } from "vitest";
import { type BatchMoments, BatchPolling } from "../../../src/engine/batches/batch_polling.ts";
import type { KeptBatch } from "../../../src/engine/batches/kept_batch.ts";
import { FakeClock } from "../../../src/testing/index.ts";

const SWITCH_MS = 1_000_000;
const LAST_MS = 1_300_000;

/** A batch that never ends, whose provider answers within 20 ms; `sent`: what it was sent, and when. */
function pollingOf(keepsOnCancel: boolean, momentsOf: (nowMs: number) => BatchMoments) {
  const clock = new FakeClock();
  const sent: { readonly call: string; readonly atMs: number }[] = [];
  const batch = { counts: {}, isCancelling: true };
  const kept = {
    clock,
    provider: "fake",
    left: new AbortController().signal,
    record: { batchId: "b1", state: "running", items: 10, createdWallMs: clock.wallMs(), finished: 0 },
    way: {
      wire: {
        traits: { keepsOnCancel, showsProgress: false },
        limits: { windowMs: 86_400_000 },
        get: () => "get",
        cancel: () => "cancel",
        read: () => ({ ok: true, batch }),
      },
      calls: {
        send: async (call: string) => {
          sent.push({ call, atMs: clock.nowMs() });
          await clock.sleep(20);
          return { ok: true };
        },
      },
      times: { pollMsMin: 30_000, pollMsMax: 300_000, adoptMs: 120_000 },
      tally: { polled: () => undefined },
    },
    polls: () => undefined,
    asked: () => undefined,
    healed: () => undefined,
    wait: (ms: number) => clock.sleep(ms),
    put: async (change: object) => Object.assign(kept.record, change),
  };
  const polling = new BatchPolling(kept as unknown as KeptBatch, {
    momentsOf: () => momentsOf(clock.nowMs()),
    onProgress: () => undefined,
    isTaken: () => false,
  });
  return { clock, sent, polled: polling.run() };
}

/** A millisecond later as soon as it has come. */
function moved(momentMs: number, nowMs: number): number {
  return nowMs < momentMs ? momentMs : momentMs + 1;
}

const never = { stuckMs: Number.POSITIVE_INFINITY };

it("is rescued at its last moment although that moves on while the provider is asked", async () => {
  const { clock, polled } = pollingOf(false, (nowMs) => ({
    ...{ switchMs: SWITCH_MS, lastMs: moved(LAST_MS, nowMs) },
    ...never,
  }));
  expect(await clock.runUntilSettled(polled)).toEqual({ is: "rescued" });
  expect(clock.nowMs()).toBeLessThan(LAST_MS + 100);
});

it("is cancelled at its switch although that moves on while the provider is asked", async () => {
  const { clock, sent, polled } = pollingOf(true, (nowMs) => ({
    ...{ switchMs: moved(SWITCH_MS, nowMs), lastMs: LAST_MS },
    ...never,
  }));
  await clock.runUntilSettled(polled);
  const [cancel] = sent.filter(({ call }) => call === "cancel");
  expect(cancel?.atMs).toBeLessThan(SWITCH_MS + 100);
});
