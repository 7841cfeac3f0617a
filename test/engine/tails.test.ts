/** Lines after the last step of an unfinished output: own answers are used, lines of others are kept in a file beside it. */
import { describe, expect, it } from "vitest";
import type { OpenedEngine } from "../../src/engine/engine.ts";
import type { Step } from "../../src/engine/journal/journal.ts";
import { repairTask } from "../../src/engine/reopening/found_task.ts";
import { createRandom, openaiAnswer } from "../../src/testing/index.ts";
import { endOf, finish, killedAfter } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, status, World } from "./world.ts";

const COUNT = 6;
const DAMAGED = `${OUTPUT}.damaged`;

/** Three lines are answered and durable, three are in flight; then the process is killed. */
async function killed(): Promise<World> {
  const world = new World({ config: { maxInFlight: 3 }, latencyMs: 50 });
  world.input(COUNT);
  await killedAfter(world, 70);
  expect(keysOf(world)).toEqual(["k1", "k2", "k3"]);
  return world;
}

/** Three lines are answered, and nothing was under way when it stopped. */
async function stopped(options: { readonly ordered?: boolean } = {}): Promise<World> {
  const world = new World({ config: { maxInFlight: 3 }, latencyMs: 50 });
  world.input(COUNT);
  const engine = await world.engine();
  const run = engine.run(INPUT, { out: OUTPUT, ...options });
  await world.clock.advance(20);
  run.stop();
  await world.settle(run.finished);
  await world.settle(engine.close());
  expect(world.sent).toHaveLength(3);
  return world;
}

async function done(
  count = COUNT,
  options: object = {},
  source: () => string | Iterable<Uint8Array> = () => INPUT,
) {
  const world = new World({ config: { maxInFlight: 50 } });
  world.input(count);
  await finish(world, { out: OUTPUT, ...options }, source());
  expect(world.sent).toHaveLength(count);
  return world;
}

const text = (world: World, path = OUTPUT): string => world.disk.text(path) ?? "";
const keysOf = (world: World): (string | null)[] =>
  world
    .output()
    .map(({ key }) => key)
    .sort();
const allKeys = (count = COUNT): string[] =>
  Array.from({ length: count }, (_, index) => `k${index + 1}`).sort();
const sentSince = (world: World, before: number): number[] =>
  world.sent
    .slice(before)
    .map(({ line }) => line)
    .sort();
const besides = (world: World): string[] =>
  world.disk.paths.filter((path) => path.startsWith(OUTPUT) && path !== OUTPUT).sort();

const answerLine = (line: number, answer = `answer ${line}`): string =>
  `{"key":"k${line}","output":{"type":"text","text":"${answer}"}}\n`;
const errorLine = (key: string | null, line: number, code: string): string =>
  `${JSON.stringify({ key, ...(key === null ? { line } : {}), output: null, error: { code, message: "m", retryable: false, attempts: 0, ambiguous_attempts: 0, line } })}\n`;

const okAgain = (line: number) => openaiAnswer(`again ${line}`, { inputTokens: 10, outputTokens: 5 });
const refusal = () => status(400, "refused");

function append(world: World, more: string | Uint8Array): void {
  world.disk.put(OUTPUT, Buffer.concat([Buffer.from(text(world)), Buffer.from(more)]));
}

const repair = async ({ core }: OpenedEngine): Promise<unknown> => {
  const task = await core.storage.store.taskByName(`out:${OUTPUT}`);
  return task === undefined ? undefined : repairTask(core, task);
};

async function repaired(world: World): Promise<void> {
  const opened = await world.opened();
  await world.settle(repair(opened));
  await world.settle(opened.engine.close());
}

