/** Laws of two attempts at once: in any order of their ends, the patience and the admission. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AttemptResult } from "../../src/dispatch/attempt.ts";
import { Hedge, type HedgedEnd } from "../../src/dispatch/hedge.ts";

type Kind = "success" | "ambiguous" | "permanent";
type Event = "patience ends" | "admission" | "first ends" | "second ends";
interface Call {
  readonly name: "first" | "second";
  readonly cutSignal?: AbortSignal;
}

const resultOf = (kind: Kind): AttemptResult => ({ class: kind, message: kind, scope: "item", latencyMs: 1 });
const kind = fc.constantFrom<Kind>("success", "ambiguous", "permanent");
/** Rounds of promises that pass before the next event; 0: in the same instant. */
const pause = fc.nat({ max: 4 });
const EVENTS: readonly Event[] = ["patience ends", "admission", "first ends", "second ends"];
const order = fc.shuffledSubarray([...EVENTS], { minLength: 4 });

/** What happened to a hedged item. */
class World {
  readonly admitted: Call[] = [];
  readonly sent: Call[] = [];
  readonly givenBack: Call[] = [];
  readonly counted: Call[] = [];
  readonly ends = new Map<Call, (result: AttemptResult) => void>();
  readonly answered: Call[] = [];
  ended: HedgedEnd | undefined;
  #patience: (() => void) | undefined;
  #admission: ((isAdmitted: boolean) => void) | undefined;

  constructor(call: Call) {
    const hedging = {
      isFor: () => true,
      second: () =>
        new Promise<Call | undefined>((resolve) => {
          this.#admission = (isAdmitted) => {
            this.#admission = undefined;
            const second: Call = { name: "second" };
            if (isAdmitted) this.admitted.push(second);
            resolve(isAdmitted ? second : undefined);
          };
        }),
      withdraw: () => this.#admission?.(false),
      giveBack: (second: Call) => this.givenBack.push(second),
    };
    const send = (
      sent: Call,
      how: { moreMs: (leftMs: number, patienceMs: () => number) => number; signal: AbortSignal },
    ) => {
      this.sent.push(sent);
      if (sent.name === "first") this.#patience = () => void how.moreMs(1_000, () => 0);
      return new Promise<AttemptResult>((resolve) => {
        this.ends.set(sent, resolve);
        how.signal.addEventListener("abort", () => this.end(sent, "ambiguous"));
      });
    };
    const made = () => ({
      attempts: 0,
      uncounted: 0,
      ambiguousAttempts: 0,
      uncountedAmbiguous: 0,
      unusableAnswers: 0,
    });
    const count = (ended: Call) => this.counted.push(ended) > 0;
    void new Hedge<Call>(hedging, { send, made, count }, call).run().then((end) => {
      expect(this.ended).toBeUndefined();
      this.ended = end;
    });
  }

  end(call: Call | undefined, of: Kind): void {
    if (call === undefined) return;
    const resolve = this.ends.get(call);
    this.ends.delete(call);
    if (call.name === "first") this.#patience = undefined;
    if (resolve !== undefined && of === "success") this.answered.push(call);
    resolve?.(resultOf(of));
  }

  /** Lets all end that is under way, and all that follows from it. */
  async drain(of: Kind): Promise<void> {
    while (this.#admission !== undefined || this.ends.size > 0) {
      this.#admission?.(true);
      for (const call of [...this.ends.keys()]) this.end(call, of);
      await new Promise(setImmediate);
    }
  }

  happen(event: Event, first: Kind, second: Kind): void {
    if (event === "patience ends") this.#patience?.();
    else if (event === "admission") this.#admission?.(true);
    else if (event === "first ends") this.end(this.sent[0], first);
    else this.end(this.sent[1], second);
  }
}

describe("an item of which two attempts may be under way", () => {
  it("ends once, with an answer if one arrived, each attempt counted once, and each admission sent or returned", async () => {
    await fc.assert(
      fc.asyncProperty(
        order,
        fc.tuple(pause, pause, pause, pause),
        kind,
        kind,
        async (events, pauses, first, second) => {
          const world = new World({ name: "first" });
          for (const [index, event] of events.entries()) {
            for (let round = 0; round < (pauses[index] ?? 0); round += 1) await Promise.resolve();
            world.happen(event, first, second);
          }
          await new Promise(setImmediate);
          await world.drain(second);
          expect(world.ended).toBeDefined();
          const [, ...seconds] = world.sent;
          expect([...seconds, ...world.givenBack]).toHaveLength(world.admitted.length);
          expect(new Set([...seconds, ...world.givenBack])).toEqual(new Set(world.admitted));
          expect(new Set(world.counted)).toEqual(new Set(world.sent));
          expect(world.counted).toHaveLength(world.sent.length);
          const last = world.counted.at(-1);
          if (world.answered.length > 0) {
            expect(world.ended?.result.class).toBe("success");
            expect(world.answered).toContain(last); // the answer that counts is counted last
          } else expect(world.ended?.result.class).not.toBe("success");
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
