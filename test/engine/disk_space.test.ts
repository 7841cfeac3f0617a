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
      "/ has 0.0 MiB free, and the answers of 100 lines need at least 0.0 MiB: free some, or choose another place; nothing was sent",
  });
  expect(world.sent).toEqual([]);
  freeBytes = 100_000;
  expect(await world.settle(engine.run(INPUT, { out: OUTPUT }).finished)).toMatchObject({
    status: "completed",
  });
  await world.settle(engine.close());
});
