/**
 * Lines that ended in an error and are run again: their answers replace the errors, one line a key, through kills.
 */
import { describe, expect, it } from "vitest";
import type { Summary } from "../../src/engine/items/progress.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { dataFiles, endOf, finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, okFrom, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const PRICES = { "*": { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-11-01" } };
const AGAIN = { ...OPTIONS, retryFailed: true as const };

/** Line 2 is filtered by its provider, line 4 is not JSON, line 5 is not answered in time: of 6. */
async function failed(options: object = {}): Promise<World> {
  const world = new World({ config: { prices: PRICES } });
  const lines = [1, 2, 3, 4, 5, 6].map((line) => (line === 4 ? "broken\n" : itemLine(line)));
  world.disk.put(INPUT, lines.join(""));
  world.answer = (line) => {
    if (line === 2) return status(400, "content_filter");
    return line === 5 ? "hang" : ok(line);
  };
  const summary = await finish(world, { ...OPTIONS, sla: 1, ...options });
  expect(summary.counts).toMatchObject({ completed: 3 });
  world.answer = (line) => ok(line);
  return world;
}

const keysOf = (world: World): (string | null)[] => world.output().map(({ key }) => key);
const answered = (world: World): (string | null)[] =>
  world
    .output()
    .filter(({ output }) => output !== null)
    .map(({ key }) => key);

interface Sums {
  readonly attempts: number;
  readonly billed: number;
  readonly ambiguous: number;
}

/** What the lines of the output say, together. */
function sums(world: World): Sums {
  const lines = world.output() as unknown as readonly {
    readonly attempts?: number;
    readonly error?: { readonly attempts: number };
    readonly cost: { readonly billed_usd: number; readonly ambiguous_usd: number };
  }[];
  const sum = (of: (line: (typeof lines)[number]) => number): number =>
    Number(lines.reduce((total, line) => total + of(line), 0).toFixed(9));
  return {
    attempts: sum(({ attempts, error }) => attempts ?? error?.attempts ?? 0),
    billed: sum(({ cost }) => cost.billed_usd),
    ambiguous: sum(({ cost }) => cost.ambiguous_usd),
  };
}

/** The same of the run. */
function sumsOf({ usage, cost }: Summary): Sums {
  const { billed_usd: billed, ambiguous_usd: ambiguous } = cost;
  return {
    attempts: usage.attempts,
    billed: Number(billed.toFixed(9)),
    ambiguous: Number(ambiguous.toFixed(9)),
  };
}

