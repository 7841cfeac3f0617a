/**
 * What a person does to the output of a killed or finished run, by the built command: lines appended, a file moved away and put back.
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MAIN } from "../built.ts";
import { end, KilledRuns, linesUpTo } from "./killed_run.ts";

const IN_FLIGHT = 8;
const start = { env: { PERIGEE_MAX_INFLIGHT: String(IN_FLIGHT) } };

let runs: KilledRuns;
beforeEach(async () => {
  runs = new KilledRuns();
  await runs.listen();
});
afterEach(() => runs.close());

const out = (): string => runs.path("out.jsonl");
const besides = (): string[] => readdirSync(runs.folder).filter((name) => name.startsWith("out.jsonl."));

/** Runs to the end; what it said on stderr. */
async function finish(): Promise<string> {
  const child = runs.start(start);
  let stderr = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  expect(await end(child)).toMatchObject({ code: 0 });
  return stderr;
}

function expectEach(count: number): void {
  expect(runs.keys().sort()).toEqual(
    linesUpTo(count)
      .map((line) => `k${line}`)
      .sort(),
  );
}

describe("lines that a person appends to the output of a killed run", () => {
  it("are kept in a file beside it, with a message on stderr, and an answer among them is not paid for again", async () => {
    const count = 200;
    runs.write(linesUpTo(count));
    await runs.kill(60, start);
    const answered = new Set(runs.keys());
    const open = linesUpTo(count).findLast((line) => !answered.has(`k${line}`)) ?? 0;
    const text = readFileSync(out(), "utf8");
    const torn = text.endsWith("\n") ? "" : "\n";
    appendFileSync(
      out(),
      `${torn}my note\n{"key":"k${open}","output":{"type":"text","text":"answer ${open}"}}\n`,
    );
    const asked = runs.asked.length;
    const stderr = await finish();
    expectEach(count);
    expect(stderr).toMatch(/^perigee: .*out\.jsonl held \d+ lines? that this run did not write/m);
    expect(stderr).toContain("out.jsonl.damaged\n");
    expect(readFileSync(`${out()}.damaged`, "utf8")).toContain("my note\n");
    expect(besides().sort()).toEqual(["out.jsonl.damaged", "out.jsonl.perigee"]);
    expect(runs.asked.slice(asked)).not.toContain(open);
  }, 60_000);
});

describe("an output that was moved away, repaired and put back", () => {
  it.each([
    ["as it was", false],
    ["compressed", true],
  ])(
    "is not paid for again: %s",
    async (_how, isCompressed) => {
      const count = 300;
      runs.write(linesUpTo(count));
      runs.treat = () => ({ afterMs: 1 });
      await finish();
      expect(runs.asked).toHaveLength(count);
      renameSync(out(), runs.path("moved.jsonl"));
      execFileSync(process.execPath, [MAIN, "repair", out()], { stdio: "ignore" });
      expect(existsSync(out())).toBe(true);
      const moved = readFileSync(runs.path("moved.jsonl"));
      writeFileSync(out(), isCompressed ? gzipSync(moved) : moved);
      expect(await finish()).not.toContain("perigee:");
      expectEach(count);
      expect(runs.asked).toHaveLength(count);
      expect(besides()).toEqual(["out.jsonl.perigee"]);
    },
    60_000,
  );
});
