/**
 * Items that name files in place of their content: read when they are sent, or the item ends by itself.
 */
import { describe, expect, it } from "vitest";
import type { Buckets } from "../../src/engine/media/media_places.ts";
import { ObjectFault } from "../../src/s3/s3_objects.ts";
import type { Item, LineItem } from "../../src/work/item.ts";
import { INPUT, itemLine, OUTPUT, ok, World, type WorldOptions } from "./world.ts";

const FOLDER = "/data-in";
const SOURCE = `${FOLDER}/in.jsonl`;
const PICTURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 1, 2, 3, 4, 5, 6]);

function mediaLine(line: number, file: object, text = "hello"): string {
  const parts = [{ text: `[[${line}]] ${text}` }, { file_data: file }];
  const request = { model: "alpha:m1", contents: [{ parts }], generation_config: { max_output_tokens: 16 } };
  return `${JSON.stringify({ key: `k${line}`, request })}\n`;
}

/** The pictures of each request, by its line. */
function worldOf(options: WorldOptions = {}) {
  const pictures = new Map<number, (string | undefined)[]>();
  const { answer = (line) => ok(line) } = options;
  const world = new World({
    readsLocalFiles: true,
    ...options,
    answer: (line, attempt, model, body, origin) => {
      const { messages } = body as {
        messages: { content: string | { image_url?: { url: string }; file?: { file_data: string } }[] }[];
      };
      const { content } = messages[0] as (typeof messages)[number];
      const parts = typeof content === "string" ? [] : content.slice(1);
      pictures.set(
        line,
        parts.map(({ image_url, file }) => image_url?.url ?? file?.file_data),
      );
      return answer(line, attempt, model, body, origin);
    },
  });
  return { world, pictures };
}

const dataOf = (bytes: Uint8Array, mimeType = "image/png") =>
  `data:${mimeType};base64,${Buffer.from(bytes).toString("base64")}`;

/** A call for a path fails until a moment of the world's clock. */
function failsUntil(
  world: World,
  { path, call, code }: { path: string; call: "open" | "stat" | "read"; code: string },
  untilMs: number,
): void {
  const { disk, clock } = world;
  const fault = (): Promise<never> => Promise.reject(Object.assign(new Error(code), { code }));
  const isFailing = (asked: string): boolean => asked === path && clock.nowMs() < untilMs;
  const open = disk.open.bind(disk);
  const stat = disk.stat.bind(disk);
  disk.stat = (asked) => (call === "stat" && isFailing(asked) ? fault() : stat(asked));
  disk.open = async (asked, mode) => {
    if (call === "open" && isFailing(asked)) return fault();
    const file = await open(asked, mode);
    if (call === "read" && isFailing(asked)) file.read = fault;
    return file;
  };
}

