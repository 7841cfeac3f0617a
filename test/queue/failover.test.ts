/** Which model of an alias answers. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  leaves,
  type MemberNow,
  MemberPast,
  type MemberTrouble,
  memberForNew,
  memberForWaiting,
  patienceMs,
} from "../../src/queue/failover.ts";

const trouble = (kind: MemberTrouble["kind"], sinceMs = 0, waitMs = 0): MemberTrouble => ({
  kind,
  sinceMs,
  waitMs,
});
const member = (now?: MemberTrouble, isLeft = false): MemberNow => ({ trouble: now, isLeft, itemMs: 1_000 });
const NEVER = Number.POSITIVE_INFINITY;

const anyTrouble = fc.record({
  kind: fc.constantFrom("caller", "account", "outage", "limit") as fc.Arbitrary<MemberTrouble["kind"]>,
  sinceMs: fc.integer({ min: -200_000, max: 0 }),
  waitMs: fc.integer({ min: 0, max: 900_000 }),
});
const anyMember = fc.record({
  trouble: fc.option(anyTrouble, { nil: undefined }),
  isLeft: fc.boolean(),
  itemMs: fc.integer({ min: 1, max: 60_000 }),
});

describe("how long work waits for a model in trouble", () => {
  it("is not at all for an account, a key or a missing model, 10 s for an outage and 60 s for a limit", () => {
    expect(patienceMs(trouble("caller"), 0)).toBe(0);
    expect(patienceMs(trouble("account"), 0)).toBe(0);
    expect(patienceMs(trouble("outage"), 9_999)).toBe(1);
    expect(patienceMs(trouble("outage"), 10_000)).toBe(0);
    expect(patienceMs(trouble("limit"), 20_000)).toBe(40_000);
  });

  it("is not at all for a limit whose wait ends more than a minute after it began, until it ends", () => {
    expect(patienceMs(trouble("limit", 0, 61_000), 0)).toBe(0);
    expect(patienceMs(trouble("limit", 0, 21_000), 40_000)).toBe(0);
    expect(patienceMs(trouble("limit", 0, 20_000), 10_000)).toBe(50_000);
  });

  it("ends so early that the other model can still answer before the deadline", () => {
    const near = { deadlineMs: 11_000, itemMs: 1_000 };
    expect(leaves(trouble("outage"), 0, near)).toBe(true);
    expect(leaves(trouble("outage"), 0, { ...near, deadlineMs: 13_000 })).toBe(false);
    expect(leaves(undefined, 0, near)).toBe(false);
  });
});

describe("the model for new work", () => {
  it("is the first that is well, then the first that is healed, then one whose trouble ends by itself", () => {
    const out = trouble("outage", -20_000);
    expect(memberForNew([member(), member()], 0, NEVER)).toBe(0);
    expect(memberForNew([member(out, true), member()], 0, NEVER)).toBe(1);
    expect(memberForNew([member(undefined, true), member()], 0, NEVER)).toBe(1);
    expect(memberForNew([member(undefined, true), member(out, true)], 0, NEVER)).toBe(0);
    expect(memberForNew([member(trouble("caller")), member(out)], 0, NEVER)).toBe(1);
  });

  it("is never one that is worse than another for which nothing speaks against", () => {
    fc.assert(
      fc.property(fc.array(anyMember, { minLength: 1, maxLength: 5 }), (members) => {
        const chosen = members[memberForNew(members, 0, NEVER)] as MemberNow;
        const isFine = (each: MemberNow): boolean => each.trouble === undefined && !each.isLeft;
        if (members.some(isFine)) {
          const isWaitedFor = chosen.trouble !== undefined && patienceMs(chosen.trouble, 0) > 0;
          expect(!chosen.isLeft && (chosen.trouble === undefined || isWaitedFor)).toBe(true);
        }
      }),
    );
  });
});

describe("work that waits", () => {
  it("stays while its model is well or still waited for, and while no other can answer", () => {
    const out = trouble("outage", -20_000);
    expect(memberForWaiting([member(), member()], 1, 0, NEVER)).toBeUndefined();
    expect(memberForWaiting([member(trouble("outage")), member()], 0, 0, NEVER)).toBeUndefined();
    expect(memberForWaiting([member(out), member(out)], 0, 0, NEVER)).toBeUndefined();
    expect(memberForWaiting([member(out, true), member()], 0, 0, NEVER)).toBe(1);
    expect(memberForWaiting([member(trouble("caller")), member(out)], 0, 0, NEVER)).toBe(1);
  });

  it("does not move twice without a change of a model's state", () => {
    fc.assert(
      fc.property(fc.array(anyMember, { minLength: 2, maxLength: 5 }), fc.nat(4), (members, start) => {
        const at = start % members.length;
        const moved = memberForWaiting(members, at, 0, NEVER);
        if (moved === undefined) return;
        expect(moved).not.toBe(at);
        expect(memberForWaiting(members, moved, 0, NEVER)).toBeUndefined();
      }),
    );
  });
});

describe("the way back", () => {
  it("needs 30 s without trouble, and twice as long after each fall that follows soon", () => {
    const past = new MemberPast();
    const account = trouble("account");
    let nowMs = 0;
    const waits: number[] = [];
    for (let fall = 0; fall < 8; fall += 1) {
      expect(past.isLeft(account, nowMs)).toBe(true);
      const healedMs = nowMs + 1_000;
      nowMs = healedMs;
      while (past.isLeft(undefined, nowMs)) nowMs += 1_000;
      waits.push(nowMs - healedMs);
      nowMs += 5_000;
    }
    expect(waits).toEqual([30, 60, 120, 240, 480, 960, 960, 960].map((seconds) => seconds * 1_000));
  });

  it("begins again at every trouble on the way, and takes 30 s again after a long time without a fall", () => {
    const past = new MemberPast();
    past.isLeft(trouble("account"), 0);
    past.isLeft(undefined, 1_000);
    past.isLeft(trouble("outage", 20_000), 20_000);
    expect(past.isLeft(undefined, 40_000)).toBe(true);
    expect(past.isLeft(undefined, 69_999)).toBe(true);
    expect(past.isLeft(undefined, 70_000)).toBe(false);
    expect(past.isLeft(trouble("account"), 400_000)).toBe(true);
    past.isLeft(undefined, 401_000);
    expect(past.isLeft(undefined, 431_000)).toBe(false);
  });
});