describe("lines that another program appended to an unfinished output", () => {
  it.each([
    ["no JSON", "mine\n"],
    ["JSON of another kind", '{"mine":1}\n[2]\n'],
    ["a key that is not in the input", answerLine(77)],
    ["another answer for a key that is answered", answerLine(2, "mine")],
    ["an error whose code this engine does not write", errorLine("k5", 5, "mine")],
    ["an error that names another line than that of its key", errorLine("k5", 4, "provider_error")],
    ["an error without a key, of a line that has one", errorLine(null, 5, "invalid_json")],
    ["an error without a key, of no line", errorLine(null, 4_000_000_000, "invalid_json")],
    ["CRLF line ends", "mine\r\nmine too\r\n"],
    ["UTF-16, as PowerShell appends it", Buffer.from("mine\r\n", "utf16le")],
    ["no line end", "mine"],
  ])("are kept beside it, and a message says where: %s", async (_what, mine) => {
    for (const begin of [killed, stopped]) {
      const world = await begin();
      append(world, mine);
      expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
      expect(keysOf(world)).toEqual(allKeys());
      expect(Buffer.from(world.disk.bytes(DAMAGED) ?? []).toString("latin1")).toBe(
        Buffer.from(mine).toString("latin1"),
      );
      expect(besides(world)).toEqual([DAMAGED]);
      expect(world.notices).toHaveLength(1);
      expect(world.notices[0]).toContain(`${OUTPUT} held `);
      expect(world.notices[0]).toContain(DAMAGED);
    }
  });

  it("are kept with the torn line that they were appended to", async () => {
    const world = await killed();
    append(world, '{"key":"k4","output":{"tymine\nmine too\n');
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
    expect(keysOf(world)).toEqual(allKeys());
    expect(text(world, DAMAGED)).toBe('{"key":"k4","output":{"tymine\nmine too\n');
    expect(world.notices[0]).toContain("2 lines");
  });

  it("are kept each time under a name of their own", async () => {
    const world = await killed();
    append(world, "first\n");
    await killedAfter(world, 20);
    append(world, "second\n");
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
    expect(text(world, DAMAGED)).toBe("first\n");
    expect(text(world, `${DAMAGED}.2`)).toBe("second\n");
  });

  it("do not hide answers that follow them, which are not requested again", async () => {
    const world = await killed();
    const before = world.sent.length;
    append(world, `${answerLine(4)}mine\n${answerLine(5)}\n{"key":"k6","outp`);
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
    expect(keysOf(world)).toEqual(allKeys());
    expect(sentSince(world, before)).toEqual([6]);
    expect(text(world, DAMAGED)).toContain("mine\n");
  });

  it("are dropped when they are blank, recorded already, or a gap that a power cut left", async () => {
    for (const more of ["\n\r\n \n", "same", `\0\0\0\0\0\0ngth"}}\n`, `{"key":"k4","ou\0\0\0\0"}}\n`]) {
      const world = await killed();
      append(world, more === "same" ? text(world) : more);
      expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
      expect(keysOf(world)).toEqual(allKeys());
      expect(besides(world)).toEqual([]);
      expect(world.notices).toEqual([]);
    }
  });

  it("are kept by a retry of failed lines, and by an update, which write the output again", async () => {
    const world = await stopped();
    append(world, "mine\n");
    await finish(world, { out: OUTPUT, retryFailed: true });
    expect(text(world, DAMAGED)).toBe("mine\n");
    const other = await stopped();
    append(other, "mine\n");
    other.input(COUNT + 1);
    expect(await finish(other, { out: OUTPUT, update: true })).toMatchObject({
      counts: { completed: COUNT + 1 },
    });
    expect(text(other, DAMAGED)).toBe("mine\n");
    expect(other.sent).toHaveLength(COUNT + 1);
  });

  it("wait for room when the disk is full, and nothing is cut before", async () => {
    const world = await killed();
    append(world, `mine\n${"x".repeat(300)}\n`);
    const before = text(world);
    world.disk.setFull(20);
    const run = (await world.engine()).run(INPUT, { out: OUTPUT });
    await world.clock.advance(5_000);
    expect(text(world)).toBe(before);
    world.disk.setFull(Number.POSITIVE_INFINITY);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: COUNT } });
    expect(text(world, DAMAGED)).toBe(`mine\n${"x".repeat(300)}\n`);
  });
});

