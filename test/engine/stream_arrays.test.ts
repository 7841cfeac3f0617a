/**
 * One array that comes as a stream: read as the array that it is, while lines that begin with [ stay lines.
 */
import { describe, expect, it } from "vitest";
import { endOf } from "./runs.ts";
import { itemLine, OUTPUT, World } from "./world.ts";

const OPTIONS = { out: OUTPUT };

const bytes = (...texts: readonly string[]): Uint8Array[] => texts.map((text) => Buffer.from(text));
const item = (line: number): string => itemLine(line).trimEnd();
const array = (...lines: readonly number[]): string => `[${lines.map(item).join(",\n  ")}]\n`;

function keysAndCodes(world: World): string[] {
  return world
    .output()
    .map(({ key, line, error }) => `${key ?? `line ${line}`} ${error?.code ?? "answered"}`);
}

describe("an array in a stream", () => {
  it("is answered element by element, whether it is on one line or on many", async () => {
    for (const text of [
      array(1, 2, 3),
      `${array(1, 2, 3).replaceAll("\n", "")}\n`,
      `\ufeff\n${array(1, 2, 3)}`,
    ]) {
      const world = new World();
      expect(await endOf(world, bytes(text))).toMatchObject({ items: 3, counts: { completed: 3 } });
      expect(keysAndCodes(world).sort()).toEqual(["k1 answered", "k2 answered", "k3 answered"]);
    }
    const world = new World();
    expect(await endOf(world, bytes("[\n]"))).toMatchObject({ status: "completed", items: 0 });
  });

  it("is answered while it arrives", async () => {
    const world = new World();
    const seen: number[] = [];
    const source = async function* (): AsyncGenerator<Uint8Array> {
      for (const piece of [`[${item(1)},\n`, `${item(2)},`, item(3), "]"]) {
        yield Buffer.from(piece);
        await world.clock.sleep(100);
        seen.push(world.output().length);
      }
    };
    expect(await endOf(world, source())).toMatchObject({ counts: { completed: 3 } });
    expect(seen).toEqual([1, 2, 3, 3]);
  });

  it("faults 1 to 13: has the codes of lines for its elements, by their place", async () => {
    const world = new World();
    const bad = [
      "7",
      `${"[".repeat(70)}${"]".repeat(70)}`,
      `{"key":"long","request":{"model":"alpha:m1","contents":"${"x".repeat(10 * 1024 * 1024)}"}}`,
      '{"key":"","request":{}}',
      '{"key":"a","key":"b"}',
      item(1),
      '{"key":"model","request":{"model":"nobody","contents":[{"parts":[{"text":"x"}]}]}}',
    ];
    expect(await endOf(world, bytes(`[${item(1)},\n${bad.join(",")}]`))).toMatchObject({ items: 8 });
    expect(keysAndCodes(world).sort()).toEqual([
      "k1 answered",
      "k1 duplicate_key",
      "line 2 invalid_line",
      "line 3 too_deep",
      "line 4 line_too_long",
      "line 5 invalid_key",
      "line 6 duplicate_member",
      "model unknown_model",
    ]);
  });

  it("fails where it is not an array any more, keeps what was answered, and continues when it is mended", async () => {
    const world = new World();
    const text = array(1, 2, 3, 4);
    const broken = `${text.slice(0, text.indexOf("k3"))}\n${itemLine(5)}`;
    expect(await endOf(world, bytes(broken))).toMatchObject({ code: "invalid_array" });
    const answered = world.output().length;
    expect(world.sent).toHaveLength(answered);
    expect(await endOf(world, bytes(text))).toMatchObject({ counts: { completed: 4 } });
    expect(world.sent).toHaveLength(4);
  });

  it("is continued after a stop, and recognised when all is done", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    const engine = await world.engine();
    const run = engine.run(bytes(array(1, 2, 3)), OPTIONS);
    await world.clock.advance(15);
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
    expect(await endOf(world, bytes(array(1, 2, 3)))).toMatchObject({ counts: { completed: 3 } });
    expect(world.sent).toHaveLength(3);
    expect(await endOf(world, bytes(array(1, 2, 3)))).toMatchObject({ requests_sent: 0 });
    expect(await endOf(world, bytes(array(1, 2)))).toMatchObject({ code: "input_changed" });
  });

  it("is quoted", async () => {
    const world = new World();
    const engine = await world.engine();
    const quote = await world.settle(engine.quote(bytes(array(1, 2, 3))));
    expect(quote.models.map(({ items }) => items)).toEqual([3]);
    await world.settle(engine.close());
  });
});

describe("lines of which the first begins with [", () => {
  it.each([
    ["[1]", "invalid_line"],
    [`[${item(7)}]`, "invalid_line"],
    ["[broken", "invalid_json"],
    ["[]", "invalid_line"],
  ])("fail by themselves: %s", async (first, code) => {
    const world = new World();
    const end = await endOf(world, bytes(`${first}\n${itemLine(2)}${itemLine(3)}`));
    expect(end).toMatchObject({ items: 3, counts: { completed: 2, failed: 1 } });
    expect(keysAndCodes(world).sort()).toEqual(["k2 answered", "k3 answered", `line 1 ${code}`]);
  });
});

describe("a .json file", () => {
  it("fault 5: has line_too_long for an element above 10 MiB", async () => {
    const world = new World();
    world.disk.put("/in.json", `[${item(1)},"${"x".repeat(10 * 1024 * 1024)}",${item(3)}]`);
    const engine = await world.engine();
    await world.settle(engine.run("/in.json", OPTIONS).finished);
    expect(keysAndCodes(world).sort()).toEqual(["k1 answered", "k3 answered", "line 2 line_too_long"]);
    await world.settle(engine.close());
  });
});