describe("retryFailed", () => {
  it("runs what was not answered in time again, with a new window, and replaces its error", async () => {
    const world = await failed();
    const sent = world.sent.length;
    const summary = await finish(world, { ...AGAIN, sla: 1 });
    expect(summary).toMatchObject({ status: "completed", items: 6, requests_sent: 1 });
    expect(summary.counts).toMatchObject({ completed: 4, failed: 2, expired: 0 });
    expect(world.sent.slice(sent).map(({ line }) => line)).toEqual([5]);
    expect(keysOf(world).sort()).toEqual(["k1", "k2", "k3", "k5", "k6", null].sort());
    expect(answered(world).sort()).toEqual(["k1", "k3", "k5", "k6"]);
    expect(dataFiles(world)).toEqual([]);
    expect(world.disk.paths.filter((path) => path.startsWith(OUTPUT))).toEqual([OUTPUT]);
  });

  it("runs only lines of the named codes again, permanent ones too", async () => {
    const world = await failed();
    const code = world.output().find(({ key }) => key === "k2")?.error?.code;
    const summary = await finish(world, { ...OPTIONS, sla: 1, retryFailed: [code] });
    expect(summary).toMatchObject({ requests_sent: 1 });
    expect(world.output().find(({ key }) => key === "k2")?.output).toMatchObject({ text: "answer 2" });
    expect(world.output().find(({ key }) => key === "k5")?.output).toBe(null);
  });

  it("asks the model of this call for lines of a finished run", async () => {
    const world = await failed();
    world.answer = (line, _attempt, model) => okFrom(line, model);
    const sent = world.sent.length;
    const again = { ...OPTIONS, sla: 1, retryFailed: ["filtered"], model: "beta:m2" };
    const summary = await finish(world, again);
    expect(summary).toMatchObject({ status: "completed", requests_sent: 1, counts: { completed: 4 } });
    expect(world.sent.slice(sent)).toMatchObject([{ line: 2, model: "m2" }]);
    expect(world.output().find(({ key }) => key === "k2")).toMatchObject({ model: "beta:m2" });
    expect(world.output().find(({ key }) => key === "k1")).toMatchObject({ model: "alpha:scripted" });
  });

  it("asks the lines' own model again when the call names none any more", async () => {
    const world = await failed({ model: "beta:m2" });
    await finish(world, { ...AGAIN, sla: 1 });
    expect(world.sent.at(-1)).toMatchObject({ line: 5, model: "m1" });
  });

  it("sets the sla of this call for the lines of a finished run", async () => {
    const world = await failed();
    world.answer = (line) => ({ afterMs: 90_000, result: ok(line) });
    expect(await finish(world, { ...AGAIN, sla: 30 })).toMatchObject({
      counts: { completed: 4, expired: 0 },
    });
  });

  it.each([
    ["model_not_found", "alpha:m1"],
    ["provider_missing", "nowhere:m1"],
  ])("asks the model of this call for lines that ended as %s", async (code, named) => {
    const world = new World();
    world.input(3, named);
    world.answer = (line, _attempt, model) => (model === "m1" ? status(404, "model_not_found") : ok(line));
    const ended = await finish(world, { ...OPTIONS, finish: true });
    expect(ended).toMatchObject({ status: "completed", errors: { [code]: 3 } });
    const sent = world.sent.length;
    const again = { ...OPTIONS, retryFailed: [code], model: "beta:m2" };
    expect(await finish(world, again)).toMatchObject({ counts: { completed: 3 }, requests_sent: 3 });
    expect(world.sent.slice(sent).map(({ model }) => model)).toEqual(["m2", "m2", "m2"]);
  });

  it("keeps what the failed attempts took, and allows the lines all their attempts again", async () => {
    const world = new World({ config: { prices: PRICES } });
    world.input(2);
    world.answer = (line) => (line === 1 ? status(500) : ok(line));
    const first = await finish(world);
    expect(first.counts).toMatchObject({ completed: 1, failed: 1 });
    const before = world.sent.length;
    world.answer = (line, attempt) => (line === 1 && attempt < before + 2 ? status(500) : ok(line));
    const second = await finish(world, AGAIN);
    expect(second.counts).toMatchObject({ completed: 2, failed: 0 });
    expect(second.usage.attempts).toBe(world.sent.length);
    expect(second.cost.list_usd).toBeCloseTo(2 * first.cost.list_usd, 12);
  });

  it.each([
    ["at least once", "at_least_once", true],
    ["at most once", "at_most_once", ["ambiguous"]],
  ] as const)(
    "writes lines that add up to the summary, with what was tried before: %s",
    async (_, delivery, codes) => {
      const world = new World({ config: { prices: PRICES, delivery } });
      world.input(4);
      const lost = { ok: false, failure: "lost", message: "reset" } as const;
      world.answer = (line) => (line === 1 ? lost : ok(line));
      const retryFailed = codes === true ? codes : [...codes];
      await finish(world);
      const again = await finish(world, { ...OPTIONS, retryFailed, finish: true });
      expect(again.counts).toMatchObject({ completed: 3, failed: 1 });
      expect(again.cost.ambiguous_usd).toBeGreaterThan(0);
      expect(sums(world)).toEqual(sumsOf(again));
      world.answer = (line) => ok(line);
      const third = await finish(world, { ...OPTIONS, retryFailed });
      expect(third.counts.completed).toBe(4);
      expect(third.cost.ambiguous_usd).toBeCloseTo(again.cost.ambiguous_usd, 12);
      expect(third.usage.attempts).toBe(world.sent.length);
      expect(third.usage.ambiguous_attempts).toBe(world.sent.length - 4);
      expect(sums(world)).toEqual(sumsOf(third));
    },
  );

  it("puts an output in order that was, and leaves it whole until then", async () => {
    const world = await failed({ ordered: true });
    expect(keysOf(world)).toEqual(["k1", "k2", "k3", null, "k5", "k6"]);
    const engine = await world.engine();
    const run = engine.run(INPUT, { ...AGAIN, sla: 1, ordered: true });
    await world.settle(run.opened);
    expect(keysOf(world)).toEqual(["k1", "k2", "k3", null, "k5", "k6"]);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 4 } });
    await world.settle(engine.close());
    expect(keysOf(world)).toEqual(["k1", "k2", "k3", null, "k5", "k6"]);
    expect(answered(world)).toEqual(["k1", "k3", "k5", "k6"]);
    expect(await finish(world, { ...OPTIONS, ordered: true, sla: 1 })).toMatchObject({ requests_sent: 0 });
  });

  it("goes on with what a stopped run had open, too", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    world.input(5);
    world.answer = (line) => (line === 1 ? status(400, "bad") : ok(line));
    const engine = await world.engine();
    const run = engine.run(INPUT, OPTIONS);
    await world.clock.advance(25);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    world.answer = (line) => ok(line);
    const codes = world.output().flatMap(({ error }) => (error === undefined ? [] : [error.code]));
    expect(codes).toHaveLength(1);
    const summary = await finish(world, { ...OPTIONS, retryFailed: codes });
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 5 } });
    expect(answered(world).sort()).toEqual(["k1", "k2", "k3", "k4", "k5"]);
    const sentOf = (line: number): number => world.sent.filter((each) => each.line === line).length;
    expect([1, 2, 3, 4, 5].map(sentOf)).toEqual([2, 1, 1, 1, 1]);
  });

  it("does not send what may have been answered, where delivery is at most once", async () => {
    const world = new World({ config: { maxInFlight: 2, delivery: "at_most_once" }, latencyMs: 50 });
    world.input(4);
    world.answer = (line) => (line === 1 ? { afterMs: 5, result: status(400, "bad") } : ok(line));
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, OPTIONS).finished;
    await world.clock.advance(20);
    process.kill();
    world.kill();
    world.answer = (line) => ok(line);
    const summary = await finish(world, { ...OPTIONS, retryFailed: ["invalid_request"] });
    expect(summary.counts).toMatchObject({ completed: 2, failed: 2 });
    expect(summary.errors).toEqual({ ambiguous: 2 });
    expect(answered(world).sort()).toEqual(["k1", "k4"]);
  });

  it("sends what ended as ambiguous, where delivery is at most once, only when that code is named", async () => {
    const world = new World({ config: { delivery: "at_most_once" } });
    world.input(2);
    world.answer = (line) => (line === 1 ? status(500) : ok(line));
    expect(await finish(world)).toMatchObject({ errors: { ambiguous: 1 } });
    world.answer = (line) => ok(line);
    expect(await finish(world, AGAIN)).toMatchObject({ errors: { ambiguous: 1 }, requests_sent: 0 });
    const named = await finish(world, { ...OPTIONS, retryFailed: ["ambiguous"] });
    expect(named).toMatchObject({ counts: { completed: 2 }, requests_sent: 1, usage: { attempts: 3 } });
  });

  it("sends what was answered without text, where delivery is at most once, only when that code is named", async () => {
    const world = new World({ config: { delivery: "at_most_once" } });
    world.input(2);
    world.answer = (line) => (line === 1 ? openaiAnswer("", { inputTokens: 10, outputTokens: 0 }) : ok(line));
    expect(await finish(world)).toMatchObject({ errors: { empty_output: 1 } });
    expect(world.output().find(({ key }) => key === "k1")?.error).toMatchObject({
      retryable: false,
      ambiguous_attempts: 0,
    });
    world.answer = (line) => ok(line);
    expect(await finish(world, AGAIN)).toMatchObject({ errors: { empty_output: 1 }, requests_sent: 0 });
    const named = await finish(world, { ...OPTIONS, retryFailed: ["empty_output"] });
    expect(named).toMatchObject({ counts: { completed: 2 }, requests_sent: 1 });
  });

  it("reads a stream again, which must be the same", async () => {
    const world = new World();
    const text = [1, 2, 3].map((line) => itemLine(line)).join("");
    const stream = (source = text): Uint8Array[] => [Buffer.from(source)];
    world.answer = (line) => (line === 2 ? status(400, "bad") : ok(line));
    expect(await finish(world, OPTIONS, stream())).toMatchObject({ counts: { failed: 1 } });
    world.answer = (line) => ok(line);
    const codes = { retryFailed: ["invalid_request"] };
    const other = stream(text.replace("hello", "other"));
    expect(await endOf(world, other, codes)).toMatchObject({ code: "input_changed" });
    expect(keysOf(world).sort()).toEqual(["k1", "k2", "k3"]);
    expect(await finish(world, { ...OPTIONS, ...codes }, stream())).toMatchObject({
      counts: { completed: 3 },
      requests_sent: 1,
    });
    expect(answered(world).sort()).toEqual(["k1", "k2", "k3"]);
  });

  it("sends nothing and changes nothing when no line fits", async () => {
    const world = new World();
    world.input(3);
    await finish(world);
    const before = world.disk.text(OUTPUT);
    expect(await finish(world, AGAIN)).toMatchObject({ status: "completed", requests_sent: 0 });
    expect(world.disk.text(OUTPUT)).toBe(before);
    expect(dataFiles(world)).toEqual([]);
  });

  it("says which code was meant", async () => {
    const world = new World();
    world.input(1);
    const engine = await world.engine();
    expect(() => engine.run(INPUT, { ...OPTIONS, retryFailed: ["timeuot" as "timeout"] })).toThrow(
      'run: "timeuot" is not the code of an error; did you mean "timeout"?',
    );
    await world.settle(engine.close());
  });

  it("does nothing to an output that somebody changed", async () => {
    const world = await failed();
    const changed = (world.disk.text(OUTPUT) ?? "").replace("answer 3", "answer 4");
    world.disk.put(OUTPUT, changed);
    const sent = world.sent.length;
    const end = await endOf(world, INPUT, { ...AGAIN, sla: 1 });
    expect(end).toMatchObject({ code: "output_changed" });
    expect(world.sent).toHaveLength(sent);
    expect(world.disk.text(OUTPUT)).toBe(changed);
  });
});

