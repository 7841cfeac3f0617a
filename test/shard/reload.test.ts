import { describe, expect, it } from "vitest";
import { createInlineMeasurer } from "../../src/shard/measurer.ts";
import { Packer } from "../../src/shard/pack.ts";
import { reloadShard } from "../../src/shard/reload.ts";
import type { Shard } from "../../src/shard/shard.ts";
import { blockOf, fileOf, lineOf, SETTINGS } from "./blocks.ts";

const OPTIONS = { wantBodies: true };
const measurer = createInlineMeasurer(SETTINGS);

describe("reloadShard", () => {
  it("brings back the bytes of each item, and parses no line of another shard", async () => {
    const text = Array.from({ length: 60 }, (_, index) => {
      if (index === 30) return "{ broken";
      if (index === 31) return "";
      return lineOf(`k${index}`, `text ${index}`, { model: index % 3 === 0 ? "echo:a" : "echo:b" });
    }).join("\r\n");
    for (const shard of await shardsOf(text)) {
      const before = bytesOf(shard);
      shard.dropPrepared();
      await reloadShard(shard, fileOf(text), measurer, OPTIONS);
      expect(bytesOf(shard)).toEqual(before);
    }
  });

  it("reads lines that are far apart one by one, and neighbours together", async () => {
    const far = Array.from({ length: 5 }, (_, index) => [
      lineOf(`a${index}`, "near"),
      lineOf(`b${index}`, "near"),
      lineOf(`far${index}`, "x".repeat(40_000), { model: "echo:far" }),
    ]);
    const text = far.flat().join("\n");
    const shard = (await shardsOf(text)).find((each) => each.model === "echo:a") as Shard;
    const before = bytesOf(shard);
    shard.dropPrepared();
    const reads: number[] = [];
    const file = fileOf(text);
    const counted = {
      read: (into: Uint8Array, position: number) => {
        reads.push(into.byteLength);
        return file.read(into, position);
      },
    };
    await reloadShard(shard, counted, measurer, OPTIONS);
    expect(bytesOf(shard)).toEqual(before);
    expect(reads).toHaveLength(5);
    expect(Math.max(...reads)).toBeLessThan(1_000);
  });

  it("does nothing for a shard that has its bytes", async () => {
    const [shard] = await shardsOf(lineOf("a", "x"));
    const unreadable = { read: () => Promise.reject(new Error("not asked for")) };
    await reloadShard(shard as Shard, unreadable, measurer, OPTIONS);
    expect(shard?.isPrepared).toBe(true);
  });

  it.each([
    ["one letter of a prompt", (text: string) => text.replace("text 3", "test 3")],
    ["a key", (text: string) => text.replace("k3", "q3")],
    ["the order of two lines", (text: string) => text.split("\n").reverse().join("\n")],
    ["a line's validity", (text: string) => text.replace('{"key":"k2"', '["key":"k2"')],
    ["its length", (text: string) => text.slice(0, -40)],
    ["all of it", () => ""],
  ])(
    "tells that the input changed when it lost or changed %s, and leaves the shard dropped",
    async (_, change) => {
      const text = Array.from({ length: 6 }, (_, index) => lineOf(`k${index}`, `text ${index}`)).join("\n");
      const [shard] = await shardsOf(text);
      shard?.dropPrepared();
      const reload = reloadShard(shard as Shard, fileOf(change(text)), measurer, OPTIONS);
      await expect(reload).rejects.toMatchObject({ code: "input_changed" });
      expect(shard?.isPrepared).toBe(false);
    },
  );
});

async function shardsOf(text: string): Promise<Shard[]> {
  return new Packer().add(await measurer.measure(blockOf(text), OPTIONS));
}

function bytesOf(shard: Shard): string[] {
  return Array.from(shard.lines, (_, item) => `${shard.keyJson(item)} ${Buffer.from(shard.body(item))}`);
}
