/**
 * Lines with the provider's own body, and lines with the members that the caller names.
 */
import { describe, expect, it } from "vitest";
import { endOf, finish } from "./runs.ts";
import { INPUT, mortal, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const linesOf = (world: World): string[] =>
  (world.disk.text(OUTPUT) ?? "").split("\n").filter((line) => line !== "");

/** Bytes as a provider may send them: line ends between tokens, a repeated member, spaces, half a surrogate pair. */
const SENT =
  '\r\n{ "id":"a", "created": 1.50,\n  "id":"b","choices":[\r\n{"message":{"content":"x\\n\\ud800\u2028"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}\n';
const KEPT =
  '{ "id":"a", "created": 1.50,  "id":"b","choices":[{"message":{"content":"x\\n\\ud800\u2028"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}';

function answering(lines: number): World {
  const world = new World({ config: { maxInFlight: 1 }, latencyMs: 10 });
  world.input(lines);
  world.answer = (line) =>
    line === 2
      ? status(400, "bad")
      : { ok: true, status: 200, headers: { "x-request-id": `req_${line}` }, body: Buffer.from(SENT) };
  return world;
}

describe("the format raw", () => {
  it("has key and body only, the body in the provider's own bytes but for line ends between tokens", async () => {
    const world = answering(2);
    const summary = await finish(world, { ...OPTIONS, format: "raw" });
    expect(summary).toMatchObject({ counts: { completed: 1, failed: 1 }, usage: { input_tokens: 9 } });
    const [answer, failure] = linesOf(world);
    expect(answer).toBe(`{"key":"k1","body":${KEPT}}`);
    expect(JSON.parse(failure ?? "")).toMatchObject({
      key: "k2",
      body: null,
      error: { code: "invalid_request", attempts: 1, line: 2 },
    });
  });
});

describe("the field body", () => {
  it("is at the end of a line with the provider's own bytes, and only if it is named", async () => {
    const fields = ["usage", "body"] as const;
    const world = answering(2);
    await finish(world, { ...OPTIONS, fields });
    const [answer, failure] = linesOf(world);
    expect(answer?.endsWith(`},"body":${KEPT}}`)).toBe(true);
    expect(Object.keys(JSON.parse(answer ?? ""))).toEqual(["key", "output", "usage", "body"]);
    expect(JSON.parse(failure ?? "")).not.toHaveProperty("body");
    const usual = answering(1);
    await finish(usual, OPTIONS);
    expect(linesOf(usual)[0]).not.toContain('"body"');
  });

  it("is kept through a kill, and its line is read as one of perigee's own", async () => {
    const options = { ...OPTIONS, fields: ["body"] as const };
    const world = answering(3);
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, options).finished.catch(() => undefined);
    await world.clock.advance(15);
    process.kill();
    world.kill();
    const before = linesOf(world);
    expect(before).toHaveLength(1);
    await finish(world, options);
    expect(linesOf(world)).toHaveLength(3);
    expect(linesOf(world)[0]).toBe(before[0]);
    expect(world.sent.filter(({ line }) => line === 1)).toHaveLength(1);
  });
});

