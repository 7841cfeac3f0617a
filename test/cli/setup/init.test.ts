/** The configuration that perigee init writes, and a run that uses it. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readConfiguration } from "../../../src/cli/setup/config_file.ts";
import { CONFIGURATION } from "../../../src/cli/setup/init.ts";
import { resolveConfig } from "../../../src/engine/config/config.ts";
import { type Desk, openDesk, question } from "../command.ts";

let desk: Desk;
beforeEach(() => {
  desk = openDesk();
});
afterEach(() => desk.remove());

const used = CONFIGURATION.split("\n").map((line) => (/^#(?! \S)/.test(line) ? line.slice(1) : line));

describe("perigee init", () => {
  it("writes a file that configures nothing until a # is removed", async () => {
    const { code, stdout } = await desk.perigee(["init"]);
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^wrote perigee\.config\.yaml: .*\n[\s\S]*next: perigee doctor\n$/),
    ]);
    expect(await readConfiguration(join(desk.dir, "perigee.config.yaml"))).toEqual({});
    desk.write("in.jsonl", [question("a")]);
    const run = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl", "--json"]);
    expect(run.code).toBe(0);
    expect(run.stderr).toMatch(/^perigee: using perigee\.config\.yaml \(--no-config uses neither\)\n/);
    expect(JSON.parse(run.stdout)).toMatchObject({ config_file: "perigee.config.yaml" });
  });

  it("writes lines each of which is configuration without its #: all together are accepted", async () => {
    desk.write("all.yaml", used);
    const options = await readConfiguration(join(desk.dir, "all.yaml"));
    expect(Object.keys(options).length).toBeGreaterThan(15);
    const { providers, notes } = resolveConfig(options, { GROQ_API_KEY: "g" });
    expect(providers.map(({ name }) => name)).toEqual(expect.arrayContaining(["mybox", "gateway"]));
    expect(notes).toEqual([]);
  });

  it("changes no file that exists, and writes YAML only", async () => {
    desk.write("perigee.config.yaml", ["hedge: true"]);
    const { code, stderr } = await desk.perigee(["init"]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining("perigee.config.yaml exists and is not changed"),
    ]);
    expect(desk.read("perigee.config.yaml")).toBe("hedge: true\n");
    expect((await desk.perigee(["init", "c.json"])).stderr).toContain("the configuration is written as YAML");
  });

  it("says to ignore .env in a repository that does not", async () => {
    mkdirSync(join(desk.dir, ".git"));
    expect((await desk.perigee(["init", "a.yaml"])).stdout).toContain("add .env to .gitignore");
    desk.write(".gitignore", ["node_modules", ".env*"]);
    expect((await desk.perigee(["init", "b.yaml"])).stdout).not.toContain("add .env");
  });
});
