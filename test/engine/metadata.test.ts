/**
 * An item's metadata is the caller's own: sent nowhere, given back with the answer.
 */
import { describe, expect, it } from "vitest";
import { finish } from "./runs.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };
const request = (line: number): object => ({
  model: "alpha:m1",
  contents: [{ parts: [{ text: `[[${line}]]` }] }],
});

function worldOf(...lines: readonly (object | string)[]): World {
  const world = new World();
  world.disk.put(
    INPUT,
    lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""),
  );
  return world;
}

const metadata = (world: World): unknown[] =>
  world.output().map((line) => [line.key, (line as { readonly metadata?: unknown }).metadata]);

describe("the metadata of an item", () => {
  it("is in its line, of every layout, and is not sent", async () => {
    const body = { model: "alpha:m1", messages: [{ role: "user", content: "[[3]]" }] };
    const world = worldOf(
      { key: "a", request: request(1), metadata: { tag: "one", nested: [1, { deep: null }] } },
      { key: "b", ...request(2), metadata: { tag: "two" } },
      { custom_id: "c", method: "POST", url: "/v1/chat/completions", body, metadata: { tag: "three" } },
      { key: "d", request: request(4), metadata: null },
    );
    await finish(world, { ...OPTIONS, ordered: true });
    expect(metadata(world)).toEqual([
      ["a", { tag: "one", nested: [1, { deep: null }] }],
      ["b", { tag: "two" }],
      ["c", { tag: "three" }],
      ["d", undefined],
    ]);
    for (const { body: sent } of world.wire.ledger) expect(sent).not.toContain("tag");
  });

  it("keeps the digits of its numbers, and text that is not ASCII", async () => {
    const world = worldOf(
      `{"key":"a","request":${JSON.stringify(request(1))},"metadata":{"id":12345678901234567890,"ö":"\ud83d\ude00"}}`,
    );
    await finish(world, OPTIONS);
    expect(world.disk.text(OUTPUT)).toContain('"metadata":{"id":12345678901234567890,"ö":"\ud83d\ude00"}');
  });

  it("is in the line of an item that failed or was not sent", async () => {
    const world = worldOf(
      { key: "a", request: request(1), metadata: { tag: "one" } },
      { key: "b", request: request(2), metadata: { tag: "two" } },
    );
    world.answer = (line) => (line === 1 ? status(400, "bad") : ok(line));
    await finish(world, { ...OPTIONS, ordered: true, skip: (line: number) => line === 2 });
    expect(world.output()).toMatchObject([
      { key: "a", error: { code: "invalid_request" }, metadata: { tag: "one" } },
      { key: "b", error: { code: "cancelled" }, metadata: { tag: "two" } },
    ]);
  });

  it("is left out where fields do not name it, and refused when it is not an object", async () => {
    const world = worldOf(
      { key: "a", request: request(1), metadata: { tag: "one" } },
      { key: "b", request: request(2), metadata: "two" },
    );
    await finish(world, { ...OPTIONS, ordered: true, fields: ["usage"] });
    expect(metadata(world)).toEqual([
      ["a", undefined],
      ["b", undefined],
    ]);
    expect(world.output()[1]).toMatchObject({
      error: { code: "invalid_line", message: "metadata must be an object, got a string" },
    });
  });

  it("is that of the object of a submitted list", async () => {
    const world = new World();
    const engine = await world.engine();
    const item = { model: "alpha:m1", input: "[[1]]", metadata: { tag: "one" } } as const;
    const task = await world.settle(engine.submit([item]));
    expect(task.objects).toMatchObject([{ status: "completed", metadata: { tag: "one" } }]);
    await world.settle(engine.close());
  });
});
