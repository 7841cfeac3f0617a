/** Outputs that were moved, cut, changed or copied behind a run: a right output, or a message that names the way on. */
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OpenedEngine } from "../../src/engine/engine.ts";
import { combineCrc32 } from "../../src/engine/journal/checksum.ts";
import { repairTask } from "../../src/engine/reopening/found_task.ts";
import { hasCode, PerigeeError } from "../../src/errors.ts";
import { createRandom } from "../../src/testing/random.ts";
import { INPUT, mortal, OUTPUT, World } from "./world.ts";

const COUNT = 8; // each kill is at one more operation, and a line has several

async function run(world: World, out = OUTPUT, options: { readonly ordered?: boolean } = {}) {
  const engine = await world.engine();
  try {
    return await world.settle(engine.run(INPUT, { out, ...options }).finished);
  } finally {
    await world.settle(engine.close());
  }
}

async function refused(
  world: World,
  out = OUTPUT,
  options: { readonly ordered?: boolean } = {},
): Promise<string> {
  const error = await run(world, out, options).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof PerigeeError) || !hasCode(error, "output_changed"))
    throw new Error(`not refused: ${error}`);
  return error.message;
}

async function done(options: { readonly ordered?: boolean } = {}): Promise<World> {
  const world = new World({ config: { maxInFlight: 2 } });
  world.input(COUNT);
  await run(world, OUTPUT, options);
  expect(world.sent).toHaveLength(COUNT);
  return world;
}

function expectWhole(world: World, out = OUTPUT): void {
  const answers = world.output(out);
  expect(answers.map(({ key }) => key).sort()).toEqual(
    Array.from({ length: COUNT }, (_, index) => `k${index + 1}`).sort(),
  );
  for (const { key, output } of answers) expect(output?.text).toBe(`answer ${key?.slice(1)}`);
}

/** As Python's json writes it. */
function respaced(text: string): string {
  const lines = text.trimEnd().split("\n");
  return lines.map((line) => `${line.replaceAll('":', '": ').replaceAll(',"', ', "')}\n`).join("");
}

const textOf = (world: World): string => world.disk.text(OUTPUT) ?? "";

