/** An error that an update wrote again, and of which a kill left no record, is the run's own line. */
import { expect, it } from "vitest";
import { hasCode } from "../../src/errors.ts";
import { finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, World } from "./world.ts";

/** Calls the run again; with its update if it had died before that was accepted. */
async function goOn(world: World): Promise<void> {
  const engine = await world.engine();
  const call = (update: boolean): Promise<unknown> =>
    engine.run(INPUT, update ? { out: OUTPUT, update } : { out: OUTPUT }).finished;
  const called = call(false).catch((error: unknown) => {
    if (hasCode(error, "input_changed")) return call(true);
    throw error;
  });
  await world.settle(called);
  await world.settle(engine.close());
}

it("An error line that an update had written again when it was killed is not kept beside the output", async () => {
  let unrecorded = 0;
  for (let operation = 1; operation <= 60; operation += 1) {
    const world = new World({ config: { maxInFlight: 1 } });
    world.disk.put(INPUT, `${itemLine(1)}nonsense\n`);
    await finish(world);
    const text = (): string => world.disk.text(OUTPUT) ?? "";
    const error = text()
      .split("\n")
      .find((line) => line.includes("invalid_json")) as string;
    world.disk.put(INPUT, `${itemLine(1)}nonsense\n${itemLine(3)}`);
    const process = mortal(world.clock);
    const engine = await world.engine(process.clock);
    world.disk.crashAtOperation(operation, { powerCut: false, random: () => 0.999_999 }); // all but the last byte is written
    void engine.run(INPUT, { out: OUTPUT, update: true }).finished.catch(() => undefined);
    await world.clock.settle();
    process.kill();
    world.kill();
    if (text().endsWith(error)) unrecorded += 1;
    await goOn(world);
    const keys = world.output().map(({ key, line }) => key ?? line);
    expect(keys.sort(), `operation ${operation}`).toEqual([2, "k1", "k3"]);
    expect(world.disk.paths.filter((path) => path.startsWith(`${OUTPUT}.`))).toEqual([]);
  }
  expect(unrecorded).toBeGreaterThan(0);
});