describe("answers that another program appended to an unfinished output", () => {
  it("are used if their keys are open, whether requests were under way or not", async () => {
    const world = await stopped();
    append(world, answerLine(6) + answerLine(4).trimEnd());
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT }, requests_sent: 1 });
    expect(keysOf(world)).toEqual(allKeys());
    expect(besides(world)).toEqual([]);
    expect(world.notices).toEqual([]);
  });

  it("count once for a key: the first stays, another one is kept beside the output", async () => {
    const world = await stopped();
    append(world, answerLine(5, "first") + answerLine(5, "second") + answerLine(5, "first"));
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT }, requests_sent: 2 });
    expect(keysOf(world)).toEqual(allKeys());
    expect(world.output().find(({ key }) => key === "k5")?.output?.text).toBe("first");
    expect(text(world, DAMAGED)).toContain("second");
  });

  it("may have CRLF line ends, which the output does not get", async () => {
    const world = await stopped();
    append(world, (answerLine(5) + answerLine(6)).replaceAll("\n", "\r\n"));
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT }, requests_sent: 1 });
    expect(text(world)).not.toContain("\r");
    expect(besides(world)).toEqual([]);
  });

  it("are errors as well: of a key, and of a line that has none, of which a kill left no record", async () => {
    const faulty = itemLine(3).replace('"max_output_tokens":16', '"temperature":"hot"');
    let unrecorded = 0;
    for (let operation = 1; operation <= 40; operation += 1) {
      const world = new World({ config: { maxInFlight: 1 }, latencyMs: 50 });
      world.disk.put(INPUT, `${itemLine(1)}nonsense\n${faulty}`);
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      world.disk.crashAtOperation(operation, { powerCut: false, random: () => 0.999_999 }); // all but the last byte is written
      void engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
      await world.clock.settle();
      process.kill();
      world.kill();
      const left = text(world);
      if (left.includes('"invalid_config"') && left.endsWith("}}")) unrecorded += 1;
      expect(await finish(world), `operation ${operation}`).toMatchObject({
        counts: { completed: 1, failed: 2 },
      });
      expect(world.output().map(({ key, line }) => key ?? line)).toEqual([2, "k3", "k1"]);
      expect(text(world).startsWith(left), `operation ${operation}`).toBe(true);
      expect(besides(world)).toEqual([]);
      expect(world.notices).toEqual([]);
    }
    expect(unrecorded).toBeGreaterThan(0);
  });
});

describe("an answer of which a kill left no record", () => {
  it.each([
    ["converted to CRLF line ends", (before: string) => before.replaceAll("\n", "\r\n")],
    ["given a line of others at its start", (before: string) => `mine\n${before}`],
  ])("is not paid for again when the output was then %s and is rewritten", async (_what, change) => {
    const world = await killed();
    append(world, answerLine(5));
    world.disk.put(OUTPUT, change(text(world)));
    const before = world.sent.length;
    expect(await endOf(world, INPUT)).toMatchObject({ code: "output_changed" });
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
    expect(keysOf(world)).toEqual(allKeys());
    expect(sentSince(world, before)).toEqual([4, 6]);
  });
});

describe("the last answer of an unfinished output", () => {
  it("that was changed by hand is kept in a file beside it, and requested again", async () => {
    const world = await killed();
    const before = world.sent.length;
    world.disk.put(OUTPUT, text(world).replace("answer 3", "ANSWER 3"));
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
    expect(world.output().find(({ key }) => key === "k3")?.output?.text).toBe("answer 3");
    expect(sentSince(world, before)).toContain(3);
    expect(text(world, DAMAGED)).toContain("ANSWER 3");
    expect(world.notices).toHaveLength(1);
  });

  it("that is an error is requested again when someone replaced it with an answer by hand", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 50 });
    world.input(2);
    world.answer = (line) => (line === 1 ? refusal() : "hang");
    await killedAfter(world, 60);
    expect(text(world)).toContain('"error"');
    world.disk.put(OUTPUT, answerLine(1));
    world.answer = okAgain;
    expect(await finish(world)).toMatchObject({ counts: { completed: 2, failed: 0 }, requests_sent: 2 });
    expect(
      world
        .output()
        .map(({ output }) => output?.text)
        .sort(),
    ).toEqual(["again 1", "again 2"]);
    expect(text(world, DAMAGED)).toBe(answerLine(1));
  });
});