describe.each([[false], [true]])("a finished output (ordered: %s)", (ordered) => {
  const options = { ordered };

  it.each([
    ["cut in the middle of a line", (text: string) => text.slice(0, -100), 3],
    ["changed in one byte", (text: string) => text.replace("answer 7", "answer 8"), 1],
    ["with its first line removed", (text: string) => text.slice(text.indexOf("\n") + 1), 1],
    [
      "sorted by another program",
      (text: string) => `${text.trimEnd().split("\n").reverse().join("\n")}\n`,
      0,
    ],
    ["appended to", (text: string) => `${text}{"key":"x"}\n`, 0],
    ["emptied", () => "", COUNT],
    ["converted to CRLF line ends", (text: string) => text.replaceAll("\n", "\r\n"), 0],
    ["given a byte order mark", (text: string) => `\ufeff${text}`, 0],
    ["saved without its last line end", (text: string) => text.trimEnd(), 0],
    ["saved with blank lines at its end", (text: string) => `${text}\n\r\n\n`, 0],
    ["written again as JSON by another program", respaced, 0],
    ["saved as UTF-16 with a mark", (text: string) => Buffer.from(`\ufeff${text}`, "utf16le"), 0],
    ["saved as UTF-16 without a mark", (text: string) => Buffer.from(text, "utf16le"), 0],
    ["saved as big-endian UTF-16", (text: string) => Buffer.from(`\ufeff${text}`, "utf16le").swap16(), 0],
  ])(
    "%s is refused once, then written again with only the lost lines asked for",
    async (_what, change, lostMax) => {
      const world = await done(options);
      world.disk.put(OUTPUT, change(textOf(world)));
      const changed = textOf(world);
      expect(await refused(world, OUTPUT, options)).toContain("call run again with the same options");
      expect(textOf(world)).toBe(changed);
      expect(world.sent).toHaveLength(COUNT);
      expect(await run(world, OUTPUT, options)).toMatchObject({
        status: "completed",
        counts: { completed: COUNT },
      });
      expectWhole(world);
      expect(world.sent.length - COUNT).toBeLessThanOrEqual(lostMax);
      expect(await run(world, OUTPUT, options)).toMatchObject({ requests_sent: 0 });
    },
  );

  it.each([
    ["has CRLF line ends now", (text: string) => text.replaceAll("\n", "\r\n")],
    ["begins with a byte order mark now", (text: string) => `\ufeff${text}`],
    ["is UTF-16 text now", (text: string) => Buffer.from(`\ufeff${text}`, "utf16le")],
  ])("is refused with what was done to it: it %s", async (found, change) => {
    const world = await done(options);
    const sizeBytes = textOf(world).length;
    const changed = Buffer.from(change(textOf(world)));
    world.disk.put(OUTPUT, changed);
    expect(await refused(world, OUTPUT, options)).toBe(
      `${OUTPUT} has ${changed.length} bytes instead of ${sizeBytes}: it ${found}; put it back, or call run again with the same options to rewrite it from the lines that are left and request only the missing answers`,
    );
    await run(world, OUTPUT, options);
    expect(world.disk.paths.filter((path) => path.startsWith(OUTPUT))).toEqual([OUTPUT]);
  });

  it("that was moved away is refused once, then requested again", async () => {
    const world = await done(options);
    await world.settle(world.disk.rename(OUTPUT, "/rotated.jsonl"));
    expect(await refused(world, OUTPUT, options)).toBe(
      `${OUTPUT} does not exist: it was moved or deleted, with ${COUNT} lines (0 left); put it back, or call run again with the same options to request all ${COUNT} again`,
    );
    await world.settle(world.disk.rename("/rotated.jsonl", OUTPUT));
    expect(await run(world, OUTPUT, options)).toMatchObject({ status: "completed", requests_sent: 0 });
    expectWhole(world);
  });

  it.each([
    [".gz", "gunzip"],
    [".zst", "unzstd --rm"],
    [".bz2", "bunzip2"],
    [".xz", "unxz"],
  ])("that was replaced by a compressed %s file is refused with how to unpack it", async (ending, unpack) => {
    const world = await done(options);
    await world.settle(world.disk.rename(OUTPUT, `${OUTPUT}${ending}`));
    expect(await refused(world, OUTPUT, options)).toBe(
      `${OUTPUT} does not exist: it was moved or deleted, with ${COUNT} lines (0 left); ${OUTPUT.slice(1)}${ending} exists in its folder: unpack it (${unpack} ${OUTPUT}${ending}); otherwise put it back, or call run again with the same options to request all ${COUNT} again`,
    );
    await world.settle(world.disk.rename(`${OUTPUT}${ending}`, OUTPUT));
    expect(await run(world, OUTPUT, options)).toMatchObject({ status: "completed", requests_sent: 0 });
  });

  it("that holds what the run did not write is kept beside the new one", async () => {
    const world = await done(options);
    world.disk.put(OUTPUT, `mine\n${textOf(world)}`);
    await refused(world, OUTPUT, options);
    await run(world, OUTPUT, options);
    expectWhole(world);
    expect(world.disk.text(`${OUTPUT}.damaged`)).toContain("mine\n");
  });

  it("that was refused and put back is not changed", async () => {
    const world = await done(options);
    const text = textOf(world);
    world.disk.put(OUTPUT, `mine\n${text}`);
    await refused(world, OUTPUT, options);
    world.disk.put(OUTPUT, text);
    expect(await run(world, OUTPUT, options)).toMatchObject({ status: "completed", requests_sent: 0 });
    expect(textOf(world)).toBe(text);
    world.disk.put(OUTPUT, `mine\n${text}`);
    await refused(world, OUTPUT, options);
  });

  it("that is damaged several times is kept each time under a name of its own", async () => {
    const world = await done(options);
    for (const mine of ["first", "second", "third"]) {
      world.disk.put(OUTPUT, `${mine}\n${textOf(world)}`);
      await refused(world, OUTPUT, options);
      await run(world, OUTPUT, options);
      expectWhole(world);
    }
    expect(world.disk.text(`${OUTPUT}.damaged`)).toContain("first\n");
    expect(world.disk.text(`${OUTPUT}.damaged.2`)).toContain("second\n");
    expect(world.disk.text(`${OUTPUT}.damaged.3`)).toContain("third\n");
    expect(world.sent).toHaveLength(COUNT);
  });

  it("is found under another path, with its data folder", async () => {
    const world = await done(options);
    world.disk.put("/elsewhere/out.jsonl", textOf(world));
    await world.settle(world.disk.remove(OUTPUT));
    expect(await run(world, "/elsewhere/out.jsonl", options)).toMatchObject({
      status: "completed",
      requests_sent: 0,
      output: "/elsewhere/out.jsonl",
    });
  });
});

