import { describe, expect, it } from "vitest";
import type { Item } from "../../src/work/item.ts";
import { World } from "./world.ts";

async function keysOf(items: readonly Item[]): Promise<(string | null)[]> {
  const world = new World();
  const engine = await world.engine();
  const keys: (string | null)[] = [];
  const read = (async () => {
    for await (const line of engine.run(items)) {
      expect(line.output).not.toBeNull();
      keys.push(line.key);
    }
  })();
  await world.settle(read);
  await world.settle(engine.close());
  return keys.sort();
}

describe("a run over items", () => {
  const model = "alpha:m1";

  it("answers items of every form under their keys", async () => {
    expect(
      await keysOf([
        { key: "a", model, input: "[[1]]" },
        { key: "b", model, contents: [{ parts: [{ text: "[[2]]" }] }], maxOutputTokens: 5 },
        { key: "c", model, messages: [{ role: "user", content: "[[3]]" }], temperature: 1 },
      ]),
    ).toEqual(["a", "b", "c"]);
  });

  it("names items without a key by their numbers, from 1", async () => {
    expect(
      await keysOf([
        { model, input: "[[1]]" },
        { key: "b", model, input: "[[2]]" },
        { model, input: "[[3]]" },
      ]),
    ).toEqual(["1", "3", "b"]);
  });
});