describe("an output that was moved away, repaired and put back", () => {
  it.each([
    ["as it was", (before: string) => before],
    ["with CRLF line ends", (before: string) => before.replaceAll("\n", "\r\n")],
    ["with a byte order mark", (before: string) => `\ufeff${before}`],
    ["without its last line end", (before: string) => before.trimEnd()],
    ["as UTF-16", (before: string) => Buffer.from(before, "utf16le")],
    ["in another order", (before: string) => `${before.trimEnd().split("\n").reverse().join("\n")}\n`],
  ])("is paid for once: %s", async (_how, change) => {
    for (const kind of ["file", "stream", "ordered"]) {
      const options = { out: OUTPUT, ordered: kind === "ordered" };
      const stream = (): Iterable<Uint8Array> =>
        allKeys().map((_, index) => Buffer.from(itemLine(index + 1)));
      const source = (): string | Iterable<Uint8Array> => (kind === "stream" ? stream() : INPUT);
      const world = await done(COUNT, options, source);
      const before = text(world);
      await world.settle(world.disk.remove(OUTPUT));
      await repaired(world);
      world.disk.put(OUTPUT, change(before));
      expect(await finish(world, options, source()), kind).toMatchObject({
        counts: { completed: COUNT },
        requests_sent: 0,
      });
      expect(keysOf(world)).toEqual(allKeys());
      expect(world.sent).toHaveLength(COUNT);
      expect(besides(world), kind).toEqual([]);
      expect(world.notices).toEqual([]);
    }
  });

  it("keeps what it has cost", async () => {
    const world = new World({
      config: { prices: { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } } },
    });
    world.input(COUNT);
    const { cost, usage } = await finish(world);
    const before = text(world);
    await world.settle(world.disk.remove(OUTPUT));
    await repaired(world);
    world.disk.put(OUTPUT, before);
    const again = await finish(world);
    expect(again.cost.billed_usd).toBeCloseTo(cost.billed_usd, 9);
    expect(again.usage).toMatchObject({ attempts: usage.attempts, output_tokens: usage.output_tokens });
  });

  it("keeps the lines of others that were in it, and answers changed lines again", async () => {
    for (const ordered of [false, true]) {
      const options = { out: OUTPUT, ordered };
      const world = await done(COUNT, options);
      const before = text(world);
      await world.settle(world.disk.remove(OUTPUT));
      await repaired(world);
      world.disk.put(OUTPUT, `mine\n${before.replace("answer 2", "ANSWER 2")}`);
      expect(await finish(world, options)).toMatchObject({ counts: { completed: COUNT }, requests_sent: 1 });
      expect(world.output().find(({ key }) => key === "k2")?.output?.text).toBe("answer 2");
      expect(text(world, DAMAGED)).toContain("mine\n");
      expect(text(world, DAMAGED)).toContain("ANSWER 2");
      expect(world.notices).toHaveLength(1);
      expect(besides(world)).toEqual([DAMAGED]);
    }
  });

  it("is paid for once also when answers were requested again before", async () => {
    const world = await done();
    const before = text(world);
    await world.settle(world.disk.remove(OUTPUT));
    await repaired(world);
    world.answer = () => "hang";
    await killedAfter(world, 20); // all are under way again, and not one is answered
    world.disk.put(OUTPUT, before);
    const sent = world.sent.length;
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
    expect(world.sent).toHaveLength(sent);
  });

  it("is paid for once also when some answers were written to the new one, and it is refused first", async () => {
    const world = await done();
    const before = text(world);
    await world.settle(world.disk.remove(OUTPUT));
    await repaired(world);
    world.reconfigure({ maxInFlight: 1 });
    world.answer = (line) => ({ afterMs: 50, result: okAgain(line) });
    await killedAfter(world, 120);
    expect(text(world)).toContain("again");
    world.disk.put(OUTPUT, before);
    const sent = world.sent.length;
    expect(await endOf(world, INPUT)).toMatchObject({ code: "output_changed" });
    expect(await finish(world)).toMatchObject({ counts: { completed: COUNT } });
    expect(keysOf(world)).toEqual(allKeys());
    expect(world.sent).toHaveLength(sent);
  });

  it("of thousands of lines is taken in steps of bounded size", async () => {
    const count = 4_500; // more than a step may have
    const world = await done(count);
    const before = text(world);
    await world.settle(world.disk.remove(OUTPUT));
    await repaired(world);
    for (const foreign of ["", "mine\n"]) {
      world.disk.put(OUTPUT, foreign + before);
      const steps: Step[] = [];
      const onStep = (_: number, step: Step): void => void steps.push(step);
      expect(await finish(world, { out: OUTPUT, onStep })).toMatchObject({
        requests_sent: 0,
        counts: { completed: count },
      });
      expect(Math.max(...steps.map(({ outcomes }) => outcomes.length))).toBeLessThanOrEqual(4_096);
      expect(steps.flatMap(({ outcomes }) => outcomes)).toHaveLength(count);
      if (foreign === "") {
        await world.settle(world.disk.remove(OUTPUT));
        await repaired(world);
      }
    }
    expect(keysOf(world)).toEqual(allKeys(count));
  }, 60_000);
});

