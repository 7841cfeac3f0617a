import { describe, expect, it } from "vitest";
import { ChanceRefusals } from "../../src/limits/hidden/chance_refusals.ts";
import { createRandom } from "../../src/testing/random.ts";

const IN_FLIGHT = 16;
const LATENCY_MS = 100;
const REFUSAL_MS = 50;

/**
 * Sends `requests` as fast as it is allowed to; `isRefused` decides with the requests of the last second. Answers and refusals
 * take LATENCY_MS; with `answerMs` that, and refusals REFUSAL_MS.
 */
function sendAll(
  requests: number,
  isRefused: (perSecond: number, nowMs: number) => boolean,
  answerMs?: number,
): Sent {
  const chance = new ChanceRefusals();
  const underWay: { index: number; endMs: number; isRefused: boolean }[] = [];
  const accepted: number[] = [];
  let [nowMs, sent, refused] = [0, 0, 0];
  for (;;) {
    while (sent < requests && underWay.length < IN_FLIGHT && chance.waitMs(nowMs, underWay.length) === 0) {
      const perSecond = accepted.filter((atMs) => atMs > nowMs - 1_000).length;
      const isOver = isRefused(perSecond, nowMs);
      if (!isOver) accepted.push(nowMs);
      const takesMs = answerMs === undefined ? LATENCY_MS : isOver ? REFUSAL_MS : answerMs;
      underWay.push({ index: chance.sent(nowMs), endMs: nowMs + takesMs, isRefused: isOver });
      underWay.sort((left, right) => left.endMs - right.endMs);
      sent += 1;
    }
    if (sent === requests && underWay.length === 0) return { nowMs, refused, limitAt: undefined };
    nowMs += 5;
    while (underWay[0] !== undefined && underWay[0].endMs <= nowMs) {
      const ended = underWay.shift();
      if (ended === undefined) break;
      const lane = {
        isFree: true,
        inFlight: underWay.length + 1,
        isLate: answerMs !== undefined,
        everyMs: 0,
        isExpected: false,
      };
      if (!ended.isRefused) chance.accepted(ended.index);
      else {
        refused += 1;
        if (!chance.explains(nowMs, ended.index, lane)) return { nowMs, refused, limitAt: ended.index };
      }
    }
  }
}

interface Sent {
  readonly nowMs: number;
  readonly refused: number;
  /** The request whose refusal was a limit's; undefined if none was. */
  readonly limitAt: number | undefined;
}

describe("the cause of a 429", () => {
  it.each([0.01, 0.05, 0.1, 0.25, 0.4])("is chance where %f of all requests are refused", (share) => {
    const random = createRandom(Math.round(share * 1_000));
    expect(sendAll(5_000, () => random() < share).limitAt).toBeUndefined();
  });

  it("is a limit at once where all are refused from some request on", () => {
    for (const until of [1, 20, 300]) {
      let taken = 0;
      const { limitAt, refused } = sendAll(2_000, () => {
        taken += 1;
        return taken > until;
      });
      expect(limitAt, `after ${until}`).toBeDefined();
      expect(refused, `after ${until}`).toBeLessThanOrEqual(IN_FLIGHT + 20);
    }
  });

  it("is a limit where half the load is accepted whole", () => {
    const { limitAt } = sendAll(20_000, (perSecond) => perSecond >= 120); // of the 160 a second that it can send
    expect(limitAt).toBeDefined();
  });

  it.each([0.01, 0.1, 0.25])(
    "is chance where answers take 10 s and %f of all requests are refused",
    (share) => {
      for (let seed = 1; seed <= 10; seed += 1) {
        const random = createRandom(seed);
        const { limitAt, nowMs } = sendAll(2_000, () => random() < share, 10_000);
        expect(limitAt, `seed ${seed}`).toBeUndefined();
        expect(nowMs, `seed ${seed}`).toBeLessThan((1.1 * 2_000 * 10_000) / IN_FLIGHT); // no pace is lost
      }
    },
  );

  it.each([0, 0.01, 0.1, 0.25])(
    "is a limit after one short row where answers take 10 s and %f are refused by chance",
    (share) => {
      for (const until of [1, 20, 300]) {
        const random = createRandom(until);
        let sent = 0;
        const { limitAt = 0 } = sendAll(
          2_000,
          () => {
            sent += 1;
            return sent > until || random() < share;
          },
          10_000,
        );
        expect(limitAt, `after ${until}`).toBeGreaterThan(until);
        expect(limitAt, `after ${until}`).toBeLessThanOrEqual(until + 10);
      }
    },
  );

  it("is a limit again when the share by chance is far exceeded", () => {
    const random = createRandom(7);
    let sent = 0;
    const { limitAt } = sendAll(6_000, () => {
      sent += 1;
      return sent > 3_000 || random() < 0.1;
    });
    expect(limitAt).toBeGreaterThan(3_000);
    expect(limitAt).toBeLessThan(3_100);
  });
});