describe.each([
  ["a kill", false],
  ["a power cut", true],
])("%s at any moment while an output is written again", (_what, powerCut) => {
  /** Stray content and lines in another order: the changed file is moved aside. */
  async function changed(ordered: boolean): Promise<World> {
    const world = await done({ ordered });
    world.disk.put(OUTPUT, `mine\n${textOf(world).trimEnd().split("\n").reverse().join("\n")}\n`);
    return world;
  }

  /** Begins `work` in a process that dies at the operation; whether it was over before. */
  async function killedAt(
    world: World,
    operation: number,
    work: (opened: OpenedEngine) => Promise<unknown>,
  ): Promise<boolean> {
    const process = mortal(world.clock);
    const opened = await world.opened(process.clock);
    world.disk.crashAtOperation(operation, { powerCut });
    let isOver = false;
    work(opened).then(
      () => {
        isOver = true;
      },
      () => undefined,
    );
    await world.clock.settle();
    process.kill();
    world.kill({ powerCut, random: createRandom(operation) });
    return isOver;
  }

  it.each([false, true])(
    "leaves the same call able to end without a request (ordered: %s)",
    async (ordered) => {
      for (let operation = 1; ; operation += 1) {
        const world = await changed(ordered);
        await refused(world, OUTPUT, { ordered });
        const isOver = await killedAt(
          world,
          operation,
          ({ engine }) => engine.run(INPUT, { out: OUTPUT, ordered }).finished,
        );
        expect(await run(world, OUTPUT, { ordered }), `operation ${operation}`).toMatchObject({
          status: "completed",
          counts: { completed: COUNT },
        });
        expectWhole(world);
        expect(world.sent, `operation ${operation}`).toHaveLength(COUNT);
        expect(world.disk.text(`${OUTPUT}.damaged`)).toContain("mine\n");
        if (isOver) return;
      }
    },
    120_000,
  );

  it.each([false, true])(
    "leaves a repair to be made again, which asks for nothing (ordered: %s)",
    async (ordered) => {
      const repair = async ({ core }: OpenedEngine): Promise<unknown> => {
        const task = await core.storage.store.taskByName(`out:${OUTPUT}`);
        return task === undefined ? undefined : repairTask(core, task);
      };
      for (let operation = 1; ; operation += 1) {
        const world = await changed(ordered);
        const isOver = await killedAt(world, operation, repair);
        if (!isOver) await killedAt(world, operation + 2, repair);
        const opened = await world.opened();
        expect(await world.settle(repair(opened)), `operation ${operation}`).toMatchObject({
          kept: COUNT,
          lost: 0,
        });
        await world.settle(opened.engine.close());
        await run(world, OUTPUT, { ordered });
        expectWhole(world);
        expect(world.sent, `operation ${operation}`).toHaveLength(COUNT);
        if (isOver) return;
      }
    },
    120_000,
  );
});