describe("an older output that is put back", () => {
  it("does not take back a retry: its errors are answered again", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(3);
    world.answer = (line) => (line === 3 ? refusal() : okAgain(line));
    await finish(world);
    const before = text(world);
    expect(before).toContain('"error"');
    world.reconfigure({ limits: { alpha: { requestsPerMinute: 1 } } }); // nothing is sent in the next minute
    const process = mortal(world.clock);
    const engine = await world.engine(process.clock);
    void engine.run(INPUT, { out: OUTPUT, retryFailed: ["invalid_request"] }).finished;
    await world.clock.advance(20);
    process.kill();
    world.kill();
    expect(keysOf(world)).toEqual(["k1", "k2"]);
    world.disk.put(OUTPUT, before);
    world.answer = okAgain;
    expect(await finish(world)).toMatchObject({ counts: { completed: 3, failed: 0 } });
  });

  it("does not answer a changed line with the answer of the line that it was", async () => {
    const world = await done(3);
    const before = text(world);
    world.disk.put(INPUT, itemLine(1) + itemLine(2) + itemLine(30).replace('"k30"', '"k3"'));
    world.reconfigure({ limits: { alpha: { requestsPerMinute: 1 } } }); // nothing is sent in the next minute
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, { out: OUTPUT, update: true }).finished;
    await world.clock.advance(20);
    process.kill();
    world.kill();
    expect(keysOf(world)).toEqual(["k1", "k2"]);
    world.disk.put(OUTPUT, before);
    expect(await finish(world)).toMatchObject({ counts: { completed: 3 } });
    expect(world.output().find(({ key }) => key === "k3")?.output?.text).toBe("answer 30");
    expect(text(world, DAMAGED)).toContain("answer 3");
  });
});

describe.each([
  ["a kill", false],
  ["a power cut", true],
])("%s at any operation while lines of others are set aside", (_what, powerCut) => {
  it.each([
    [
      "after a kill",
      killed,
      `${answerLine(4)}mine\n${answerLine(5).replace("\n", "\r\n")}{"key":"k6","ou`,
      ["mine\n"],
      [6],
    ],
    ["after a repair", putBack, "", ["mine\n"], []],
  ] as const)(
    "loses no line and pays for no answer again: %s",
    async (_when, begin, more, kept, asked) => {
      for (let operation = 1; ; operation += 1) {
        const world = await begin();
        if (more !== "") append(world, more);
        const before = world.sent.length;
        const process = mortal(world.clock);
        const engine = await world.engine(process.clock);
        world.answer = () => "hang";
        world.disk.crashAtOperation(operation, { powerCut, random: createRandom(operation) });
        let isOver = false;
        const over = (): void => {
          isOver = true;
        };
        engine.run(INPUT, { out: OUTPUT }).finished.then(over, () => undefined);
        await world.clock.settle();
        if (world.sent.length > before) over();
        process.kill();
        world.kill({ powerCut, random: createRandom(operation) });
        world.answer = okAgain;
        const sent = world.sent.length;
        expect(await finish(world), `operation ${operation}`).toMatchObject({ counts: { completed: COUNT } });
        expect(keysOf(world), `operation ${operation}`).toEqual(allKeys());
        expect(sentSince(world, sent), `operation ${operation}`).toEqual(asked);
        for (const line of kept) expect(text(world, DAMAGED), `operation ${operation}`).toContain(line);
        expect(besides(world), `operation ${operation}`).toEqual([DAMAGED]);
        if (isOver) return;
      }
    },
    120_000,
  );
});

/** Moved away, repaired, and put back with a line of another program. */
async function putBack(): Promise<World> {
  const world = await done();
  const before = text(world);
  await world.settle(world.disk.remove(OUTPUT));
  await repaired(world);
  world.disk.put(
    OUTPUT,
    `${before.slice(0, before.indexOf("\n") + 1)}mine\n${before.slice(before.indexOf("\n") + 1)}`,
  );
  return world;
}
