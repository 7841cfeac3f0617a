/**
 * The exit code of a command is one of the README's, for every end.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Desk, openDesk, question } from "../cli/command.ts";

let desk: Desk;
let dir: string;
beforeEach(() => {
  desk = openDesk({ ownProcesses: true });
  dir = mkdtempSync(join(tmpdir(), "perigee-exit-"));
});
afterEach(() => {
  desk.remove();
  rmSync(dir, { recursive: true, force: true });
});

/** Loaded before the command: of what the command waits for, this never comes, and keeps nothing running. */
function preload(code: string): Record<string, string> {
  const file = join(dir, "preload.mjs");
  writeFileSync(file, code);
  return { NODE_OPTIONS: `--import ${pathToFileURL(file).href}` };
}

const COMMANDER = pathToFileURL(createRequire(import.meta.url).resolve("commander")).href;

describe("a command that waits for input that never arrives", () => {
  it("ends with 1 and says so, where Node would end it with 13 and say nothing", async () => {
    const env = preload(
      `const { default: commander } = await import(${JSON.stringify(COMMANDER)});
       commander.Command.prototype.parseAsync = () => new Promise(() => undefined);`,
    );
    const input = desk.write("in.jsonl", [question("a")]);
    const ended = await desk.perigee(["run", input, "--out", "out.jsonl"], { env });
    expect(ended).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "perigee: internal_error: the command waits for an event that cannot happen, a fault of perigee: please report " +
        "it; nothing recorded is lost, run the same command again to continue\n",
    });
  });
});

it("a command that has finished ends with its code and all of its output, whatever it has left open", async () => {
  const env = preload(
    `const { default: commander } = await import(${JSON.stringify(COMMANDER)});
     commander.Command.prototype.parseAsync = async () => {
       process.stdout.write("x".repeat(1_000_000));
       setInterval(() => undefined, 1_000);
       process.exitCode = 3;
     };`,
  );
  const { code, stdout } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl"], { env });
  expect([code, stdout.length]).toEqual([3, 1_000_000]);
});
