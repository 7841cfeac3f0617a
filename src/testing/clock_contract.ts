/**
 * What every `Clock` must do. Times are a few milliseconds, so that a real clock can be put to it.
 */
import assert from "node:assert/strict";
import type { Clock, Moment } from "../clock.ts";
import type { ContractCase } from "./contract_case.ts";

/** A clock, and how its time is made to pass: by waiting or by moving it. */
export interface ClockUnderTest {
  readonly clock: Clock;
  /** Resolves when at least `ms` have passed on the clock and what fell due has run. */
  pass(ms: number): Promise<void>;
}

/** The cases. `make` returns a new clock for each. */
export function clockContract(make: () => ClockUnderTest): readonly ContractCase[] {
  const cases: Readonly<Record<string, (tested: ClockUnderTest) => Promise<void>>> = {
    "time never moves back, and advances": timeMovesOn,
    "a timer calls back once, after its delay and never at once": timerCallsBackOnce,
    "a timer that keeps nothing alive calls back like any other": backgroundTimerCallsBack,
    "a cancelled timer does not call back, and cancelling it again is allowed": timerCancels,
    "timers of one due time run in order of creation, others in order of time": timersKeepOrder,
    "soon calls back before a timer that is not yet due, and never at once": soonComesFirst,
    "sleep resolves after its delay": sleepResolves,
    "sleep rejects with the signal's reason, before and while it waits": sleepRejects,
    "random is in [0, 1) and differs from call to call": randomIsSpread,
    "wall time is whole milliseconds": wallIsWhole,
    "moments of one boot count on, as fast as the time of the clock": momentsCountOn,
  };
  return Object.entries(cases).map(([name, run]) => ({ name, run: () => run(make()) }));
}

async function timeMovesOn({ clock, pass }: ClockUnderTest): Promise<void> {
  const before = clock.nowMs();
  await pass(3);
  assert.ok(clock.nowMs() >= before + 3, `${clock.nowMs()} is not 3 ms after ${before}`);
}

async function timerCallsBackOnce({ clock, pass }: ClockUnderTest): Promise<void> {
  const startMs = clock.nowMs();
  const calls: number[] = [];
  clock.timer(2, () => calls.push(clock.nowMs()));
  clock.timer(-5, () => calls.push(clock.nowMs()));
  assert.deepEqual(calls, []);
  await pass(10);
  assert.equal(calls.length, 2);
  // Node's timers count whole milliseconds: they may be a fraction of one early on the monotonic scale.
  assert.ok((calls[1] ?? 0) >= startMs + 1);
}

async function backgroundTimerCallsBack({ clock, pass }: ClockUnderTest): Promise<void> {
  let calls = 0;
  clock.timer(
    2,
    () => {
      calls += 1;
    },
    { keepsAlive: false },
  );
  await pass(10);
  assert.equal(calls, 1);
}

async function timerCancels({ clock, pass }: ClockUnderTest): Promise<void> {
  let calls = 0;
  const timer = clock.timer(1, () => {
    calls += 1;
  });
  timer.cancel();
  timer.cancel();
  await pass(5);
  assert.equal(calls, 0);
}

async function timersKeepOrder({ clock, pass }: ClockUnderTest): Promise<void> {
  const calls: string[] = [];
  clock.timer(8, () => calls.push("late"));
  clock.timer(2, () => calls.push("first"));
  clock.timer(2, () => calls.push("second"));
  await pass(30);
  assert.deepEqual(calls, ["first", "second", "late"]);
}

async function soonComesFirst({ clock, pass }: ClockUnderTest): Promise<void> {
  const calls: string[] = [];
  clock.timer(5, () => calls.push("timer"));
  clock.soon(() => calls.push("soon"));
  assert.deepEqual(calls, []);
  await pass(15);
  assert.deepEqual(calls, ["soon", "timer"]);
}

async function sleepResolves({ clock, pass }: ClockUnderTest): Promise<void> {
  let isAwake = false;
  const slept = clock.sleep(3).then(() => {
    isAwake = true;
  });
  assert.equal(isAwake, false);
  await pass(10);
  await slept;
  assert.equal(isAwake, true);
}

async function sleepRejects({ clock, pass }: ClockUnderTest): Promise<void> {
  const reason = new Error("enough");
  await assert.rejects(clock.sleep(1_000, { signal: AbortSignal.abort(reason) }), reason);
  const abort = new AbortController();
  const slept = assert.rejects(clock.sleep(1_000, { signal: abort.signal }), reason);
  await pass(1);
  abort.abort(reason);
  await slept;
}

async function randomIsSpread({ clock }: ClockUnderTest): Promise<void> {
  const drawn = Array.from({ length: 100 }, () => clock.random());
  assert.ok(drawn.every((value) => value >= 0 && value < 1));
  assert.ok(new Set(drawn).size > 90);
}

async function wallIsWhole({ clock }: ClockUnderTest): Promise<void> {
  assert.ok(Number.isSafeInteger(clock.wallMs()));
}

async function momentsCountOn({ clock, pass }: ClockUnderTest): Promise<void> {
  const first = bracketed(clock);
  await pass(5);
  const second = bracketed(clock);
  const passedMs = second.moment.sinceBootMs - first.moment.sinceBootMs;
  assert.ok(passedMs >= second.fromMs - first.toMs - 0.1, `only ${passedMs} ms passed`);
  assert.ok(passedMs <= second.toMs - first.fromMs + 0.1, `${passedMs} ms passed`);
  assert.ok(first.moment.sinceBootMs >= 0);
  assert.ok(Number.isSafeInteger(first.moment.wallMs));
  assert.equal(second.moment.bootId, first.moment.bootId);
  const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
  assert.ok(first.moment.bootId === undefined || uuid.test(first.moment.bootId));
}

/** A moment, between two readings of the clock. */
function bracketed(clock: Clock): {
  readonly fromMs: number;
  readonly moment: Moment;
  readonly toMs: number;
} {
  return { fromMs: clock.nowMs(), moment: clock.moment(), toMs: clock.nowMs() };
}
