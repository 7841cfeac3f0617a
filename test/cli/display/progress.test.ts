/** The display of a run as a terminal shows it, and as a file gets it. */
import { PassThrough } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AttemptCounts } from "../../../src/cli/display/attempt_counts.ts";
import { ProgressDisplay } from "../../../src/cli/display/progress.ts";
import { progressRows } from "../../../src/cli/display/progress_lines.ts";
import { cells, screenOf } from "../../../src/cli/display/terminal.ts";
import type { Progress } from "../../../src/engine/items/progress.ts";
import type { ProgressEvent } from "../../../src/engine/runs/progress_feed.ts";
import { FakeClock } from "../../../src/testing/fake_clock.ts";
import { TerminalGrid } from "./terminal_grid.ts";

const PROGRESS: Progress = {
  state: "running",
  linesTotal: 1_000,
  linesRead: 900,
  settled: 250,
  completed: 248,
  errors: 2,
  inFlight: 30,
  retrying: 0,
  itemsPerSecond: 12.4,
  tokensPerSecond: 4_200,
  billedUsd: 0.5,
  ambiguousUsd: 0,
  listUsd: 1,
  usd: 1,
  etaMs: 60_000,
  held: [],
  lanes: [{ lane: "openai:realtime:mini", state: "open", inFlight: 30, inFlightMax: 64 }],
};
const UTF8 = { LANG: "C.UTF-8", TERM: "xterm", NO_COLOR: "1" };

const event = (progress: Progress = PROGRESS): ProgressEvent => ({ type: "progress", progress });
const end = (status: "completed" | "stopped"): ProgressEvent => ({
  type: "end",
  status,
  progress: { ...PROGRESS, state: "done", settled: 1_000 },
});

function shownOn(
  { isTTY = true, columns = 80, rows = 24, env = UTF8, isQuiet = false } = {} as {
    isTTY?: boolean;
    columns?: number;
    rows?: number;
    env?: Record<string, string>;
    isQuiet?: boolean;
  },
) {
  const clock = new FakeClock();
  const counts = new AttemptCounts(() => clock.nowMs());
  const stream = Object.assign(new PassThrough(), { isTTY, columns, rows });
  const display = new ProgressDisplay(stream as unknown as NodeJS.WriteStream, {
    clock,
    env,
    counts,
    isQuiet,
  });
  const grid = new TerminalGrid(columns);
  const written = (): string => String(stream.read() ?? "");
  return { clock, counts, stream, display, written, rows: () => grid.write(written()) };
}

