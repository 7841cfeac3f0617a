/** A disk that cannot hold a run is said before anything is paid. */
import { expect, it } from "vitest";
import { INPUT, OUTPUT, World } from "./world.ts";

it("refuses a new run whose least output does not fit, before a request is sent, and runs it once there is room", async () => {
  const world = new World();
  world.input(100);
  let freeBytes = 10_000;
  Object.assign(world.disk, { freeBytes: async () => freeBytes });
  const engine = await world.engine();
  await expect(world.settle(engine.run(INPUT, { out: OUTPUT }).finished)).rejects.toMatchObject({
    code: "disk_full",
    message:
      "/ has 9.8 KiB free, and the answers of 100 lines need at least 15.6 KiB: free some, or choose another place; nothing was sent",
  });
  expect(world.sent).toEqual([]);
  freeBytes = 100_000;
  expect(await world.settle(engine.run(INPUT, { out: OUTPUT }).finished)).toMatchObject({
    status: "completed",
  });
  await world.settle(engine.close());
});

it("says which folder lacks the space, in MiB from 1 MiB on", async () => {
  const world = new World();
  world.input(10_000);
  const freeBytes = async (path: string): Promise<number> => (path === "/" ? 1e12 : 1_200_000);
  Object.assign(world.disk, { freeBytes });
  const engine = await world.engine();
  await expect(world.settle(engine.run(INPUT, { out: OUTPUT }).finished)).rejects.toMatchObject({
    message:
      "/data has 1.1 MiB free, and the journal of 10000 lines needs at least 1.5 MiB: free some, or choose another place; nothing was sent",
  });
  await world.settle(engine.close());
});
