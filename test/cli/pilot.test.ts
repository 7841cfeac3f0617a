/** `perigee run --pilot`: what it prints, and when it asks. */
import { PassThrough } from "node:stream";
import { afterAll, describe, expect, it } from "vitest";
import { pilotListener } from "../../src/cli/run/pilot.ts";
import { quote } from "../../src/price/quote.ts";
import { openDesk, question } from "./command.ts";

const desk = openDesk();
afterAll(() => desk.remove());

/** The quote of so many items. */
const restOf = (items: number): ReturnType<typeof quote> => ({
  ...quote({
    totals: [],
    wallMs: 0,
    slasMinutes: [],
    price: () => undefined,
    basis: "ceiling",
    rejectedLines: 0,
    volumeTokens: 0,
    times: new Map(),
    assumptions: { first_token_ms: 1, output_tokens_per_second: 1 },
  }),
  items,
});

/** Asks on a terminal, which types `typed` and may end; returns the answer and the text on the terminal. */
async function asked(typed: string, options: { isTTY?: boolean; isSure?: boolean } = {}) {
  const { isTTY = true, isSure = false } = options;
  const input = Object.assign(new PassThrough(), { isTTY });
  const output = Object.assign(new PassThrough(), { isTTY });
  const shown: string[] = [];
  output.on("data", (bytes: Buffer) => shown.push(bytes.toString()));
  const display = {
    note: (text: string) => shown.push(text),
    say: (text: string) => shown.push(text),
    pause: () => shown.push("<paused>"),
    resume: () => shown.push("<resumed>"),
  };
  const run = new AbortController();
  if (typed === "run over before") run.abort();
  const answer = pilotListener(display, { input, output }, { isSure, signal: run.signal })(restOf(9_950));
  if (typed === "run over") run.abort();
  else if (typed !== "run over before") input.end(typed);
  return { isOn: await answer, shown: shown.join("") };
}

describe("after a pilot", () => {
  it("is asked on a terminal, and only a yes goes on", async () => {
    for (const [typed, isOn] of [
      ["y\n", true],
      [" YES \n", true],
      ["n\n", false],
      ["\n", false],
      ["", false],
      ["run over", false],
    ] as const)
      expect(await asked(typed)).toEqual({
        isOn,
        shown:
          "after the pilot, the other 9,950 items:\n\n<paused>go on with the other 9,950 items? [y/N] <resumed>",
      });
  });

  it("is a no when the run was over before it could be asked", async () => {
    expect(await asked("run over before")).toMatchObject({ isOn: false });
  });

  it("is not asked where there is no terminal, nor with --yes", async () => {
    for (const options of [{ isTTY: false }, { isSure: true }])
      expect(await asked("n\n", options)).toEqual({
        isOn: true,
        shown: "after the pilot, the other 9,950 items:\n\n",
      });
  });
});

describe("perigee run --pilot", () => {
  it("prints the quote of the rest, and goes on where nobody can be asked", async () => {
    desk.write(
      "in.jsonl",
      Array.from({ length: 80 }, (_, at) => question(`k${at}`)),
    );
    const { code, stderr } = await desk.perigee(["run", "in.jsonl", "--out", "out.jsonl", "--pilot", "50"]);
    expect(code).toBe(0);
    expect(stderr).toMatch(/after the pilot, the other 30 items:\n\necho:test\n +items +30\n/);
    expect(stderr).toMatch(/output tokens .*learnt of the system prompt from 50 answers/);
    expect(desk.lines("out.jsonl")).toHaveLength(80);
  });

  it("refuses what is not a number of items", async () => {
    const { code, stderr } = await desk.perigee([
      "run",
      "in.jsonl",
      "--out",
      "none.jsonl",
      "--pilot",
      "some",
    ]);
    expect(code).toBe(2);
    expect(stderr).toContain("It must be a number of items from 1, such as 50.");
  });
});