describe("the format openai", () => {
  it("is the layout of OpenAI's batch output with the provider's own body", async () => {
    const world = answering(2);
    await finish(world, { ...OPTIONS, format: "openai" });
    const [answer, failure] = linesOf(world);
    expect(answer).toMatch(/^\{"id":"batch_req_[0-9a-f]+","custom_id":"k1","response":\{"status_code":200,/);
    expect(answer).toContain(`"request_id":"req_1","body":${KEPT}},"error":null}`);
    expect(JSON.parse(failure ?? "")).toMatchObject({
      id: expect.stringMatching(/^batch_req_/),
      custom_id: "k2",
      response: null,
      error: { code: "invalid_request", message: expect.any(String) },
    });
    expect(JSON.parse(failure ?? "").id).not.toBe(JSON.parse(answer ?? "").id);
  });

  it("is kept by a line whose key cannot be read", async () => {
    const world = new World();
    world.disk.put(INPUT, "not json\n");
    await finish(world, { ...OPTIONS, format: "openai" });
    expect(JSON.parse(linesOf(world)[0] ?? "")).toMatchObject({
      custom_id: null,
      line: 1,
      response: null,
      error: { code: "invalid_json" },
    });
  });
});

describe.each(["openai", "raw"] as const)("a run in the format %s", (format) => {
  it("keeps its answers through a kill, and sends nothing twice that is in the output", async () => {
    const world = answering(5);
    const process = mortal(world.clock);
    void (await world.engine(process.clock))
      .run(INPUT, { ...OPTIONS, format })
      .finished.catch(() => undefined);
    await world.clock.advance(35);
    process.kill();
    world.kill();
    const before = linesOf(world);
    const summary = await finish(world, { ...OPTIONS, format });
    expect(summary).toMatchObject({ status: "completed", counts: { completed: 4, failed: 1 } });
    const after = linesOf(world);
    expect(after.slice(0, before.length)).toEqual(before);
    const keys = after.map((line) => {
      const { key, custom_id } = JSON.parse(line) as { readonly key?: string; readonly custom_id?: string };
      return key ?? custom_id;
    });
    expect([...keys].sort()).toEqual(["k1", "k2", "k3", "k4", "k5"]);
  });

  it("adopts a line that a kill left unrecorded", async () => {
    const world = answering(1);
    const process = mortal(world.clock);
    const run = (await world.engine(process.clock)).run(INPUT, { ...OPTIONS, format });
    void run.finished.catch(() => undefined);
    await world.clock.advance(5);
    process.kill();
    world.kill();
    const file = await world.disk.open(OUTPUT, "write");
    const line =
      format === "raw"
        ? `{"key":"k1","body":${KEPT}}\n`
        : `{"id":"batch_req_1","custom_id":"k1","response":{"status_code":200,"request_id":"","body":${KEPT}},"error":null}\n`;
    await file.write(Buffer.from(line), 0);
    await file.close();
    const summary = await finish(world, { ...OPTIONS, format });
    expect(summary).toMatchObject({ counts: { completed: 1 }, requests_sent: 0 });
    expect(world.disk.text(OUTPUT)).toBe(line);
  });

  it("runs failed lines again, and is put in order with ordered", async () => {
    const world = answering(3);
    const ordered = { ...OPTIONS, format, ordered: true };
    await finish(world, ordered);
    world.answer = (line) => ok(line);
    const again = await finish(world, { ...ordered, retryFailed: ["invalid_request"] });
    expect(again).toMatchObject({ counts: { completed: 3 }, requests_sent: 1 });
    expect(linesOf(world)[1]).toContain('"content":"answer 2"');
  });

  it("cannot be continued in another format", async () => {
    const world = answering(1);
    await finish(world, { ...OPTIONS, format });
    expect(await endOf(world, INPUT, { ...OPTIONS })).toMatchObject({
      code: "conflict",
      message: `/out.jsonl was begun with lines in the format ${format}, now the format perigee is requested: repeat the format that the run began with, or use another output`,
    });
  });
});

describe("fields", () => {
  it("trim a line to key, output and the members that are named; error and warnings stay", async () => {
    const world = answering(2);
    await finish(world, { ...OPTIONS, fields: ["usage", "finish_reason"] });
    const [answer, failure] = linesOf(world).map((line) => Object.keys(JSON.parse(line) as object));
    expect(answer).toEqual(["key", "output", "finish_reason", "usage"]);
    expect(failure).toEqual(["key", "output", "error", "usage"]);
  });

  it("may be empty", async () => {
    const world = new World();
    world.input(1);
    await finish(world, { ...OPTIONS, fields: [] });
    expect(world.disk.text(OUTPUT)).toBe('{"key":"k1","output":{"type":"text","text":"answer 1"}}\n');
  });

  it.each([
    [{ fields: ["usag"] }, 'fields: "usag" is not a member of a line; did you mean "usage"?'],
    [{ fields: ["usage"], format: "raw" }, "fields cannot be combined with format raw"],
    [{ format: "xml" }, 'format must be one of perigee, openai, raw, got "xml"'],
  ])("and formats that cannot be are refused: %j", async (options, message) => {
    const world = new World();
    world.input(1);
    const refused = async (): Promise<unknown> => await endOf(world, INPUT, { ...OPTIONS, ...options });
    await expect(refused()).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining(message),
    });
  });
});
