/** What a process sends whose lease lapses, and comes back or does not. */
import { expect, it } from "vitest";
import type { WireRequest, WireResult } from "../../src/dispatch/transport.ts";
import { LeasedTransport } from "../../src/engine/leased_transport.ts";
import { FakeClock, ScriptedTransport } from "../../src/testing/index.ts";
import type { StreamScript } from "../../src/testing/scripted_stream.ts";

const REQUEST: WireRequest = {
  ...{ method: "POST", origin: "http://a.test", path: "/v1", headers: {}, body: new Uint8Array() },
};
const OPTIONS = { timeoutMs: 60_000 };

function made(streamed?: Pick<StreamScript, "chunks" | "isTorn">) {
  const clock = new FakeClock();
  const sentMs: number[] = [];
  const inner = new ScriptedTransport(clock, (_request, { nowMs }) => {
    sentMs.push(nowMs);
    if (streamed !== undefined) return { kind: "stream", afterMs: 10, status: 200, headers: {}, ...streamed };
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

it("what is in flight is counted to the end of its answer, and nothing is sent once the work is handed over", async () => {
  const { clock, sentMs, transport } = made();
  const sent = transport.send(REQUEST, OPTIONS);
  expect(transport.inFlight).toBe(1);
  await clock.advance(10);
  expect([(await sent).ok, transport.inFlight]).toEqual([true, 0]);
  transport.end();
  expect(await transport.send(REQUEST, OPTIONS)).toMatchObject({ ok: false, failure: "not_sent" });
  expect(await transport.stream(REQUEST, { ...OPTIONS, bytesMax: 1_000 })).toMatchObject({
    ok: false,
    failure: "not_sent",
  });
  expect([sentMs.length, transport.inFlight]).toEqual([1, 0]);
});

it("a stream is counted until its last chunk is read, its reader leaves, or it breaks", async () => {
  const chunks = [new Uint8Array(65_536), new Uint8Array(65_536)]; // each waits until the one before is read
  for (const end of ["read", "left", "torn"]) {
    const { clock, transport } = made({ chunks, isTorn: end === "torn" });
    const streaming = transport.stream(REQUEST, { ...OPTIONS, bytesMax: 1_000_000 });
    expect(transport.inFlight).toBe(1);
    await clock.advance(10);
    const stream = await streaming;
    if (!stream.ok) throw new Error(stream.message);
    expect([(await stream.chunks.next()).done, transport.inFlight]).toEqual([false, 1]);
    if (end === "left") await stream.chunks.return();
    else {
      expect([(await stream.chunks.next()).done, transport.inFlight]).toEqual([false, 1]);
      const last = stream.chunks.next();
      if (end === "torn") await expect(last).rejects.toThrow();
      else expect((await last).done).toBe(true);
    }
    expect(transport.inFlight).toBe(0);
    await stream.chunks.return(); // as a `for await` may: it is not counted twice
    expect(transport.inFlight).toBe(0);
  }
});

it("a request that waits for the lease is not sent when the work is handed over meanwhile", async () => {
  const { clock, sentMs, lease, transport } = made();
  lease.isHeld = false;
  const waiting = transport.send(REQUEST, OPTIONS);
  await clock.advance(1_000);
  transport.end();
  lease.isHeld = true;
  await clock.advance(100);
  expect([await waiting, sentMs]).toEqual([expect.objectContaining({ ok: false, failure: "not_sent" }), []]);
});
