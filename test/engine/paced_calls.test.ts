/** What follows a commit comes in order and in slices. */
import { describe, expect, it } from "vitest";
import { PacedCalls } from "../../src/engine/journal/paced_calls.ts";

function setUp(callsPerTurn?: () => number | undefined) {
  const turns: (() => void)[] = [];
  const made: number[] = [];
  const calls = new PacedCalls({ soon: (callback) => void turns.push(callback) }, callsPerTurn);
  const run = (from: number, to: number): void =>
    calls.run(Array.from({ length: to - from }, (_, index) => () => void made.push(from + index)));
  return { turns, made, calls, run };
}

const upTo = (end: number): number[] => Array.from({ length: end }, (_, index) => index);

describe("paced calls", () => {
  it("are made at once, up to 128 a turn, and in the order of the calls", () => {
    const { turns, made, run } = setUp();
    run(0, 100);
    expect(made).toEqual(upTo(100));
    run(100, 300);
    expect(made).toEqual(upTo(128));
    turns.shift()?.();
    expect(made).toEqual(upTo(256));
    run(300, 310);
    turns.shift()?.();
    expect(made).toEqual(upTo(310));
    turns.shift()?.();
    expect(turns).toEqual([]);
  });

  it("are as many a turn as `callsPerTurn` says at that time", () => {
    let wanted: number | undefined = 32;
    const { turns, made, run } = setUp(() => wanted);
    run(0, 300);
    expect(made).toEqual(upTo(32));
    turns.shift()?.();
    expect(made).toEqual(upTo(64));
    wanted = undefined;
    turns.shift()?.();
    expect(made).toEqual(upTo(192));
  });

  it("that ask for more calls have them made after earlier ones", () => {
    const { made, calls, run } = setUp();
    calls.run([() => run(1, 3), () => void made.push(0)]);
    expect(made).toEqual([0, 1, 2]);
  });

  it("that throw leave the others to the next turn", () => {
    const { turns, made, calls } = setUp();
    const fail = (): never => {
      throw new Error("a fault of perigee");
    };
    expect(() => calls.run([fail, () => void made.push(1)])).toThrow("a fault of perigee");
    turns.shift()?.();
    expect(made).toEqual([1]);
  });
});