describe("a kill while lines are opened again", () => {
  it.each([false, true])(
    "leaves one line a key, whenever it comes (ordered: %s)",
    async (ordered) => {
      const random = createRandom(7);
      for (let operation = 1; operation <= 40; operation += 3) {
        const world = await failed({ ordered });
        const sent = world.sent.length;
        const process = mortal(world.clock);
        const engine = await world.engine(process.clock);
        world.disk.crashAtOperation(operation, { powerCut: operation % 2 === 0 });
        const run = engine.run(INPUT, { ...AGAIN, sla: 1, ordered });
        run.finished.catch(() => undefined);
        await world.clock.settle();
        process.kill();
        world.kill({ powerCut: operation % 2 === 0, random });
        const summary = await finish(world, { ...AGAIN, sla: 1, ordered });
        expect(summary.counts, `operation ${operation}`).toMatchObject({
          completed: 4,
          failed: 2,
          expired: 0,
        });
        const keys = keysOf(world);
        expect([...keys].sort(), `operation ${operation}`).toEqual(
          ["k1", "k2", "k3", "k5", "k6", null].sort(),
        );
        if (ordered) expect(keys).toEqual(["k1", "k2", "k3", null, "k5", "k6"]);
        expect(answered(world).sort()).toEqual(["k1", "k3", "k5", "k6"]);
        expect(new Set(world.sent.slice(sent).map(({ line }) => line))).toEqual(new Set([5]));
      }
    },
    120_000,
  );

  it("is made good by the same command without the option, too", async () => {
    let opened = 0;
    for (let operation = 1; operation <= 30; operation += 1) {
      const world = await failed();
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      world.disk.crashAtOperation(operation, { powerCut: true });
      const run = engine.run(INPUT, { ...AGAIN, sla: 1 });
      run.finished.catch(() => undefined);
      await world.clock.settle();
      process.kill();
      world.kill({ powerCut: true, random: createRandom(operation) });
      const summary = await finish(world, { ...OPTIONS, sla: 1 });
      const { completed, failed: permanent, expired } = summary.counts;
      expect([completed, permanent + expired], `operation ${operation}`).toEqual(
        completed === 4 ? [4, 2] : [3, 3],
      );
      if (completed === 4) opened += 1;
      expect(keysOf(world).sort(), `operation ${operation}`).toEqual(
        ["k1", "k2", "k3", "k5", "k6", null].sort(),
      );
    }
    expect(opened).toBeGreaterThan(0);
  }, 120_000);
});
