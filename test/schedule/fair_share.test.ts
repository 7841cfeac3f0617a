/** Turns by start-time fair queueing. */
import { describe, expect, it } from "vitest";
import { FairShare } from "../../src/queue/fair_share.ts";

function shareOf(weights: Readonly<Record<string, number>>): FairShare<string> {
  const share = new FairShare<string>({ weightOf: (who) => weights[who] ?? 1, nameOf: (who) => who });
  for (const who of Object.keys(weights)) share.join(who);
  return share;
}

/** Names of who is served, in order; undefined costs: cannot be served. */
function serve(share: FairShare<string>, times: number, costOf: (who: string) => number | undefined): string {
  let order = "";
  for (let each = 0; each < times; each++) {
    const who = share.next((each) => costOf(each) !== undefined);
    if (who === undefined) return order;
    share.served(who, costOf(who) ?? 0);
    order += who;
  }
  return order;
}

describe("FairShare", () => {
  it("names nobody when nobody waits, and the only one without asking whether it can be served", () => {
    const share = shareOf({});
    expect(share.next(() => true)).toBeUndefined();
    share.join("a");
    expect(share.next(() => false)).toBe("a");
  });

  it("takes turns item by item when items cost alike", () => {
    expect(serve(shareOf({ a: 1, b: 1, c: 1 }), 9, () => 7)).toBe("abcabcabc");
  });

  it("serves more of cheaper items: what counts is what they cost", () => {
    const order = serve(shareOf({ a: 1, b: 1 }), 110, (who) => (who === "a" ? 10 : 1));
    expect(order.replaceAll("b", "")).toHaveLength(10);
  });

  it("serves by weight, spread over time", () => {
    const order = serve(shareOf({ a: 3, b: 1 }), 40, () => 1);
    expect(order.replaceAll("b", "")).toHaveLength(30);
    expect(order).not.toContain("aaaaa");
  });

  it("names the same one until it was served", () => {
    const share = shareOf({ a: 1, b: 1 });
    const first = share.next(() => true);
    expect([share.next(() => true), share.next(() => true)]).toEqual([first, first]);
  });

  it("lets nobody save up while it cannot be served: there is no burst when it can", () => {
    const share = shareOf({ a: 1, b: 1 });
    expect(serve(share, 100, (who) => (who === "b" ? undefined : 1))).toBe("a".repeat(100));
    expect(serve(share, 6, () => 1)).toMatch(/^(ab){3}$|^(ba){3}$/);
    expect(share.next(() => false)).toBeUndefined();
  });

  it("serves a newcomer at once, and lets nobody get ahead by leaving and coming back", () => {
    const share = shareOf({ a: 1, b: 1, c: 1 });
    serve(share, 30, () => 1);
    share.join("d");
    expect(serve(share, 4, () => 1)).toMatch(/^\w{0,2}d/);
    let own = 0;
    for (let each = 0; each < 40; each++) {
      share.leave("a");
      share.join("a");
      if (serve(share, 1, () => 1) === "a") own += 1;
    }
    expect(own).toBeLessThanOrEqual(11);
  });

  it("keeps no memory of those who left long ago", () => {
    const share = shareOf({ a: 1, b: 1 });
    expect(share.leave("unknown")).toBe(false);
    expect(share.join("a")).toBe(false);
    for (const who of ["a", "b"]) share.leave(who);
    expect(share.size).toBe(0);
    share.join("c");
    expect(serve(share, 2, () => 1)).toBe("cc");
  });

  it.each([
    ["beside others", { a: 1, light: 0.001 }],
    ["with nobody else", { light: 0.001, other: 0.002 }],
  ])("lets no newcomer wait for the turns of one who left: %s", (_, weights) => {
    const share = shareOf({ ...weights, a: 1 });
    for (const who of Object.keys(weights)) {
      share.next(() => true);
      share.served(who, 1); // of little weight, that is as much as a thousand turns of the others
    }
    for (const who of Object.keys(weights)) if (who !== "a") share.leave(who);
    for (const who of ["b", "c"]) share.join(who);
    const order = serve(share, 30, () => 1);
    for (const who of ["a", "b", "c"]) expect(order.split(who).length - 1).toBeGreaterThanOrEqual(9);
  });

  it("lets nobody pay for turns of before all had left", () => {
    const share = shareOf({ a: 1, b: 1 });
    share.next(() => true);
    share.served("a", 1_000);
    for (const who of ["b", "a"]) share.leave(who);
    for (const who of ["c", "a"]) share.join(who);
    expect(serve(share, 20, () => 1).split("a").length - 1).toBe(10);
  });
});