describe("on a terminal", () => {
  it("shows that it lives at once, and for how long it opens", async () => {
    const { display, clock, rows } = shownOn();
    display.open("out.jsonl.perigee");
    expect(rows()).toEqual(["opening  out.jsonl.perigee  0:00"]);
    await clock.advance(3_000);
    expect(rows()).toEqual(["opening  out.jsonl.perigee  0:03"]);
  });

  it("shows bar, share, counts, time left, time gone, cost so far and projected, retries, 429s and the median", async () => {
    const { display, clock, counts, rows } = shownOn({ columns: 100 });
    await clock.advance(31_000);
    for (const latencyMs of [400, 420, 900]) counts.attempted(attempt({ latencyMs }));
    for (let each = 0; each < 3; each += 1) counts.attempted(attempt({ code: "rate_limited" }));
    counts.attempted(attempt({ code: "timeout" }));
    await clock.advance(4_000);
    display.show(event());
    expect(rows()).toEqual([
      "running  ███████░░░░░░░░░░░░░░░░░░░░░░░  25%  250/1,000  ETA 1:00  0:35 elapsed",
      "12/s  $0.5000 billed of about $2.00  2 errors  4 retries, 3 429s  p50 420 ms  4.2k tok/s",
      "[openai 30/64 in flight]",
      "last error 0:04 ago: timeout by openai:mini",
    ]);
  });

  it("has a row for each model where there are several, with answers, median and refusals of its own", () => {
    const { display, counts, rows } = shownOn({ columns: 100 });
    counts.attempted(attempt({ latencyMs: 100 }));
    expect(
      progressRows(PROGRESS, { counts, elapsedMs: 0, nowMs: 0 }, screenOf(process.stderr, UTF8)).length,
    ).toBe(3);
    counts.attempted(attempt({ model: "anthropic:claude-haiku-4-5", latencyMs: 2_500 }));
    const claude = { model: "anthropic:claude-haiku-4-5" };
    counts.attempted(attempt({ ...claude, code: "rate_limited" }));
    counts.attempted(attempt({ ...claude, code: "invalid_request" }));
    counts.settled({ ...settled("invalid_request"), ...claude, billedUsd: 0.25 });
    display.show(event());
    expect(rows().slice(3, 5)).toEqual([
      "openai:mini                 1 answered  p50 100 ms",
      "anthropic:claude-haiku-4-5  1 answered  p50 2.5 s  $0.2500 billed  1 error  1 retry, 1 429",
    ]);
  });

  it("names the models of lanes of one provider, and only those", () => {
    const { display, rows } = shownOn({ columns: 100 });
    const lane = { state: "open", inFlight: 1, inFlightMax: 8 } as const;
    const lanes = [
      { ...lane, lane: "local:realtime:llama" },
      { ...lane, lane: "openai:realtime:mini" },
      { ...lane, lane: "local:realtime:qwen:7b" },
    ];
    display.show(event({ ...PROGRESS, lanes }));
    expect(rows().slice(2, 5)).toEqual([
      "[local:llama 1/8 in flight]",
      "[openai 1/8 in flight]",
      "[local:qwen:7b 1/8 in flight]",
    ]);
  });

  it("draws over what it drew, also when the terminal became narrower or wider meanwhile, and leaves one line", () => {
    for (const widths of [
      [80, 80],
      [100, 40],
      [40, 100],
      [80, 33, 120],
    ]) {
      const { display, stream, written } = shownOn({ columns: widths[0] as number });
      const grid = new TerminalGrid(widths[0] as number);
      grid.write("$ perigee run in.jsonl\r\n");
      for (const columns of widths) {
        stream.columns = columns;
        grid.resize(columns);
        display.show(event());
        display.note("warning: something");
        display.show(event());
        grid.write(written());
      }
      display.show(end("completed"));
      const rows = grid.write(written());
      const kept = rows.filter((row) => !row.startsWith("warning") && row !== "");
      expect([widths, kept.length, kept[0]]).toEqual([widths, 2, "$ perigee run in.jsonl"]);
      expect(kept[1]).toMatch(/^done {5}1,000\/1,000/);
    }
  });

  it("leaves nothing behind a run that was stopped, nor in front of a question", () => {
    const { display, rows } = shownOn();
    display.show(event());
    display.say("go on?");
    display.pause();
    display.show(event());
    expect(rows()).toEqual(["go on?"]);
    display.resume();
    display.show(event());
    display.show(end("stopped"));
    expect(rows()).toEqual(["go on?"]);
  });

  it("moves nothing that a shell wrote while the command was stopped", () => {
    const { display, stream, written } = shownOn();
    const grid = new TerminalGrid(80);
    display.show(event());
    grid.write(written());
    grid.write("\r\n[1]+ Stopped\r\n$ fg\r\n");
    display.forget();
    display.show(event());
    expect(grid.write(written())).toContain("[1]+ Stopped");
    expect(stream.isTTY).toBe(true);
  });

  it("never draws a row wider than the terminal, nor more rows than it has, and no control character of a name", () => {
    const name = fc.string({ unit: "binary", maxLength: 60 });
    fc.assert(
      fc.property(
        name,
        name,
        fc.integer({ min: 20, max: 200 }),
        fc.integer({ min: 2, max: 30 }),
        (model, message, columns, rows) => {
          const { counts, clock } = shownOn();
          counts.attempted(attempt({ model: `a:${model}` }));
          counts.attempted(attempt({ model: `b:${model}`, code: "timeout" }));
          const held = [
            {
              reason: "outage",
              provider: "a",
              address: model,
              since: "2026-01-01T00:00:00Z",
              next_try: null,
              items: 3,
              message,
            },
          ] as const;
          const progress: Progress = { ...PROGRESS, state: "paused", pausedBy: "outage", held };
          const screen = { columns, rows, isLive: true, isUnicode: true };
          const drawn = progressRows(progress, { counts, elapsedMs: 5, nowMs: clock.nowMs() }, screen);
          expect(drawn.length).toBeLessThan(rows);
          for (const row of drawn) {
            const text = row.map((part) => part.text).join("  ");
            expect(cells(text)).toBeLessThan(columns);
            // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
            expect(text).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
          }
        },
      ),
    );
  });
});

