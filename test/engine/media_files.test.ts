/**
 * Items that name files in place of their content: read when they are sent, or the item ends by itself.
 */
import { describe, expect, it } from "vitest";
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
    ["is missing", undefined, /"cat.png" does not exist: there is no file \/data-in\/cat.png/],
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

  it("is tried again when the disk fails for now, and takes the lane for healthy", async () => {
    const { world, pictures } = worldOf();
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    world.disk.put(SOURCE, mediaLine(1, { path: "cat.png" }));
    const engine = await world.engine();
    const open = world.disk.open.bind(world.disk);
    let failures = 3;
    world.disk.open = (path, mode) => {
      if (path !== `${FOLDER}/cat.png` || failures === 0) return open(path, mode);
      failures -= 1;
      return Promise.reject(Object.assign(new Error("too many open files"), { code: "EMFILE" }));
    };
    const run = engine.run(SOURCE, { out: OUTPUT });
    expect(await world.settle(run.finished)).toMatchObject({ counts: { completed: 1 } });
    expect(failures).toBe(0);
    expect(world.sent).toHaveLength(1);
    expect(pictures.get(1)).toEqual([dataOf(PICTURE)]);
  });

  it("ends when the disk fails for good, with what the system said", async () => {
    const { world } = worldOf();
    world.disk.put(`${FOLDER}/cat.png`, PICTURE);
    world.disk.put(SOURCE, mediaLine(1, { path: "cat.png" }));
    const engine = await world.engine();
    const stat = world.disk.stat.bind(world.disk);
    world.disk.stat = (path) =>
      path === `${FOLDER}/cat.png`
        ? Promise.reject(Object.assign(new Error("i/o error"), { code: "EIO" }))
        : stat(path);
    await world.settle(engine.run(SOURCE, { out: OUTPUT }).finished);
    expect(world.output()).toMatchObject([
      { error: { code: "media_unreadable", message: expect.stringContaining("(EIO)") } },
    ]);
    expect(world.wire.ledger).toEqual([]);
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
