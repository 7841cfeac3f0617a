/** What satellites say of themselves. */
import { describe, expect, it } from "vitest";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import {
  describeSatellite,
  descriptionHash,
  fromWire,
  toWire,
} from "../../src/satellites/sdk/description.ts";
import { z } from "../../src/schema.ts";

const shout = defineSatellite({
  name: "shout",
  description: "Says it louder.",
  input: z.strictObject({ text: z.string().describe("What to say."), times: z.int().min(1).default(1) }),
  config: z.strictObject({ mark: z.string().default("!") }),
  output: z.strictObject({ said: z.string() }),
  isRepeatable: ({ input }) => input.times === 1,
  run: async ({ input, config }) => ({ said: input.text.repeat(input.times) + config.mark }),
});

describe("the description of a satellite", () => {
  it("has the schemas of zod as JSON Schema 2020-12, from the side of who writes the values", () => {
    const { inputSchema, outputSchema, isRepeatable } = describeSatellite(shout);
    expect(inputSchema).toEqual({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        text: { type: "string", description: "What to say." },
        times: { default: 1, type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
      },
      required: ["text"],
      additionalProperties: false,
    });
    expect(outputSchema).toMatchObject({ required: ["said"] });
    expect(isRepeatable).toBe("by_input");
  });

  it("takes a passed JSON Schema for a library without one, and says what is missing otherwise", () => {
    const input = {
      "~standard": { version: 1, vendor: "mine", validate: (value: unknown) => ({ value: value as object }) },
    } as const;
    const bare = defineSatellite({ name: "bare", input, run: async () => ({}) });
    expect(() => describeSatellite(bare)).toThrow(/its input has no JSON Schema .*: set inputJsonSchema/);
    const given = defineSatellite({ ...bare, inputJsonSchema: { type: "object", title: "mine" } });
    expect(describeSatellite(given).inputSchema).toEqual({ type: "object", title: "mine" });
  });

  it("travels, and has the same hash wherever it is read", () => {
    const described = describeSatellite(shout);
    const travelled = fromWire(JSON.parse(JSON.stringify(toWire(described))));
    expect(travelled).toEqual(described);
    expect(descriptionHash(travelled)).toBe(descriptionHash(described));
    expect(descriptionHash({ ...described, description: "other" })).not.toBe(descriptionHash(described));
  });

  it("is refused with the field that is wrong", () => {
    const wire = toWire(describeSatellite(shout));
    expect(() => fromWire({ ...wire, input_schema: { type: "string" } })).toThrow(
      /^input_schema: describes no/,
    );
    expect(() => fromWire({ ...wire, name: "Shout" })).toThrow(/^name: /);
    expect(() => fromWire({ ...wire, more: 1 })).toThrow(/"more" is not a known name/);
  });
});
