import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ConfigOptions, readConfigFile } from "../../src/engine/config/config.ts";
import { OUTPUT, World } from "./world.ts";

const FUNCTION = 'export default ({ model }) => ({ text: "by " + model });';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-modules-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function put(name: string, text: string): string {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
}

function config(provider: object): string {
  return put("perigee.json", JSON.stringify({ providers: { mine: provider } }));
}

async function answers(options: ConfigOptions): Promise<unknown[]> {
  const world = new World({ config: options });
  world.input(2, "mine:small");
  const engine = await world.engine();
  await world.settle(engine.run("/in.jsonl", { out: OUTPUT }).finished);
  await world.settle(engine.close());
  return world.output().map(({ output }) => output?.text);
}

function refused(options: ConfigOptions) {
  return new World({ config: options }).engine().then(
    () => undefined,
    (error: unknown) => error as { code: string; message: string },
  );
}

describe("the module of a provider", () => {
  it("is found beside the configuration file, wherever the process runs", async () => {
    mkdirSync(join(dir, "sub"));
    put("sub/mine.js", FUNCTION);
    expect(await answers(await readConfigFile(config({ module: "./sub/mine.js" })))).toEqual([
      "by small",
      "by small",
    ]);
  });

  it("may be named by an absolute path and by a URL", async () => {
    const path = put("mine.mjs", FUNCTION);
    expect(await answers({ providers: { mine: { module: path } } })).toEqual(["by small", "by small"]);
    const { href } = pathToFileURL(path);
    expect(await answers(await readConfigFile(config({ module: href })))).toEqual(["by small", "by small"]);
  });

  it("may export a codec", async () => {
    const codec = `
      const head = { origin: "http://mine.test", path: "/ask", headers: {} };
      export default {
        settings: { name: "mine", protocol: "own", baseUrl: "" },
        head: () => head,
        encode: (request, model) => ({ ok: true, body: JSON.stringify({ model, ask: request.turns[0].parts[0] }), dropped: [] }),
        decode: (answer) => ({ class: "success", text: "decoded " + answer.status, finish: "stop", usage: undefined }),
        limits: () => undefined,
      };`;
    put("mine.mjs", codec);
    expect(await answers(await readConfigFile(config({ module: "./mine.mjs" })))).toEqual([
      "decoded 200",
      "decoded 200",
    ]);
  });

  it.each([
    ["does not exist", undefined, "cannot be loaded"],
    ["is not JavaScript", "export default (", "cannot be loaded"],
    ["throws as it is loaded", 'throw new Error("no licence");', "no licence"],
    ["has no default export", "export const mine = () => ({});", "default export"],
    ["exports a text", 'export default "mine";', "default export"],
    ["exports half a codec", "export default { encode: () => undefined };", "head is not a function"],
  ])("is refused with its path if it %s", async (_, text, words) => {
    if (text !== undefined) put("mine.mjs", text);
    const error = await refused(await readConfigFile(config({ module: "./mine.mjs" })));
    expect(error).toMatchObject({ code: "invalid_config" });
    expect(error?.message).toContain("providers.mine.module");
    expect(error?.message).toContain(join(dir, "mine.mjs"));
    expect(error?.message).toContain(words);
  });

  it("is refused beside options of a server", async () => {
    await expect(
      readConfigFile(config({ module: "./mine.js", baseUrl: "http://a.test/v1" })),
    ).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringContaining("providers.mine.baseUrl: a provider with a module has no such option"),
    });
  });

  it("keeps to the time-out that is set beside it", async () => {
    put(
      "mine.mjs",
      "let calls = 0; export default () => (calls++ === 0 ? new Promise(() => {}) : { text: 'late' });",
    );
    const world = new World({
      config: await readConfigFile(config({ module: "./mine.mjs", timeoutMs: 2_000 })),
    });
    world.input(1, "mine:small");
    const engine = await world.engine();
    const work = engine.run("/in.jsonl", { out: OUTPUT });
    await world.clock.advance(10_000);
    expect(await world.settle(work.finished)).toMatchObject({ counts: { completed: 1 }, requests_sent: 2 });
    await world.settle(engine.close());
  });
});
