/** Shell completion, compared with the help of each command and tried in the shells that are installed. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Desk, openDesk } from "../command.ts";

const FISH: string = "fish";
const SHELLS = ["bash", "zsh", "fish"] as const;
let desk: Desk;
const scripts = new Map<string, string>();

beforeAll(async () => {
  desk = openDesk();
  for (const shell of SHELLS) {
    const { code, stdout } = await desk.perigee(["completion", shell]);
    expect(code).toBe(0);
    scripts.set(shell, stdout);
    writeFileSync(join(desk.dir, `perigee.${shell}`), stdout);
  }
});
afterAll(() => desk.remove());

const scriptOf = (shell: string): string => scripts.get(shell) ?? "";
const isInstalled = (shell: string): boolean => {
  try {
    execFileSync(shell, ["-c", "true"]);
    return true;
  } catch {
    return false;
  }
};

describe("completion", () => {
  it("has each command, and each option that the help of a command shows", async () => {
    const commands = [...scriptOf("bash").matchAll(/^ {4}'([^']+)'\) names=/gm)].map(
      ([, path]) => path ?? "",
    );
    expect(commands).toEqual(
      expect.arrayContaining(["run", "doctor", "init", "keys create", "batches adopt"]),
    );
    for (const command of commands.filter((path) =>
      /^(run|doctor|quote|batches cancel|cluster run|keys create)$/.test(path),
    )) {
      const { stdout } = await desk.perigee([...command.split(" "), "--help"]);
      const flags = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag ?? "");
      expect(flags.length).toBeGreaterThan(5);
      const [, row = ""] =
        new RegExp(`^ {4}'${command}'\\) names='[^']*' flags='([^']*)'`, "m").exec(scriptOf("bash")) ?? [];
      expect([command, flags.filter((flag) => !row.split(" ").includes(flag))]).toEqual([command, []]);
      for (const flag of flags) {
        expect(scriptOf("zsh")).toContain(`'${flag}[`);
        expect(scriptOf("fish")).toContain(` -l ${flag.slice(2)}`);
      }
    }
  });

  it("refuses other shells", async () => {
    const { code, stderr } = await desk.perigee(["completion", "tcsh"]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('the shell must be bash, zsh or fish, got "tcsh"'),
    ]);
  });

  it.each([
    [["run", "--fo"], ["--format"]],
    [
      ["run", "--format", ""],
      ["perigee", "openai", "raw"],
    ],
    [
      ["run", "--out", "x", "--del"],
      ["--delivery", "--delimiter"],
    ],
    [["ba"], ["backup", "batches"]],
    [["batches", "c"], ["cancel"]],
    [["batches", "cancel", "--al"], ["--all"]],
    [
      ["completion", ""],
      ["bash", "zsh", "fish"],
    ],
    [["run", "in"], []], // the shell completes files
  ])("in bash offers for %j: %j", (words, offered) => {
    const calls = [
      `source ${join(desk.dir, "perigee.bash")}`,
      `COMP_WORDS=(perigee ${words.map((word) => `'${word}'`).join(" ")})`,
      `COMP_CWORD=${words.length}`,
      "_perigee",
      'printf "%s\\n" "${COMPREPLY[@]}"',
    ];
    const found = execFileSync("bash", ["--norc", "-c", calls.join("\n")], { encoding: "utf8" });
    expect(found.split("\n").filter((word) => word !== "")).toEqual(offered);
  });

  it.runIf(isInstalled("fish")).each([
    ["run --format ", ["openai", "perigee", "raw"]],
    ["batches c", ["cancel"]],
    ["completion ", ["bash", "fish", "zsh"]],
  ])("in fish offers for %j: %j", (words, offered) => {
    const call = `source ${join(desk.dir, "perigee.fish")}; complete -C 'perigee ${words}'`;
    const found = execFileSync(FISH, ["--no-config", "-c", call], {
      encoding: "utf8",
      env: { ...process.env, HOME: desk.dir },
    });
    expect(
      found
        .trimEnd()
        .split("\n")
        .map((line) => line.split("\t")[0]),
    ).toEqual(offered);
  });

  it.runIf(isInstalled("zsh"))("is a script that zsh reads", () => {
    execFileSync("zsh", ["-f", "-n", join(desk.dir, "perigee.zsh")]);
  });
});
