/** The SDK: types are inferred from schemas, and wrong use does not compile. */
import { describe, expect, expectTypeOf, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import type { AnySatellite, Satellite } from "../../src/satellites/sdk/satellite.ts";
import { z } from "../../src/schema.ts";

const shout = defineSatellite({
  name: "shout",
  description: "Says it louder.",
  input: z.strictObject({ text: z.string().describe("What to say."), times: z.int().min(1).default(1) }),
  config: z.strictObject({ mark: z.string().default("!") }),
  output: z.strictObject({ said: z.string(), note: z.string().optional() }),
  isRepeatable: ({ input }) => input.times === 1,
  run: async (call) => {
    expectTypeOf(call.input).toEqualTypeOf<{ text: string; times: number }>();
    expectTypeOf(call.config).toEqualTypeOf<{ mark: string }>();
    expectTypeOf(call.signal).toEqualTypeOf<AbortSignal>();
    return { said: call.input.text.repeat(call.input.times) + call.config.mark };
  },
});

describe("defineSatellite", () => {
  it("infers input and config from the schemas, and returns what a catalogue takes", () => {
    expectTypeOf(shout).toEqualTypeOf<Satellite<{ text: string; times: number }, { mark: string }>>();
    const satellites: readonly AnySatellite[] = [shout];
    expect(satellites[0]?.name).toBe("shout");
  });

  it("needs only a name, an input and run", async () => {
    const least = defineSatellite({
      name: "least",
      input: z.object({}),
      run: async ({ config }) => ({ got: Object.keys(config).length }),
    });
    expect(least).toMatchObject({ description: "", isRepeatable: false });
    expect(await least.config["~standard"].validate({})).toEqual({ value: {} });
    expect(await least.config["~standard"].validate({ a: 1 })).toHaveProperty("issues");
  });

  it("does not compile when run takes or returns what the schemas do not say", () => {
    defineSatellite({
      name: "wrong-input",
      input: z.object({ text: z.string() }),
      // @ts-expect-error there is no such member
      run: async ({ input }) => ({ said: input.txt }),
    });
    defineSatellite({
      name: "wrong-output",
      input: z.object({}),
      output: z.object({ said: z.string() }),
      // @ts-expect-error said is a text
      run: async () => ({ said: 1 }),
    });
    // @ts-expect-error an input is needed
    expect(() => defineSatellite({ name: "no-input", run: async () => ({}) })).toThrow(
      /input is not a schema/,
    );
    defineSatellite({
      name: "no-object",
      input: z.object({}),
      // @ts-expect-error an output is an object
      run: async () => "text",
    });
  });

  it("refuses names that could not be addressed", () => {
    for (const name of ["", "-a", "A", "a_b", "a/b", "..", "ä", "a".repeat(64), "a\n"])
      expect(() => defineSatellite({ name, input: z.object({}), run: async () => ({}) })).toThrow(
        PerigeeError,
      );
  });
});
