/** Turns by weighted deficit round robin. */
import { describe, expect, it } from "vitest";
import { FairShare } from "../../src/schedule/fair_share.ts";

/** Names of who is served, in order; costs by name, one item after another. */
function serve(share: FairShare<string>, times: number, costOf: (who: string) => number | undefined): string {
  let order = "";
  for (let each = 0; each < times; each++) {
    const who = share.next(costOf);
    if (who === undefined) return order;
    share.served(who, costOf(who) ?? 0);
    order += who;
  }
  return order;
}

describe("FairShare", () => {
  it("names nobody when nobody is present, and the only one without asking for its cost", () => {
    const share = new FairShare<string>();
    expect(share.next(() => 1)).toBeUndefined();
    share.join("a", 1);
    expect(share.next(() => undefined)).toBe("a");
  });

  it("takes turns item by item when items cost alike", () => {
    const share = new FairShare<string>();
    for (const who of ["a", "b", "c"]) share.join(who, 1);
    expect(serve(share, 9, () => 7)).toBe("abcabcabc");
  });

  it("serves more of cheaper items: what counts is what they cost", () => {
    const share = new FairShare<string>();
    share.join("a", 1);
    share.join("b", 1);
    const order = serve(share, 110, (who) => (who === "a" ? 10 : 1));
    expect(order.replaceAll("b", "").length).toBeGreaterThanOrEqual(9);
    expect(order.replaceAll("b", "").length).toBeLessThanOrEqual(11);
  });

  it("serves by weight, spread over the round", () => {
    const share = new FairShare<string>();
    share.join("a", 3);
    share.join("b", 1);
    const order = serve(share, 40, () => 1);
    expect(order.replaceAll("b", "")).toHaveLength(30);
    expect(order).not.toContain("aaaaa");
  });

  it("names the same one until it was served", () => {
    const share = new FairShare<string>();
    share.join("a", 1);
    share.join("b", 1);
    const first = share.next(() => 1);
    expect([share.next(() => 1), share.next(() => 1)]).toEqual([first, first]);
  });

  it("gives no credit to one who cannot be served: there is no burst when it can", () => {
    const share = new FairShare<string>();
    share.join("a", 1);
    share.join("b", 1);
    expect(serve(share, 100, (who) => (who === "b" ? undefined : 1))).toBe("a".repeat(100));
    expect(serve(share, 6, () => 1)).toMatch(/^(ab){3}$|^(ba){3}$/);
    expect(share.next(() => undefined)).toBeUndefined();
  });

  it("lets a newcomer in after one turn of each other, and forgets the credit of one who leaves", () => {
    const share = new FairShare<string>();
    for (const who of ["a", "b"]) share.join(who, 1);
    expect(serve(share, 3, () => 1)).toBe("aba");
    share.join("c", 1);
    expect(serve(share, 4, () => 1)).toContain("c");
    share.leave("a");
    share.leave("unknown");
    expect(serve(share, 4, () => 1)).toMatch(/^(bc){2}$|^(cb){2}$/);
    share.leave("b");
    expect(serve(share, 2, () => 1)).toBe("cc");
    share.leave("c");
    expect(share.size).toBe(0);
  });

  it("reckons the rounds in which no credit would suffice instead of walking them", () => {
    const share = new FairShare<string>();
    share.join("a", 1);
    share.join("b", 1);
    serve(share, 2, () => 1);
    let asked = 0;
    const order = serve(share, 1, () => {
      asked += 1;
      return 1_000_000;
    });
    expect(order).toHaveLength(1);
    expect(asked).toBeLessThan(20);
  });
});