describe("an item that names a file of this machine", () => {
  it("is sent with its content, from the folder of the input", async () => {
    const { world, pictures } = worldOf();
    const names = [
      "cat.png",
      "sub/cat.png",
      "../cat.png",
      "/elsewhere/cat.png",
      "Katze (1) \u00e4\u201c.png",
    ];
    const paths = [`${FOLDER}/cat.png`, `${FOLDER}/sub/cat.png`, "/cat.png", "/elsewhere/cat.png"];
    for (const [index, path] of [...paths, `${FOLDER}/${names[4]}`].entries())
      world.disk.put(path, Buffer.concat([PICTURE, Buffer.alloc(index)]));
    world.disk.put(SOURCE, names.map((path, index) => mediaLine(index + 1, { path })).join(""));
    const engine = await world.engine();
    await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    expect(world.output().map(({ output }) => output?.text)).toHaveLength(5);
    for (const index of names.keys())
      expect(pictures.get(index + 1)).toEqual([dataOf(Buffer.concat([PICTURE, Buffer.alloc(index)]))]);
  });

  it("is never sent where such files may not be read, and says who reads them", async () => {
    const { world } = worldOf({ readsLocalFiles: false });
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    world.disk.put(SOURCE, mediaLine(1, { path: "cat.png" }) + mediaLine(2, { path: `${FOLDER}/cat.png` }));
    const engine = await world.engine();
    await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    expect(world.wire.ledger).toEqual([]);
    expect(world.output().map(({ error }) => error)).toMatchObject([
      {
        code: "media_unreadable",
        message: expect.stringContaining("only the library and the command read local files"),
      },
      { code: "media_unreadable" },
    ]);
  });

  it.each([
    ["is missing", undefined, /"cat.png" does not exist: \/data-in\/cat.png/],
    ["is empty", new Uint8Array(0), /"cat.png" is empty/],
    ["is too large", new Uint8Array(20 * 1024 * 1024 + 1), /has 20971521 bytes, at most 20971520 are sent/],
  ])("ends by itself, and holds no other, if the file %s", async (_, content, message) => {
    const { world } = worldOf();
    if (content !== undefined) world.disk.put(`${FOLDER}/cat.png`, content);
    const lines = Array.from({ length: 40 }, (__, index) =>
      index % 2 === 0 ? mediaLine(index + 1, { path: "cat.png" }) : itemLine(index + 1),
    );
    world.disk.put(SOURCE, lines.join(""));
    const engine = await world.engine();
    const summary = await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    expect(summary).toMatchObject({ counts: { completed: 20, failed: 20 } });
    expect(world.clock.nowMs()).toBeLessThan(1_000);
    expect(world.sent).toHaveLength(20);
    expect(engine.holds()).toEqual([]);
    for (const { error } of world.output().filter((line) => line.error !== undefined))
      expect(error).toMatchObject({ code: "media_unreadable", message: expect.stringMatching(message) });
  });

  it("can be run again when the file is back, after it was removed before its request was sent", async () => {
    const { world, pictures } = worldOf({
      config: { limits: { alpha: { concurrency: 1 } } },
      answer: (line) => ({ afterMs: 5_000, result: ok(line) }),
    });
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    world.disk.put(SOURCE, [1, 2].map((line) => mediaLine(line, { path: "cat.png" })).join(""));
    const engine = await world.engine();
    const run = engine.run(SOURCE, { out: OUTPUT });
    await world.clock.advance(1_000);
    expect(world.sent).toHaveLength(1);
    await world.disk.remove(`${FOLDER}/cat.png`);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 1, failed: 1 } });
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    const again = engine.run(SOURCE, { out: OUTPUT, retryFailed: ["media_unreadable"] });
    expect(await world.settle(again.finished)).toMatchObject({ counts: { completed: 2 } });
    expect(pictures.get(2)).toEqual([dataOf(PICTURE)]);
    expect(world.sent).toHaveLength(2);
  });

  it.each([
    ["open", "EMFILE"],
    ["open", "ENFILE"],
    ["stat", "EIO"],
    ["read", "EIO"],
    ["open", "EBUSY"],
  ] as const)(
    "waits while %s fails with %s for 20 minutes, and takes the lane for healthy",
    async (call, code) => {
      const { world, pictures } = worldOf();
      world.disk.put(`${FOLDER}/cat.png`, PICTURE);
      world.disk.put(
        SOURCE,
        [1, 2, 3].map((line) => mediaLine(line, { path: "cat.png" })).join("") + itemLine(4),
      );
      const engine = await world.engine();
      failsUntil(world, { path: `${FOLDER}/cat.png`, call, code }, 1_200_000);
      const run = engine.run(SOURCE, { out: OUTPUT });
      await world.clock.advance(60_000);
      expect(world.sent.map(({ line }) => line)).toEqual([4]);
      expect(engine.holds()).toEqual([]);
      expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 4 } });
      expect(world.clock.nowMs()).toBeGreaterThanOrEqual(1_200_000);
      expect(world.clock.nowMs()).toBeLessThan(1_200_000 + 40_000);
      expect(world.sent).toHaveLength(4);
      for (const line of [1, 2, 3]) expect(pictures.get(line)).toEqual([dataOf(PICTURE)]);
      expect(world.notices.length).toBeGreaterThan(0);
      expect(world.notices.length).toBeLessThan(22);
      expect(world.notices[0]).toBe(
        `the file "cat.png" cannot be read (${code}); lines that name files there are tried again until they can be read`,
      );
    },
  );

  it("ends when it could not be read for half an hour, with what the system said", async () => {
    const { world } = worldOf();
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    world.disk.put(SOURCE, mediaLine(1, { path: "cat.png" }));
    const engine = await world.engine();
    failsUntil(world, { path: `${FOLDER}/cat.png`, call: "stat", code: "EIO" }, Number.POSITIVE_INFINITY);
    await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(1_800_000);
    expect(world.clock.nowMs()).toBeLessThan(1_840_000);
    const message = 'the file "cat.png" cannot be read (EIO)';
    expect(world.output()).toMatchObject([{ error: { code: "media_unreadable", message, line: 1 } }]);
    expect(world.wire.ledger).toEqual([]);
  });

  it("ends at the deadline when the disk fails until then", async () => {
    const { world } = worldOf();
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    world.disk.put(SOURCE, mediaLine(1, { path: "cat.png" }));
    const engine = await world.engine();
    failsUntil(world, { path: `${FOLDER}/cat.png`, call: "read", code: "EIO" }, Number.POSITIVE_INFINITY);
    await world.settle(engine.run(SOURCE, { out: OUTPUT, sla: 1 }).finished);
    expect(world.clock.nowMs()).toBeLessThan(61_000);
    expect(world.output()).toMatchObject([
      { error: { code: "expired", message: expect.stringContaining("(EIO)") } },
    ]);
  });

  it("keeps few items waiting for the disk, however many the input has", async () => {
    const { world } = worldOf({ config: { maxInFlight: 4 } });
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    const lines = Array.from({ length: 400 }, (_, index) => mediaLine(index + 1, { path: "cat.png" }));
    world.disk.put(SOURCE, lines.join(""));
    const engine = await world.engine();
    failsUntil(world, { path: `${FOLDER}/cat.png`, call: "open", code: "EIO" }, 60_000);
    const run = engine.run(SOURCE, { out: OUTPUT });
    let most = 0;
    for (let second = 0; second < 60; second += 1) {
      await world.clock.advance(1_000);
      most = Math.max(most, run.progress().retrying);
    }
    expect(most).toBeGreaterThan(4);
    expect(most).toBeLessThan(100);
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 400 } });
  });

  it("is sent with its content after a kill and the same command", async () => {
    const { world, pictures } = worldOf({ answer: (line) => ({ afterMs: 5_000, result: ok(line) }) });
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    world.disk.put(SOURCE, [1, 2, 3].map((line) => mediaLine(line, { path: "cat.png" })).join(""));
    const engine = await world.engine();
    engine.run(SOURCE, { out: OUTPUT }).finished.catch(() => undefined);
    await world.clock.advance(1_000);
    world.kill();
    pictures.clear();
    const next = await world.engine();
    expect(await world.settle(next.run(SOURCE, { out: OUTPUT }).finished)).toMatchObject({
      counts: { completed: 3 },
    });
    expect([...pictures.values()]).toEqual([1, 2, 3].map(() => [dataOf(PICTURE)]));
  });

  it("is sent with its content after its bytes were dropped and read again", async () => {
    const { world, pictures } = worldOf({
      config: { maxInFlight: 4 },
      answer: (line) => ({ afterMs: 400, result: ok(line) }),
    });
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    const lines = Array.from({ length: 600 }, (_, index) =>
      index === 0
        ? itemLine(1, "beta:m1") // its lane has nothing more to do, so that all is read
        : mediaLine(index + 1, { path: "cat.png" }, "word ".repeat(6_000)),
    );
    world.disk.put(SOURCE, lines.join(""));
    const engine = await world.engine();
    const run = engine.run(SOURCE, { out: OUTPUT });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 600 } });
    pictures.delete(1);
    expect([...pictures.values()].every(([one]) => one === dataOf(PICTURE))).toBe(true);
    expect(pictures.size).toBe(599);
  }, 120_000);

  it("is read from the working folder where the items come from a program", async () => {
    const { world, pictures } = worldOf();
    world.disk.put(`${process.cwd()}/cat.png`, PICTURE);
    const engine = await world.engine();
    const item = JSON.parse(mediaLine(1, { path: "cat.png" })) as LineItem & { readonly request: unknown };
    await world.settle(engine.run([item], { out: OUTPUT }).finished);
    expect(pictures.get(1)).toEqual([dataOf(PICTURE)]);
    pictures.clear();
    const task = engine.submit([item.request as Item]);
    await world.settle(task.finished);
    expect(pictures.get(1)).toEqual([dataOf(PICTURE)]);
  });

  it("is in no batch, whatever those cost", async () => {
    const box = {
      baseUrl: "http://box.test/v1",
      key: "k",
      batches: { wire: "compatible", priceFactor: 0.3 },
    } as const;
    const config = {
      providers: { box },
      prices: { "box:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 4 } },
    };
    const { world } = worldOf({ allowsBatches: true, config });
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    const lines = Array.from({ length: 200 }, (_, index) =>
      mediaLine(index + 1, { path: "cat.png" }).replace("alpha:m1", "box:m1"),
    );
    world.disk.put(SOURCE, lines.join(""));
    const engine = await world.engine();
    const run = engine.run(SOURCE, { out: OUTPUT, sla: 1_440 });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 200 } });
    expect(new Set(world.wire.ledger.map(({ path }) => path))).toEqual(new Set(["/v1/chat/completions"]));
    expect(world.clock.nowMs()).toBeLessThan(3_600_000);
  });

  it("is not given to a provider in code", async () => {
    const { world } = worldOf({ config: { providers: { own: async () => ({ text: "yes" }) } } });
    world.disk.put(SOURCE, mediaLine(1, { path: "cat.png" }).replace("alpha:m1", "own:m1"));
    const engine = await world.engine();
    await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    expect(world.output()).toMatchObject([{ error: { code: "unsupported_request" } }]);
  });

  it("has a bound under a cap, by the largest file that is sent", async () => {
    const prices = { "openai:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } };
    const providers = { openai: { baseUrl: "http://alpha.test/v1", needsKey: false } };
    const { world } = worldOf({ config: { providers, prices } });
    world.disk.put(`${FOLDER}/a.pdf`, "%PDF");
    const line = mediaLine(1, { path: "a.pdf" }).replace("alpha:m1", "openai:gpt-5-mini");
    world.disk.put(SOURCE, line);
    const engine = await world.engine();
    const run = engine.run(SOURCE, { out: OUTPUT, maxCostUsd: 2 });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 1 } });
    world.disk.put(INPUT, line);
    const poor = engine.run(INPUT, { out: "/poor.jsonl", maxCostUsd: 0.5, finish: true });
    expect(await world.settle(poor.finished)).toMatchObject({ counts: { failed: 1 } });
    expect(world.output("/poor.jsonl")).toMatchObject([{ error: { code: "budget_exceeded" } }]);
  });
});

