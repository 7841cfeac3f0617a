/**
 * Commands that share a process end and say the same as those that have their own.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Desk, type Ended, openDesk, question } from "./command.ts";

let desks: readonly Desk[];
beforeEach(() => {
  desks = [openDesk(), openDesk({ ownProcesses: true })];
});
afterEach(() => {
  for (const desk of desks) desk.remove();
});

/** What both said, without what differs between any two runs. */
async function bothSay(words: readonly string[], stdin = ""): Promise<readonly Ended[]> {
  const ends: Ended[] = [];
  for (const desk of desks) {
    desk.write("in.jsonl", [question("a"), "no json"]);
    const ended = await desk.perigee(words, { stdin });
    const stderr = ended.stderr
      .replaceAll(desk.dir, "DIR")
      .replaceAll(/^(time|reading|running|done).*\n/gm, "");
    ends.push({ ...ended, stderr });
  }
  return ends;
}

it.each([
  [0, ["--version"], ""],
  [0, ["run", "--help"], ""],
  [0, ["run", "-", "--out", "out.jsonl"], `${JSON.stringify(question("b"))}\n`],
  [2, ["run", "in.jsonl"], ""],
  [2, ["run", "in.jsonl", "--out", "out.jsonl", "--prune"], ""],
  [2, ["status", "out.jsonl", "--json"], ""],
  [3, ["run", "in.jsonl", "--out", "out.jsonl"], ""],
  [74, ["run", "missing.jsonl", "--out", "out.jsonl"], ""],
])("a command that shares a process ends with %i as in its own: %j", async (code, words, stdin) => {
  const [shared, own] = await bothSay(words, stdin);
  expect(shared).toEqual(own);
  expect(own?.code).toBe(code);
});

it("a command finds nothing of the one before it in the process that they share", async () => {
  const [desk] = desks as [Desk];
  desk.write("in.jsonl", [question("a")]);
  const words = ["run", "in.jsonl", "--out", "out.jsonl"];
  expect(await desk.perigee(words, { env: { PERIGEE_UNHEARD_OF: "1" } })).toMatchObject({ code: 2 });
  expect(await desk.perigee(words)).toMatchObject({ code: 0, stdout: "" });
  expect(await desk.perigee(["status", "out.jsonl"])).toMatchObject({ code: 0, stderr: "" });
});
