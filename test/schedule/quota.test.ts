/** A quota: the limit in force between what is configured and what responses tell. */
import { describe, expect, it } from "vitest";
import { Quota } from "../../src/limits/quota.ts";

describe("Quota", () => {
  it("limits nothing until a limit is learnt, and then knows what was sent before", () => {
    const quota = new Quota(undefined, 0);
    for (let each = 0; each < 50; each++) quota.add(each, 1);
    expect(quota.use(50)).toBeUndefined();
    quota.learn(100, 40);
    expect(quota.use(100)).toEqual({ used: 50, limit: 40 });
    expect(quota.waitMs(100, 1)).toBeGreaterThan(60_000);
  });

  it("fault 64: lowers at once to what a response tells, and never rises above what is configured", () => {
    const quota = new Quota(1_000, 0);
    quota.learn(0, 400);
    expect(quota.use(0)?.limit).toBe(400);
    quota.learn(1, 5_000);
    expect(quota.use(600_000)?.limit).toBe(1_000);
  });

  it("fault 64: rises by at most 10 % in any 10 s", () => {
    const quota = new Quota(1_000, 0);
    quota.learn(0, 400);
    let before = 400;
    for (let nowMs = 1_000; nowMs <= 120_000; nowMs += 500) {
      quota.learn(nowMs, 1_000);
      if (nowMs % 10_000 !== 0) continue;
      const limit = quota.use(nowMs)?.limit ?? 0;
      expect(limit).toBeLessThanOrEqual(Math.ceil(before * 1.1));
      before = limit;
    }
    expect(before).toBe(1_000);
  });

  it("returns slowly to what is configured when responses no longer tell", () => {
    const quota = new Quota(1_000, 0);
    quota.learn(0, 500);
    expect(quota.use(59_000)?.limit).toBe(500);
    expect(quota.use(61_000)?.limit).toBeLessThan(900);
    quota.use(62_000);
    for (let nowMs = 63_000; nowMs < 200_000; nowMs += 1_000) quota.use(nowMs);
    expect(quota.use(200_000)?.limit).toBe(1_000);
  });

  it("keeps a learnt limit where none is configured", () => {
    const quota = new Quota(undefined, 0);
    quota.learn(0, 500);
    expect(quota.use(3_600_000)?.limit).toBe(500);
  });

  it("ignores one absurd limit and believes two, with a floor of 1", () => {
    const quota = new Quota(1_000, 0);
    quota.learn(0, 0);
    quota.learn(1, 1_000);
    quota.learn(2, 3);
    quota.learn(3, 1_000);
    expect(quota.use(4)?.limit).toBe(1_000);
    quota.learn(5, 0);
    quota.learn(6, 0);
    expect(quota.use(7)?.limit).toBe(1);
    expect(Number.isFinite(quota.waitMs(8, 1))).toBe(true);
    quota.learn(9, Number.NaN);
    expect(quota.use(10)?.limit).toBe(1);
  });

  it("holds when nothing remains, until the reset or 10 s, or until a response tells of more", () => {
    const quota = new Quota(1_000, 0);
    quota.learnRemaining(0, 0, 2_000);
    expect(quota.waitMs(0, 1)).toBe(2_000);
    expect(quota.waitMs(2_000, 1)).toBe(0);
    quota.learnRemaining(2_000, 0, 60_000);
    expect(quota.waitMs(2_000, 1)).toBe(10_000);
    quota.learnRemaining(2_500, 7, 60_000);
    expect(quota.waitMs(2_500, 1)).toBe(0);
    quota.learnRemaining(2_500, 0, undefined);
    expect(quota.waitMs(2_500, 1)).toBe(0);
  });

  it("leaves to others what three answers in a row say that they use, or one refusal", () => {
    const answered = new Quota(undefined, 0);
    answered.learn(0, 1_000);
    const limits = [1, 2, 3].map((nowMs) => {
      answered.learnRemaining(nowMs, 500, undefined);
      return answered.limit;
    });
    expect(limits).toEqual([1_000, 1_000, 864]); // the mean of recent answers
    const refused = new Quota(undefined, 0);
    refused.learn(0, 1_000);
    refused.learnRemaining(1, 0, undefined, { isRefused: true, used: 500 });
    expect(refused.limit).toBe(500 * 0.97);
  });

  it.each([
    [59_000, "used"],
    [119_000, "used"],
    [121_000, "free"],
    [3_600_000, "free"],
  ] as const)("when nothing was heard of others for %i ms, takes what they used for %s", (silentMs, is) => {
    const quota = new Quota(undefined, 0);
    quota.learn(0, 1_000);
    for (let nowMs = 1; nowMs <= 100; nowMs += 1) quota.learnRemaining(nowMs, 500, undefined);
    expect(quota.limit).toBeLessThan(520);
    for (let nowMs = silentMs; nowMs <= silentMs + 30_000; nowMs += 100) {
      quota.learn(nowMs, 1_000);
      quota.learnRemaining(nowMs, 1_000, undefined);
    }
    if (is === "used") expect(quota.limit).toBeLessThan(520);
    else expect(quota.limit).toBeGreaterThan(500 * 1.1 ** 2.9); // as fast as a limit rises
  });
});
