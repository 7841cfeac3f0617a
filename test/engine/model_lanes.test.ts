/** The lanes of models: their terms, and which lane holds a model. */
import { describe, expect, it } from "vitest";
import { ModelLanes, modelOfHeld } from "../../src/engine/lanes/model_lanes.ts";

const PROVIDERS = [
  { name: "alpha", protocol: "openai", baseUrl: "http://alpha.test/v1", timeoutMs: 3_600_000 },
  { name: "beta", protocol: "openai", baseUrl: "http://beta.test/v1" },
] as const;

function lanes(attemptMsMax?: number): ModelLanes {
  const now = { nowMs: () => 0, capacityOf: () => ({ itemMs: 0 }) };
  return new ModelLanes({ families: {}, providers: PROVIDERS, attemptMsMax }, now);
}

describe("the terms of a lane", () => {
  it("have the time-out of the provider, else the configured one, else ten minutes", () => {
    const timeouts = (models: ModelLanes) =>
      ["alpha:m", "beta:m", "unknown:m"].map((model) => models.of(model).attemptMsMax);
    expect(timeouts(lanes())).toEqual([3_600_000, 600_000, 600_000]);
    expect(timeouts(lanes(5_000))).toEqual([3_600_000, 5_000, 5_000]);
  });

  it("are the same for a lane that an earlier process had, and for one that holds a model", () => {
    const models = lanes(5_000);
    const terms = models.of("alpha:org/name:latest");
    expect(models.termsOf(terms.key)).toEqual(terms);
    const held = models.hold("alpha:org/name:latest");
    expect(models.of("alpha:org/name:latest")).toMatchObject({ key: held, attemptMsMax: 3_600_000 });
    expect(models.termsOf(held)).toEqual(models.of("alpha:org/name:latest"));
    expect(modelOfHeld(held)).toBe("alpha:org/name:latest");
  });
});