describe("elsewhere", () => {
  it.each([
    ["a file", { isTTY: false }],
    ["a dumb terminal", { env: { ...UTF8, TERM: "dumb" } }],
    ["a terminal on which decisions are printed", { env: { ...UTF8, PERIGEE_DEBUG: "queue" } }],
  ])(
    "on %s it is a plain line after half a second, every ten seconds, at a pause, and at the end",
    async (_, where) => {
      const { display, clock, written } = shownOn(where);
      display.open("out.jsonl.perigee");
      for (let each = 0; each < 84; each += 1) {
        await clock.advance(250);
        display.show(event());
      }
      display.show({
        type: "paused",
        reason: "quota",
        progress: { ...PROGRESS, state: "paused", pausedBy: "quota" },
      });
      display.show({ type: "resumed", progress: PROGRESS });
      display.show(end("completed"));
      const text = written();
      const elapsed = text
        .split("\n")
        .map((line) => [line.split(" ")[0], / (\d:\d\d) elapsed/.exec(line)?.[1]]);
      expect(elapsed).toEqual([
        ["running", "0:01"],
        ["running", "0:11"],
        ["running", "0:21"],
        ["paused", "0:21"],
        ["running", "0:21"],
        ["done", "0:21"],
        ["", undefined],
      ]);
      expect(text).not.toContain("\x1b");
      expect(text).not.toContain("\r");
    },
  );

  it("says that a run is opened where that takes longer than half a second", async () => {
    const { display, clock, written } = shownOn({ isTTY: false });
    display.open("out.jsonl.perigee");
    await clock.advance(400);
    expect(written()).toBe("");
    await clock.advance(200);
    expect(written()).toBe("opening  out.jsonl.perigee\n");
    display.close();
    await clock.advance(60_000);
    expect(written()).toBe("");
  });

  it("with --quiet it is nothing but what is said aloud", async () => {
    for (const isTTY of [true, false]) {
      const { display, clock, written } = shownOn({ isTTY, isQuiet: true });
      display.open("out.jsonl.perigee");
      await clock.advance(60_000);
      display.show(event());
      display.note("warning: something");
      display.show(end("completed"));
      expect(written()).toBe("");
      display.say("go on?");
      expect(written()).toBe("go on?\n");
    }
  });
});

describe("what is counted of requests", () => {
  it("takes a failure for a retry unless its item ended with it", () => {
    const counts = new AttemptCounts(() => 7);
    counts.attempted(attempt({ code: "timeout" }));
    counts.attempted(attempt({ code: "timeout" }));
    expect(counts.all).toMatchObject({ failed: 2, retries: 2 });
    counts.settled(settled("timeout"));
    counts.settled(settled("invalid_json"));
    expect(counts.all).toMatchObject({ failed: 2, retries: 1 });
    expect(counts.last).toEqual({ code: "invalid_json", atMs: 7 });
  });

  it("has the median of the last 256 answers", () => {
    const counts = new AttemptCounts(() => 0);
    for (let each = 0; each < 1_000; each += 1) counts.attempted(attempt({ latencyMs: each }));
    expect(counts.all).toMatchObject({ answered: 1_000, p50Ms: 872 });
  });

  it("names fifty models, and counts the others together", () => {
    const counts = new AttemptCounts(() => 0);
    for (let each = 0; each < 60; each += 1) counts.attempted(attempt({ model: `a:${each}` }));
    expect(counts.models).toHaveLength(51);
    expect(counts.models.at(-1)).toMatchObject({ model: "others", answered: 10 });
  });
});

type Attempt = Parameters<AttemptCounts["attempted"]>[0];

function attempt(given: Partial<Attempt>): Attempt {
  return {
    project: "",
    lane: "openai:realtime:mini",
    model: "openai:mini",
    code: undefined,
    usage: undefined,
    latencyMs: 1,
    ...given,
  } as Attempt;
}

function settled(code: NonNullable<Attempt["code"]>): Parameters<AttemptCounts["settled"]>[0] {
  const taken = { inputTokens: 0, outputTokens: 0, listUsd: 0, usd: 0, billedUsd: 0, ambiguousUsd: 0 };
  return { project: "", status: "failed", code, ...taken };
}