describe("a run at work", () => {
  it.each([
    ["cut", (text: string) => text.slice(0, 40)],
    ["replaced by an empty file", () => ""],
    ["changed", (text: string) => text.replace("answer", "ANSWER")],
  ])(
    "whose output is %s meanwhile does not say that it is done, and the same call mends it",
    async (_what, change) => {
      const world = new World({ config: { maxInFlight: 1 }, latencyMs: 100 });
      world.input(COUNT);
      const engine = await world.engine();
      const work = engine.run(INPUT, { out: OUTPUT });
      await world.clock.advance(550);
      const file = await world.disk.open(OUTPUT, "write");
      const text = change(textOf(world));
      await world.settle(file.truncate(0).then(() => file.write(Buffer.from(text), 0)));
      await file.close();
      const error = await world.settle(work.finished.catch((thrown: unknown) => thrown));
      expect(error).toMatchObject({ code: "output_changed" });
      await world.settle(engine.close());
      const before = world.sent.length;
      expect(before).toBe(COUNT);
      await run(world);
      expectWhole(world);
      expect(world.sent.length - before).toBeLessThanOrEqual(6);
    },
  );

  it.each([
    ["converted to CRLF line ends", (text: string) => text.replaceAll("\n", "\r\n")],
    ["given a byte order mark", (text: string) => `\ufeff${text}`],
    ["saved without its last line end", (text: string) => text.trimEnd()],
    ["saved as UTF-16", (text: string) => Buffer.from(text, "utf16le")],
    ["sorted", (text: string) => `${text.trimEnd().split("\n").reverse().join("\n")}\n`],
  ])("that was stopped, and whose output was %s, asks for no answer again", async (_what, change) => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 100 });
    world.input(COUNT);
    const engine = await world.engine();
    const work = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(550);
    work.stop();
    await world.settle(engine.close());
    world.disk.put(OUTPUT, change(textOf(world)));
    await run(world).catch((error: unknown) => expect(error).toMatchObject({ code: "output_changed" }));
    await run(world);
    expectWhole(world);
    expect(world.sent).toHaveLength(COUNT);
  });

  it("keeps what a damaged answer has cost when its output is written again before it is answered again", async () => {
    const prices = { "alpha:*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 5_000 } }; // 0.035 USD an answer
    const world = new World({ config: { maxInFlight: 1, prices }, latencyMs: 100 });
    world.input(COUNT);
    const engine = await world.engine();
    engine.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
    await world.clock.advance(650);
    world.kill();
    world.disk.put(OUTPUT, textOf(world).slice(0, -20)); // as a power cut leaves the last range
    const sent = world.sent.length;
    world.reconfigure({ limits: { alpha: { requestsPerMinute: 2 } } }); // so that the second process sends nothing
    const second = await world.engine();
    second.run(INPUT, { out: OUTPUT }).finished.catch(() => undefined);
    await world.clock.advance(50);
    world.kill();
    expect(world.sent).toHaveLength(sent);
    const answered = world.output().length;
    world.disk.put(OUTPUT, textOf(world).replaceAll("\n", "\r\n"));
    await run(world).catch((error: unknown) => expect(error).toMatchObject({ code: "output_changed" }));
    const { cost } = await run(world);
    expectWhole(world);
    // The damaged answer was paid for; of the one under way at the kill nobody knows.
    expect(world.sent.length).toBeGreaterThan(COUNT);
    expect(cost.billed_usd).toBeCloseTo(0.035 * (COUNT + 1), 6);
    expect(answered).toBeGreaterThan(2);
  });

  it("that was stopped finds its output under another path", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 100 });
    world.input(COUNT);
    const engine = await world.engine();
    const work = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(550);
    work.stop();
    await world.settle(engine.close());
    const before = world.sent.length;
    world.disk.put("/elsewhere/out.jsonl", textOf(world));
    await world.settle(world.disk.remove(OUTPUT));
    await run(world, "/elsewhere/out.jsonl");
    expectWhole(world, "/elsewhere/out.jsonl");
    expect(world.sent).toHaveLength(COUNT);
    expect(before).toBeGreaterThan(2);
  });

  it("ends with the input that it began with, although lines are appended to it meanwhile", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 100 });
    world.input(COUNT);
    const input = world.disk.text(INPUT) ?? "";
    const engine = await world.engine();
    const work = engine.run(INPUT, { out: OUTPUT });
    await world.clock.advance(150);
    const file = await world.disk.open(INPUT, "write");
    await file.write(Buffer.from(input.replaceAll('"k', '"more')), input.length);
    await file.close();
    expect(await world.settle(work.finished)).toMatchObject({ status: "completed", items: COUNT });
    expectWhole(world);
  });
});

describe("the checksum of two pieces", () => {
  it("is that of the whole", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array({ maxLength: 3_000 }), (first, second) => {
        const whole = crc32(Buffer.concat([first, second]));
        expect(combineCrc32(crc32(Buffer.from(first)), crc32(Buffer.from(second)), second.length)).toBe(
          whole,
        );
      }),
    );
  });
});
