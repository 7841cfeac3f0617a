/** What a process sends whose lease lapses, and comes back or does not. */
import { expect, it } from "vitest";
import type { WireRequest, WireResult } from "../../src/dispatch/transport.ts";
import { LeasedTransport } from "../../src/engine/leased_transport.ts";
import { FakeClock, ScriptedTransport } from "../../src/testing/index.ts";

const REQUEST: WireRequest = {
  ...{ method: "POST", origin: "http://a.test", path: "/v1", headers: {}, body: new Uint8Array() },
};
const OPTIONS = { timeoutMs: 60_000 };

function made() {
  const clock = new FakeClock();
  const sentMs: number[] = [];
  const inner = new ScriptedTransport(clock, (_request, { nowMs }) => {
    sentMs.push(nowMs);
    return {
      kind: "answer",
      afterMs: 10,
      result: { ok: true, status: 200, headers: {}, body: new Uint8Array() },
    };
  });
  const lease = { isHeld: true };
  return { clock, sentMs, lease, transport: new LeasedTransport(inner, clock, () => lease.isHeld) };
}

it("a request waits while the lease has lapsed, and is sent once it is held again", async () => {
  const { clock, sentMs, lease, transport } = made();
  const before = transport.send(REQUEST, OPTIONS);
  lease.isHeld = false;
  const results: WireResult[] = [];
  void transport.send(REQUEST, OPTIONS).then((result) => results.push(result));
  await clock.advance(20_000);
  expect([sentMs.length, results]).toEqual([1, []]);
  expect((await before).ok).toBe(true); // what was sent goes on
  lease.isHeld = true;
  await clock.advance(100);
  expect([sentMs.length, results.map(({ ok }) => ok)]).toEqual([2, [true]]);
});

it("a request that waits for the lease is answered when the transport is closed or its signal fires, and is not sent", async () => {
  const { clock, sentMs, lease, transport } = made();
  lease.isHeld = false;
  const leaving = new AbortController();
  const both = [
    transport.send(REQUEST, { ...OPTIONS, signal: leaving.signal }),
    transport.send(REQUEST, OPTIONS),
  ];
  await clock.advance(1_000);
  leaving.abort();
  await clock.advance(100);
  expect(await both[0]).toMatchObject({ ok: false, failure: "aborted" });
  await transport.close();
  await clock.advance(100);
  expect(await both[1]).toMatchObject({ ok: false, failure: "aborted" });
  expect(sentMs).toEqual([]);
});
