/**
 * PERIGEE_DEBUG: decisions on standard error, by word.
 */
import { afterEach, describe, expect, it } from "vitest";
import { DEBUG_WORDS, type DebugWord, setDebug } from "../../src/debug.ts";
import { finish } from "./runs.ts";
import { ok, status, World } from "./world.ts";

const clock = { wallMs: () => Date.UTC(2026, 0, 1) };
afterEach(() => setDebug("", clock));

/** Lines of a run of two items, of which the first fails once, with these words. */
async function said(words: readonly DebugWord[]): Promise<string[]> {
  const lines: string[] = [];
  setDebug(words.join(","), clock, (line) => lines.push(line));
  const world = new World({ config: { maxInFlight: 1, limits: { alpha: { requestsPerMinute: 60 } } } });
  world.input(2);
  world.answer = (line, attempt) => (line === 1 && attempt === 1 ? status(503, "busy") : ok(line));
  await finish(world);
  return lines;
}

describe("PERIGEE_DEBUG", () => {
  it.each([
    ["queue", /^2026-01-01T00:00:00\.000Z queue: line 1 of \S+: request 2 to alpha:m1 in alpha/m],
    ["limits", /limits: alpha\S* waits \S+ ms: [a-z]+$/m],
    ["attempts", /attempts: line 1 of \S+: overloaded by alpha\S* after \d+\.\d ms$/m],
    ["attempts", /attempts: overloaded after request 1: repeated after \d+ ms$/m],
    ["holds", /holds: alpha\S* is in trouble: outage \([\s\S]*holds: alpha:realtime:m1 answers again$/m],
    ["commits", /commits: a step of 1 runs is durable after \d+\.\d ms$/m],
  ] as const)("logs what %s decides", async (word, expected) => {
    const lines = await said([word]);
    expect(lines.join("")).toMatch(expected);
    expect(lines.every((line) => line.startsWith(`2026-01-01T00:00:00.000Z ${word}: `))).toBe(true);
    expect(lines.join("")).not.toContain("hello"); // no text of an item
  });

  it("logs several words, and nothing without them", async () => {
    const words = new Set((await said(["queue", "commits"])).map((line) => line.split(" ")[1]));
    expect(words).toEqual(new Set(["queue:", "commits:"]));
    expect(await said([])).toEqual([]);
  });

  it("refuses a word that it does not know, with the one that was meant", () => {
    expect(() => setDebug("queue,limit", clock)).toThrow(
      'PERIGEE_DEBUG: "limit" is not a known word; did you mean "limits"?',
    );
    expect(DEBUG_WORDS).toContain("limits");
  });
});
