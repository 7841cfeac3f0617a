/** Partitions of a worker while they drain and close: how long they wait and what they answer, on a clock that the test moves. */
import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { OwnedPartitions } from "../../src/fleet/owned_partitions.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const GET = { method: "GET", url: "/v0/infer/tasks" } as IncomingMessage;
const POST = { method: "POST", url: "/v0/infer/" } as IncomingMessage;
const CALL = { method: "POST", url: "/v1/chat/completions" } as IncomingMessage;

/**
 * An open partition; `inFlightMs`: how long its requests to providers take. Its service ends its close only where it `closes`.
 * `fails`: the step that throws.
 */
async function opened({ inFlightMs = 0, closes = false, fails = "", filesHang = false } = {}) {
  const clock = new FakeClock();
  let fail = (_error: PerigeeError): void => undefined;
  const failed = new Promise<PerigeeError>((resolve) => {
    fail = resolve;
  });
  const done: string[] = [];
  const notices: string[] = [];
  const note = (what: string): void => {
    done.push(`${what} ${clock.nowMs() - startMs}`);
    if (what === fails) throw new Error(`no ${what}`);
  };
  const closing = closes ? Promise.resolve() : new Promise<void>(() => undefined);
  const service = {
    handler: (_request: IncomingMessage, _response: ServerResponse) => undefined,
    failed,
    close: () => {
      note("close");
      return closing;
    },
  };
  const handover = {
    drained: (signal: AbortSignal) => {
      note("drain");
      return clock.sleep(inFlightMs, { signal }).catch(() => undefined);
    },
    release: () => note("release"),
  };
  const store = { close: async () => note("store") };
  const closeFiles = (): Promise<void> => (filesHang ? new Promise(() => undefined) : Promise.resolve());
  const owned = new OwnedPartitions({
    ...{ clock, onNotice: (message) => void notices.push(message), onChange: () => undefined },
    open: async () => ({ service, handover, store, closeFiles }),
  });
  await owned.take(1);
  const startMs = clock.nowMs();
  const answers = (request: IncomingMessage): boolean => owned.handlerOf(1, request) !== undefined;
  return { clock, owned, fail, done, notices, answers };
}

/** What was done with it is its `ends`. */
function response(headersSent: boolean) {
  const ends: unknown[] = [];
  const made = Object.assign(new EventEmitter(), {
    ...{ headersSent, ends, destroyed: false, req: { complete: true } },
    destroy: () => void ends.push("destroyed"),
    writeHead: (status: number) => void ends.push(status),
    end: () => undefined,
  });
  return made as unknown as ServerResponse & typeof made; // what is used of one
}

it("answers that are still under way once a partition is released are broken off: nobody gives them any more", async () => {
  const { clock, owned } = await opened();
  const [begun, waiting, over] = [response(true), response(false), response(false)];
  for (const each of [begun, waiting, over]) owned.handlerOf(1, GET)?.(GET, each);
  over.emit("close");
  const released = owned.release(1);
  await clock.advance(10_000);
  await released;
  expect([begun.ends, waiting.ends, over.ends]).toEqual([["destroyed"], [502], []]);
});

it("a planned release waits for what is in flight, and the partition answers and accepts meanwhile, but for calls that would wait", async () => {
  const { clock, owned, done, answers } = await opened({ inFlightMs: 12_000, closes: true });
  expect([answers(GET), answers(CALL), owned.isDraining(1)]).toEqual([true, true, false]);
  const released = owned.release(1);
  await clock.advance(11_999);
  expect(done).toEqual(["drain 0"]);
  expect([answers(GET), answers(POST), answers(CALL), owned.isDraining(1)]).toEqual([
    true,
    true,
    false,
    true,
  ]);
  expect([owned.state.kept, owned.state.closing, owned.first]).toEqual([[], [1], 1]);
  await clock.advance(1);
  await released;
  expect(done).toEqual(["drain 0", "release 12000", "close 12000", "store 12000"]);
  expect([answers(GET), owned.isDraining(1), owned.state.closing]).toEqual([false, false, []]);
});

it("a planned release goes on sending until the calls that wait are answered or streamed, for 20 s at most, but not when the worker leaves", async () => {
  const { clock, owned, done } = await opened({ closes: true });
  const [answered, streamed] = [response(false), response(true)];
  for (const each of [answered, streamed]) owned.handlerOf(1, CALL)?.(CALL, each);
  void owned.release(1);
  await clock.advance(5_000);
  expect(done).toEqual([]);
  answered.emit("close");
  await clock.advance(50);
  expect(done[0]).toBe("drain 5050");
  for (const isLeaving of [false, true]) {
    const other = await opened({ closes: true });
    other.owned.handlerOf(1, CALL)?.(CALL, response(false));
    void other.owned.release(1);
    await other.clock.advance(10_000);
    if (isLeaving) void other.owned.releaseAll();
    await other.clock.advance(10_000);
    expect(other.done[0]).toBe(isLeaving ? "drain 10050" : "drain 20000");
  }
});

