import { describe, expect, expectTypeOf, it } from "vitest";
import type { ResultLine } from "../../src/work/item.ts";
import type { Failure, Output } from "../../src/work/outcome.ts";
import { INPUT, OUTPUT, ok, status, World } from "./world.ts";

async function linesOf(world: World, options: object, during: (run: { cancel(): unknown }) => Promise<void>) {
  const engine = await world.engine();
  const run = engine.run(INPUT, { out: OUTPUT, ...options });
  const lines = new Map<string | null, ResultLine>();
  const read = (async () => {
    for await (const line of run) lines.set(line.key, line);
  })();
  await during(run);
  await world.settle(read);
  await world.settle(engine.close());
  return lines;
}

describe("a line that a run yields", () => {
  it("says whether its item was completed or failed", async () => {
    const world = new World({ answer: (line) => (line === 1 ? status(400) : ok(line)) });
    world.input(2);
    const lines = await linesOf(world, {}, async () => undefined);
    expect(lines.get("k1")).toMatchObject({
      status: "failed",
      output: null,
      error: { code: "invalid_request" },
    });
    expect(lines.get("k2")).toMatchObject({ status: "completed", output: { text: "answer 2" } });
    expect(lines.get("k2")).not.toHaveProperty("error");
  });

  it("says that its item was cancelled, or not answered in time", async () => {
    const world = new World({ config: { maxInFlight: 1 }, answer: () => "hang" });
    world.input(2);
    const late = await linesOf(world, { sla: 1 }, async () => undefined);
    expect([...late.values()].map((line) => line.status)).toEqual(["expired", "expired"]);
    const other = new World({ config: { maxInFlight: 1 }, latencyMs: 1_000 });
    other.input(3);
    const cut = await linesOf(other, {}, async (run) => {
      await other.clock.advance(500);
      run.cancel();
    });
    expect([...cut.values()].map((line) => line.status).sort()).toEqual([
      "cancelled",
      "cancelled",
      "completed",
    ]);
  });

  it("adds nothing to the file", async () => {
    const world = new World();
    world.input(1);
    await linesOf(world, {}, async () => undefined);
    expect(world.output()[0]).not.toHaveProperty("status");
  });

  it("has its output or its error by its status, for the compiler", () => {
    type Completed = Extract<ResultLine, { status: "completed" }>;
    type Other = Exclude<ResultLine, { status: "completed" }>;
    expectTypeOf<Completed["output"]>().toEqualTypeOf<Output>();
    expectTypeOf<Other["output"]>().toEqualTypeOf<null>();
    expectTypeOf<Other["error"]>().toEqualTypeOf<Failure>();
    expectTypeOf<Other["status"]>().toEqualTypeOf<"failed" | "expired" | "cancelled">();
    const read = (line: ResultLine): string =>
      line.status === "completed" ? line.output.text : line.error.code;
    expectTypeOf(read).returns.toEqualTypeOf<string>();
  });
});
