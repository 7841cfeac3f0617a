/**
 * Satellites as people read them on the command line.
 */
import { expect, it } from "vitest";
import { describeText, type ShownSatellite } from "../../src/cli/satellites/satellite_text.ts";

const shown: ShownSatellite = {
  satellite: "satellite/acme/tell",
  kind: "custom",
  state: "registered",
  description: "Tells somebody.",
  input_schema: { type: "object", additionalProperties: {}, description: "Values for the templates." },
  config_schema: {
    anyOf: [
      {
        type: "object",
        properties: {
          receiver: { type: "string", const: "chat", description: "A chat." },
          url: { type: "string" },
        },
        required: ["receiver", "url"],
        additionalProperties: false,
      },
      {
        type: "object",
        properties: {
          receiver: { type: "string", const: "pager", description: "A pager. It ends in April 2027." },
          key: { type: "string" },
        },
        required: ["receiver", "key"],
        additionalProperties: false,
      },
    ],
  },
  base: null,
  url: null,
};

it("shows every form that a config may have, with what each of them says", () => {
  expect(describeText(shown).split("\n\n")[2]).toBe(
    [
      "config:",
      '  receiver  "chat"   required  A chat.',
      '            "pager"            A pager. It ends in April 2027.',
      "  url       string",
      "  key       string\n",
    ].join("\n"),
  );
});

it("tells an input of any fields from one that takes none", () => {
  expect(describeText(shown)).toContain("\n\ninput: any fields. Values for the templates.\n");
  const none = { ...shown, input_schema: { type: "object", properties: {}, additionalProperties: false } };
  expect(describeText(none)).toContain("\n\ninput: nothing\n");
});