/** Objects in memory. */
function bucketsOf(
  contents: Readonly<Record<string, Uint8Array>>,
): Buckets & { fault: ObjectFault | undefined } {
  const found = (address: string): Uint8Array => {
    if (buckets.fault !== undefined) throw buckets.fault;
    const content = contents[address];
    if (content === undefined) throw new ObjectFault("there is no such object", "object");
    return content;
  };
  const buckets: Buckets & { fault: ObjectFault | undefined } = {
    fault: undefined,
    look: async (address) => ({ sizeBytes: found(address).byteLength, version: "1" }),
    async *read(address) {
      yield found(address);
    },
    close: () => undefined,
  };
  return buckets;
}

const s3Line = (line: number, address: string) => mediaLine(line, { file_uri: address });

describe("an item that names an object of a bucket", () => {
  it("is sent with its content; what is missing or too large ends by itself", async () => {
    const buckets = bucketsOf({ "s3://b/cat.png": PICTURE, "s3://b/large.png": new Uint8Array(101) });
    const config = {
      providers: { alpha: { baseUrl: "http://alpha.test/v1", needsKey: false, mediaBytesMax: 100 } },
    };
    const { world, pictures } = worldOf({ buckets, config });
    const names = ["cat", "dog", "large"].map((name) => `s3://b/${name}.png`);
    world.disk.put(SOURCE, names.map((name, index) => s3Line(index + 1, name)).join(""));
    const engine = await world.engine();
    await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    expect(pictures).toEqual(new Map([[1, [dataOf(PICTURE)]]]));
    const errors = world.output().flatMap(({ error }) => error ?? []);
    expect(errors).toMatchObject([
      {
        code: "media_unreadable",
        message: "s3://b/dog.png cannot be read: there is no such object",
        line: 2,
        attempts: 1,
      },
      { message: expect.stringContaining("s3://b/large.png has 101 bytes, at most 100 are sent"), line: 3 },
    ]);
  });

  it("waits for its store for a minute, and is sent once", async () => {
    const buckets = bucketsOf({ "s3://b/cat.png": PICTURE });
    const { world, pictures } = worldOf({ buckets });
    const lines = Array.from({ length: 40 }, (_, index) => s3Line(index + 1, "s3://b/cat.png"));
    world.disk.put(SOURCE, lines.join(""));
    const engine = await world.engine();
    buckets.fault = new ObjectFault("the store does not answer for now (503)", "store");
    const run = engine.run(SOURCE, { out: OUTPUT });
    await world.clock.advance(60_000);
    expect(world.sent).toEqual([]);
    buckets.fault = undefined;
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 40 } });
    expect(world.sent).toHaveLength(40);
    expect(pictures.size).toBe(40);
    expect(world.clock.nowMs()).toBeLessThan(100_000);
  });

  it("is never sent where others write the items", async () => {
    const { world } = worldOf({ readsLocalFiles: false, buckets: bucketsOf({ "s3://b/cat.png": PICTURE }) });
    world.disk.put(SOURCE, s3Line(1, "s3://b/cat.png"));
    const engine = await world.engine();
    await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    const message = "s3://b/cat.png cannot be read: only the library and the command read s3:// addresses";
    expect(world.output()).toMatchObject([{ error: { code: "media_unreadable", message } }]);
    expect(world.wire.ledger).toEqual([]);
  });
});