it("requests that take longer than 60 s do not keep a partition from the worker that waits for it", async () => {
  const { clock, owned, done } = await opened({ inFlightMs: 600_000, closes: true });
  const released = owned.release(1);
  await clock.advance(59_999);
  expect(done).toEqual(["drain 0"]);
  await clock.advance(1);
  await released;
  expect(done).toEqual(["drain 0", "release 60000", "close 60000", "store 60000"]);
});

it("a worker that leaves gives requests 7 s, and its partitions are free 8 s after it began, however long its services take", async () => {
  const { clock, owned, done, answers } = await opened({ inFlightMs: 600_000 });
  const released = owned.releaseAll();
  await clock.advance(6_999);
  expect([done, answers(GET), answers(POST)]).toEqual([["drain 0"], true, true]);
  await clock.advance(1);
  expect([answers(GET), done]).toEqual([false, ["drain 0", "release 7000", "close 7000"]]);
  await clock.advance(1_000);
  await released;
  expect(done.at(-1)).toBe("store 8000");
});

it("a partition that drains for another worker has 7 s more when its worker leaves", async () => {
  const { clock, owned, done } = await opened({ inFlightMs: 600_000, closes: true });
  void owned.release(1);
  await clock.advance(30_000);
  const released = owned.releaseAll();
  await clock.advance(7_000);
  await released;
  expect(done).toEqual(["drain 0", "release 37000", "close 37000", "store 37000"]);
});

it("a partition whose service does not end its close is released after 5 s", async () => {
  const { clock, owned, done } = await opened();
  const released = owned.release(1);
  await clock.advance(4_999);
  expect([owned.state.closing, done.some((each) => each.startsWith("store"))]).toEqual([[1], false]);
  await clock.advance(1);
  await released;
  expect([owned.state, done.at(-1)]).toEqual([{ kept: [], closing: [], barred: new Set() }, "store 5000"]);
});

it("a request whose client left before the partition got it does not keep the partition", async () => {
  const { clock, owned, done } = await opened({ closes: true });
  for (const request of [CALL, GET]) {
    const left = response(false);
    left.destroyed = true; // and it has emitted `close`
    owned.handlerOf(1, request)?.(request, left);
  }
  void owned.release(1);
  await clock.advance(0);
  expect(done).toEqual(["drain 0", "release 0", "close 0", "store 0"]);
});

it("a partition whose files do not end their close is released after 1 s, and its answers are broken off before that", async () => {
  const { clock, owned } = await opened({ closes: true, filesHang: true });
  const waiting = response(false);
  owned.handlerOf(1, GET)?.(GET, waiting);
  void owned.release(1);
  await clock.advance(1_000); // for the answer
  expect([waiting.ends, owned.state.closing]).toEqual([[502], [1]]);
  await clock.advance(1_000);
  expect(owned.state.closing).toEqual([]);
});

it("a partition is released even if a step of its handover or the close of its service throws", async () => {
  for (const fails of ["drain", "release", "close"]) {
    const { clock, owned, done, notices } = await opened({ closes: true, fails });
    const released = owned.release(1);
    await clock.advance(0);
    expect(done).toEqual(["drain 0", "release 0", "close 0", "store 0"]);
    await released;
    expect(owned.state.closing).toEqual([]);
    expect(notices.at(-1)).toBe("partition 1 is given back");
    if (fails === "drain") expect(notices).toContain("partition 1 did not drain: no drain");
  }
});

it("the notice of a release says that requests were in flight only where the drain was cut", async () => {
  const late = await opened({ inFlightMs: 600_000, closes: true });
  void late.owned.release(1);
  await late.clock.advance(60_000);
  expect(late.notices.at(-1)).toBe("partition 1 is given back, with requests in flight");
  const lost = await opened({ closes: true });
  lost.fail(new PerigeeError("store_failed", "taken over"));
  await lost.clock.advance(0);
  expect(lost.notices.slice(-2)).toEqual([
    "partition 1 is given up: taken over",
    "partition 1 is given back",
  ]);
});

it("a partition whose store has failed may be taken again after 1 s, also while it drains", async () => {
  for (const isDraining of [false, true]) {
    const { clock, owned, fail } = await opened({ inFlightMs: 30_000 });
    if (isDraining) void owned.release(1);
    fail(new PerigeeError("store_failed", "taken over"));
    await clock.advance(999);
    expect(owned.state.closing).toEqual([1]);
    await clock.advance(1);
    expect(owned.state.closing).toEqual([]);
  }
});
