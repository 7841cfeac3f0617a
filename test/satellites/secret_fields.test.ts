/** Where references to secrets are expanded: in config, and where the schema of an input says so. */
import { describe, expect, it } from "vitest";
import { vendorSatellites } from "../../src/satellites/builtin/vendor.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { schemaOfJsonSchema } from "../../src/satellites/sdk/json_schema.ts";
import type { AnySatellite } from "../../src/satellites/sdk/satellite.ts";
import { isExpanded } from "../../src/satellites/secrets/secret_fields.ts";
import { z } from "../../src/schema.ts";
import type { JsonObject } from "../../src/work/json.ts";

const secret = { "x-secret": true };
const anything = z.record(z.string(), z.json());

function satelliteOf(input: AnySatellite["input"], config: AnySatellite["config"] = anything): AnySatellite {
  return defineSatellite({ name: "one", input, config, run: async () => ({}) }) as AnySatellite;
}

function byJson(schema: JsonObject): AnySatellite {
  return satelliteOf(schemaOfJsonSchema(schema));
}

describe("references to secrets", () => {
  it("are expanded in all of a config that marks nothing, and in nothing of such an input", () => {
    const plain = satelliteOf(anything);
    expect(isExpanded(plain, "/config/url")).toBe(true);
    expect(isExpanded(plain, "/config/deep/0/a~1b")).toBe(true);
    expect(isExpanded(plain, "/input/prompt")).toBe(false);
    expect(isExpanded(plain, "/input/deep/0/token")).toBe(false);
    expect(isExpanded(plain, "/other/x")).toBe(false);
  });

  it("are expanded in input fields that zod's meta marks, and below them", () => {
    const marked = satelliteOf(
      z.strictObject({
        token: z.string().meta(secret).describe("A token.").optional(),
        headers: z.record(z.string(), z.string()).meta(secret).default({}),
        logins: z.array(z.strictObject({ user: z.string(), password: z.string().meta(secret) })),
        prompt: z.string(),
      }),
    );
    const places = ["token", "headers/a~1b", "logins/7/password", "logins/7/user", "prompt", "unknown"];
    expect(places.filter((place) => isExpanded(marked, `/input/${place}`))).toEqual(places.slice(0, 3));
  });

  it("are plain text where a config says that a field is not a secret", () => {
    const config = z.strictObject({ instruction: z.string().meta({ "x-secret": false }), key: z.string() });
    const one = satelliteOf(anything, config as never);
    expect(isExpanded(one, "/config/instruction")).toBe(false);
    expect(isExpanded(one, "/config/key")).toBe(true);
  });

  it("are plain text where one form of a field marks it and another does not", () => {
    const branch = (properties: JsonObject): JsonObject => ({ type: "object", properties });
    const text = { type: "string" };
    const union = byJson({
      type: "object",
      properties: { kind: text },
      anyOf: [branch({ a: { ...text, ...secret }, b: { ...text, ...secret } }), branch({ b: text })],
    });
    expect(isExpanded(union, "/input/a")).toBe(true);
    expect(isExpanded(union, "/input/b")).toBe(false);
    expect(isExpanded(union, "/input/kind")).toBe(false);
  });

  it("follow what a schema refers to, however often it refers to itself", () => {
    const tree = byJson({
      type: "object",
      properties: { node: { $ref: "#/$defs/node" } },
      $defs: {
        node: {
          type: "object",
          properties: {
            next: { $ref: "#/$defs/node" },
            token: { $ref: "#/$defs/token" },
            maybe: { anyOf: [{ $ref: "#/$defs/token" }, { type: "null" }] },
          },
        },
        token: { type: "string", ...secret },
      },
    });
    expect(isExpanded(tree, `/input/node${"/next".repeat(50)}/token`)).toBe(true);
    expect(isExpanded(tree, "/input/node/maybe")).toBe(true);
    expect(isExpanded(tree, "/input/node/next")).toBe(false);
    const wide = byJson({
      type: "object",
      properties: { a: { ...secret, anyOf: Array.from({ length: 200 }, () => ({ type: "string" })) } },
    });
    expect(isExpanded(wide, "/input/a")).toBe(false);
  });
});

/** Pointers of all texts that a schema of a vendor's input could hold, as far as this test needs them. */
const USER_TEXTS: Readonly<Record<string, readonly string[]>> = {
  "deepseek-r1-distrill-llama-70b": ["/input/prompt", "/input/prompt/3", "/config/instruction"],
  "get-files": ["/input/prefix", "/input/glob/0"],
  "parse-with-docling": ["/input/url"],
  "call-webhook": ["/input/text", "/input/headers/authorization", "/input/token"],
  "forward-logs": ["/input/entries/0/message", "/input/entries/0/attributes/a"],
  "move-file": ["/input/source", "/input/destination"],
  "send-alert": ["/input/title", "/input/message", "/input/details/a", "/input/links/0/text"],
  "send-email": ["/input/subject", "/input/text", "/input/html", "/input/headers/X-A", "/input/to/0/name"],
};
const CREDENTIALS: Readonly<Record<string, readonly string[]>> = {
  "get-files": ["/config/store/secret_access_key", "/config/store/options/key"],
  "parse-with-docling": ["/config/server/api_key"],
  "call-webhook": ["/config/headers/authorization", "/config/secret", "/config/url"],
  "forward-logs": ["/config/token", "/config/api_key", "/config/headers/a", "/config/key"],
  "move-file": ["/config/from/secret_access_key"],
  "send-alert": ["/config/url", "/config/token", "/config/routing_key", "/config/secret"],
  "send-email": ["/config/password", "/config/dkim/private_key", "/config/api_key"],
};

describe("the satellites that come with perigee", () => {
  it.each(vendorSatellites().map((one) => [one.name, one] as const))(
    "%s expands credentials of its config, and no text of its input",
    (name, one) => {
      expect(USER_TEXTS[name]).toBeDefined();
      expect(USER_TEXTS[name]?.filter((pointer) => isExpanded(one, pointer))).toEqual([]);
      const credentials = CREDENTIALS[name] ?? [];
      expect(credentials.filter((pointer) => isExpanded(one, pointer))).toEqual(credentials);
    },
  );
});
