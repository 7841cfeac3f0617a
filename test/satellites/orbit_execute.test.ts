/** Hosted satellites that run other satellites through the engine. */
import { expect, it } from "vitest";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { z } from "../../src/schema.ts";
import { attempt, host } from "./orbit_world.ts";

const asks = defineSatellite({
  ...{ name: "asks", description: "Asks another.", input: z.strictObject({}), config: z.strictObject({}) },
  run: async ({ execute }) => {
    const found = await execute("look", { satellite: "satellite/acme/look", input: { word: "a" } });
    const failed = await execute("fail", { satellite: "satellite/acme/fail", input: {} }).catch(
      (error: SatelliteError) => ({ failure: error.failure, code: error.code }),
    );
    return { found, failed };
  },
});

it("receive outputs and failures of those that they call", async () => {
  const asked: unknown[] = [];
  const { call } = attempt({
    execute: async (name, other) => {
      asked.push([name, other]);
      if (name === "fail") throw new SatelliteError("permanent", "too_bad", "no");
      return { means: "b" };
    },
  });
  expect(await (await host([asks])).remote(asks).run(call)).toEqual({
    found: { means: "b" },
    failed: { failure: "permanent", code: "too_bad" },
  });
  expect(asked).toEqual([
    ["look", { satellite: "satellite/acme/look", input: { word: "a" }, config: {} }],
    ["fail", { satellite: "satellite/acme/fail", input: {}, config: {} }],
  ]);
});

it("end with the attempt when the engine itself is in trouble", async () => {
  const { call } = attempt({
    execute: async () => {
      throw new Error("trouble");
    },
  });
  await expect((await host([asks])).remote(asks).run(call)).rejects.toThrow("trouble");
});
