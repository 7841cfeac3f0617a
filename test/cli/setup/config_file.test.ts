/** Configuration files of commands, in YAML and in JSON. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readConfiguration } from "../../../src/cli/setup/config_file.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-config-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const read = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return readConfiguration(join(folder, name));
};

describe("a configuration file", () => {
  it("is the same in YAML as in JSON", async () => {
    const yaml = "limits: # of my account\n  openai:\n    requestsPerMinute: 500\nhedge: true\n";
    const json = '{"limits": {"openai": {"requestsPerMinute": 500}}, "hedge": true}';
    expect(await read("a.yaml", yaml)).toEqual(await read("a.json", json));
    expect(await read("b.YML", yaml)).toEqual(await read("a.json", json));
  });

  it("names modules relative to itself", async () => {
    const { providers } = await read("a.yaml", "providers:\n  mine:\n    module: ./mine.mjs\n");
    expect(providers).toEqual({ mine: { module: join(folder, "mine.mjs") } });
  });

  it.each(["", "# nothing yet\n"])("configures nothing when it is empty (%j)", async (text) => {
    expect(await read("a.yaml", text)).toEqual({});
  });

  it.each([
    ["a: [", /a\.yaml:1:\d+: /],
    ["hedge: true\nhedge: false\n", /a\.yaml:2:1: .*occurs twice/],
    ["a: &x 1\nb: *x\n", /aliases are not taken/],
    ["limit: {}\n", /a\.yaml: "limit" is not a known name; did you mean "limits"\?/],
    ["- 1\n", /a\.yaml: /],
  ])("is refused with its place: %j", async (text, message) => {
    await expect(read("a.yaml", text)).rejects.toThrow(message);
  });

  it("is refused when it does not exist", async () => {
    await expect(readConfiguration(join(folder, "b.yaml"))).rejects.toThrow(
      "b.yaml cannot be read: no such file",
    );
  });
});
