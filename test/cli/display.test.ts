import { describe, expect, it } from "vitest";
import { commandLine } from "../../src/cli/command_line.ts";
import { AttemptCounts } from "../../src/cli/display/attempt_counts.ts";
import { holdsReport } from "../../src/cli/display/holds.ts";
import { progressLine } from "../../src/cli/display/progress_lines.ts";
import { count, duration, percent, short } from "../../src/cli/numbers.ts";
import { continueLine } from "../../src/cli/run/continue.ts";
import { cancellingText } from "../../src/cli/run/left_batches.ts";
import { summaryTable } from "../../src/cli/run/summary.ts";
import type { Progress, Summary } from "../../src/engine/items/progress.ts";
import { usdText } from "../../src/price/money.ts";

const PROGRESS: Progress = {
  state: "running",
  linesTotal: 100_000,
  linesRead: 50_000,
  settled: 12_345,
  completed: 12_343,
  errors: 2,
  inFlight: 300,
  retrying: 0,
  itemsPerSecond: 9_512,
  tokensPerSecond: 4_200_000,
  billedUsd: 1.5,
  ambiguousUsd: 0,
  listUsd: 3,
  usd: 1,
  deadlineInMs: 3_600_000,
  etaMs: 9_200,
  held: [],
  lanes: [
    {
      lane: "openai:realtime:gpt-4o-mini",
      state: "cooldown",
      inFlight: 300,
      inFlightMax: 512,
      requestsShare: 0.97,
      tokensShare: 0.4,
    },
  ],
};

const SUMMARY: Summary = {
  status: "completed",
  task_id: "6d626736-7613-45dc-b0df-6a79c263836d",
  items: 3,
  counts: { submitted: 0, completed: 2, failed: 1, expired: 0, cancelled: 0 },
  errors: { invalid_json: 1 },
  warnings: { "dropped:temperature": 2 },
  usage: {
    input_tokens: 1_200,
    cached_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: 34,
    reasoning_tokens: 0,
    attempts: 2,
    ambiguous_attempts: 0,
  },
  cost: {
    billed_usd: 3,
    ambiguous_usd: 0,
    list_usd: 3,
    usd: 2,
    is_estimated: true,
    prices: [],
    price_source: "list of today",
  },
  output: "/out.jsonl",
  elapsed_ms: 2_000,
  requests_sent: 2,
  held: [],
};

describe("the progress line of a run with batches", () => {
  const line = (batched: Progress["batched"]) =>
    progressLine({ ...PROGRESS, ...(batched === undefined ? {} : { batched }) });

  it("says how many items are there, how many of them are done, and when the provider is asked again", () => {
    expect(line({ items: 812, finished: 310, nextPollInMs: 42_000 })).toContain(
      "  812 with batches, 310 done there, asked again in 0:42  ",
    );
  });

  it("says no number of finished items where the provider shows none, and no time while it is asked", () => {
    expect(line({ items: 1_200 })).toContain("  1,200 with batches  ");
  });

  it("says why batches are not submitted yet", () => {
    const waits = { items: 200, message: "Enqueued token limit reached" };
    expect(line({ items: 300, finished: 0, nextPollInMs: 5_000, waits })).toContain(
      "300 with batches, 0 done there, asked again in 0:05, 200 not submitted yet: Enqueued token limit reached",
    );
  });

  it("says nothing of batches without any", () => {
    expect(line(undefined)).not.toContain("batches");
  });

  it("is followed by what a cancelled run waits for, and how to stop waiting", () => {
    expect(cancellingText([{ id: "batch_1", provider: "openai" }])).toBe(
      "waiting for batch_1 of openai to be cancelled, up to 15 min: what they have finished is kept. Ctrl-C twice stops waiting; the same command goes on",
    );
  });
});

describe("numbers", () => {
  it("are written as people read them", () => {
    expect([count(1_234_567), count(0.4)]).toEqual(["1,234,567", "0"]);
    expect([0, 999, 1_200, 12_345, 3.4e6, 5.6e9].map(short)).toEqual([
      "0",
      "999",
      "1.2k",
      "12k",
      "3.4M",
      "5.6G",
    ]);
    expect([0, 0.00123, 0.5, 12.345].map(usdText)).toEqual(["$0.00", "$0.0012", "$0.5000", "$12.35"]);
    expect([-5, 7_000, 754_000, 10_800_000, 183_600_000].map(duration)).toEqual([
      "0:00",
      "0:07",
      "12:34",
      "3:00:00",
      "2d 03:00",
    ]);
    expect(percent(0.874)).toBe("87%");
  });

  it("below a cent keep two digits and never turn into powers of ten", () => {
    expect(usdText(0.000000012)).toBe("$0.000000012");
  });
});

describe("the progress line", () => {
  it("tells the share, the time left against the deadline, rates, errors, money and limits", () => {
    expect(progressLine(PROGRESS)).toBe(
      "running  12,345/100,000 12%  ETA 0:09 of 1:00:00  9.5k/s  2 errors  $1.50 billed of about $12.15  4.2M tok/s  " +
        "[openai rpm 97%, tpm 40%, 300/512 in flight, cooldown]",
    );
  });

  it("says how many lines were answered from the cache", () => {
    expect(progressLine({ ...PROGRESS, cached: 1_200 })).toContain("  1,200 from the cache  ");
  });

  it("says that the cost is unknown, or a lower bound, where a model has no known price", () => {
    const hasUnpriced = true;
    expect(progressLine({ ...PROGRESS, hasUnpriced })).toContain("  at least $1.50 billed  ");
    expect(progressLine({ ...PROGRESS, hasUnpriced, billedUsd: 0 })).toContain("  billed: unknown  ");
  });

  it("says that an item which is larger than a limit waits for an empty minute", () => {
    const [lane] = PROGRESS.lanes;
    if (lane === undefined) throw new Error("no lane");
    const { tokensShare: _, ...rest } = lane;
    const oversized = { tokens: 5_200, limit: 4_000, waitMs: 42_000 };
    const lanes = [{ ...rest, state: "open" as const, inFlight: 0, oversized }];
    expect(progressLine({ ...PROGRESS, lanes })).toMatch(
      / \[openai rpm 97%, 0\/512 in flight, waits 0:42 to send an item of 5,200 tokens by itself \(limit 4,000\)\]$/,
    );
  });

  it.each([
    [{ tier: "flex" as const, inFlight: 40, inFlightMax: 64, refusedShare: 0 }, "40 of them flex]"],
    [{ tier: "flex" as const, inFlight: 0, inFlightMax: 64, refusedShare: 0 }, "in flight]"],
    [{ tier: "offpeak" as const, beginsInMs: 7_380_000 }, "in flight, waits 2:03:00 for cheaper hours]"],
    [{ tier: "offpeak" as const }, "in flight]"],
  ])("says of a lane what is in a cheaper tier, or waits for cheaper hours", (cheaper, text) => {
    const lanes = [{ lane: "a:realtime:b", state: "open" as const, inFlight: 50, inFlightMax: 64, cheaper }];
    expect(progressLine({ ...PROGRESS, lanes })).toContain(text);
  });

  it("counts the items that are tried again, unless it says what holds them", () => {
    expect(progressLine({ ...PROGRESS, retrying: 12 })).toMatch(/ 12% {2}12 to try again {2}ETA /);
    const retry = { code: "overloaded", message: "openai answered 503", nextTryInMs: 12_000 } as const;
    expect(progressLine({ ...PROGRESS, retrying: 1, retry })).toMatch(
      / 12% {2}1 to try again: openai answered 503; next try in 0:12 {2}ETA /,
    );
    expect(progressLine({ ...PROGRESS, noAnswerMs: 240_000 })).toMatch(/ 12% {2}no answer for 4:00 {2}ETA /);
    const since = "2026-01-01T00:00:00.000Z";
    const held = [{ reason: "outage", since, next_try: null, items: 12, message: "" }] as const;
    expect(progressLine({ ...PROGRESS, retrying: 12, held })).not.toContain("try again");
  });

  it("names the variable of a key that its provider does not accept, or the place of the configuration where it is set", () => {
    const since = new Date(0).toISOString();
    const address = "https://api.openai.com";
    const of = (provider: string) =>
      ({ reason: "authentication", since, next_try: null, items: 12, provider, message: "401" }) as const;
    const said = (hold: Progress["held"][number], place?: string) =>
      progressLine(
        { ...PROGRESS, held: [hold] },
        {
          counts: new AttemptCounts(() => 0),
          elapsedMs: 0,
          nowMs: 0,
          keyPlace: place === undefined ? undefined : () => place,
        },
      );
    expect(said({ ...of("openai"), address })).toContain("; set a key that openai accepts (OPENAI_API_KEY)");
    expect(said({ ...of("box"), address })).toContain("(PERIGEE_PROVIDER_BOX_KEY)");
    const place = "providers.openai.key in perigee.config.yaml";
    expect(said({ ...of("openai"), address }, place)).toContain(`; set a key that openai accepts (${place})`);
    expect(said(of("own"))).toContain("; correct the key that the function of own uses");
  });

  it("says of a run that has stopped how long the next call waits, if the provider asked for it", () => {
    const nowMs = Date.parse("2026-01-01T00:00:00.000Z");
    const hold = { reason: "rate_limited", since: "", items: 2, provider: "openai", message: "429" } as const;
    const words = "held  2 items: rate_limited: openai limits the rate: 429";
    expect(holdsReport([{ ...hold, next_try: "2026-01-01T00:09:32.000Z" }], nowMs)).toBe(
      `${words}; the next call sends nothing for 9:32\n`,
    );
    expect(holdsReport([{ ...hold, next_try: null }], nowMs)).toBe(`${words}\n`);
  });

  it("names what pauses a run before anything that a narrow terminal cuts", () => {
    const { etaMs: _eta, ...rest } = PROGRESS;
    expect(progressLine({ ...rest, state: "paused", pausedBy: "openai quota" })).toMatch(
      /^paused {3}12,345\/100,000 12% {2}by openai quota {2}ETA \? of 1:00:00/,
    );
  });

  it("says that the end is not known while that depends on a provider", () => {
    const { etaMs: _eta, deadlineInMs: _deadline, ...rest } = PROGRESS;
    expect(progressLine(rest)).toMatch(/^running {2}12,345\/100,000 12% {2}ETA \? {2}9\.5k\/s/);
  });

  it("while the input is read tells no total that it does not know", () => {
    const { linesTotal: _total, deadlineInMs: _deadline, etaMs: _eta, ...rest } = PROGRESS;
    expect(progressLine({ ...rest, state: "reading", lanes: [] })).toMatch(/^reading {2}12,345 {2}9\.5k\/s/);
  });
});

describe("the summary", () => {
  it("tells items, errors by code, tokens, cost, time and where the answers are", () => {
    expect(summaryTable(SUMMARY)).toBe(
      [
        "items           3 (2 answered, 1 with an error)",
        "  invalid_json  1",
        "warning         2 items with temperature left out",
        "tokens          1,200 in, 34 out",
        "billed          $3.00 (list of today, partly estimated)",
        "time            2.0 s (2 requests, 1/s)",
        "answers         /out.jsonl",
        "",
      ].join("\n"),
    );
  });

  it.each([
    [8, 3, 1, "\nsaved           $4.00 (50 % of the list price, $8.00)\n"],
    [8, 3, 5, undefined], // what is in doubt may have been billed
    [3, 3, 0, undefined],
    [0, 0, 0, undefined],
  ])(
    "says what was saved for certain, of a list price of %d, %d billed and %d in doubt",
    (list, billed, doubt, row) => {
      const cost = { ...SUMMARY.cost, list_usd: list, billed_usd: billed, ambiguous_usd: doubt };
      const table = summaryTable({ ...SUMMARY, cost });
      if (row === undefined) expect(table).not.toContain("saved");
      else expect(table).toContain(row);
    },
  );

  it("names models without a known price", () => {
    const known = { source: "config", as_of: "2026-11-01", matched_model: "a:*", is_exact: true };
    const unknown = { source: null, as_of: null, matched_model: null, is_exact: false };
    const prices = [
      { ...known, model: "a:0" },
      ...[1, 2, 3, 4, 5, 6, 7].map((name) => ({ ...unknown, model: `b:${name}` })),
    ];
    expect(summaryTable({ ...SUMMARY, cost: { ...SUMMARY.cost, prices } })).toMatch(
      /\nno price +b:1, b:2, b:3, b:4, b:5 and 2 more: counted as \$0, which no --max-cost can bound\ntime/,
    );
  });

  it.each([
    [0, 0, "unknown", "unknown"],
    [1.5, 0.25, "at least $1.50", "at most $0.2500 where the price is known"],
  ])(
    "says which amounts are unknown without a price (%d, %d)",
    (billed_usd, ambiguous_usd, billed, doubt) => {
      const price = { model: "b:1", source: null, as_of: null, matched_model: null, is_exact: false };
      const cost = { ...SUMMARY.cost, billed_usd, ambiguous_usd, prices: [price] };
      const usage = { ...SUMMARY.usage, ambiguous_attempts: 3 };
      const table = summaryTable({ ...SUMMARY, cost, usage });
      expect(table).toContain(`\nbilled          ${billed} (`);
      expect(table).toContain(`\nin doubt        ${doubt} (3 attempts `);
    },
  );

  it("tells of attempts that may have been billed for nothing", () => {
    const usage = { ...SUMMARY.usage, ambiguous_attempts: 3 };
    const cost = { ...SUMMARY.cost, ambiguous_usd: 0.25 };
    expect(summaryTable({ ...SUMMARY, cost, usage })).toMatch(
      /\nbilled .*\nin doubt +at most \$0\.2500 \(3 attempts may have been billed without an answer\)\ntime/,
    );
  });
});

describe("money in doubt without attempts in doubt", () => {
  it("is said to be of answers without a usable token count", () => {
    const cost = { ...SUMMARY.cost, ambiguous_usd: 0.25 };
    expect(summaryTable({ ...SUMMARY, cost })).toMatch(
      /\nin doubt +at most \$0\.2500 \(answers without a usable token count, billed as estimated\)\ntime/,
    );
  });

  it.each([
    [1e21, "$1000000000000000000000.00"],
    [1.5e43, `$${BigInt(1.5e43)}.00`],
  ])("is written without an exponent, however much it is (%d)", (usd, text) => {
    const cost = { ...SUMMARY.cost, ambiguous_usd: usd };
    expect(summaryTable({ ...SUMMARY, cost })).toContain(`at most ${text} (`);
  });
});

describe("the command to continue with", () => {
  it("can be copied into a shell", () => {
    expect(commandLine(["run", "my file.jsonl", "--out", "it's.jsonl", "--sla", "60"])).toBe(
      "perigee run 'my file.jsonl' --out 'it'\\''s.jsonl' --sla 60",
    );
  });

  it.each([
    [
      { reason: "cap_reached", needed_usd: 1.04, enough_usd: 2.04 },
      "raise the cap to at least $1.1 ($2.1 is enough for all): perigee run in.jsonl --store s --max-cost <usd>",
    ],
    [
      { reason: "cap_reached", cap: "all" },
      'raise the cap, in the configuration ("all"), at the workers: perigee run in.jsonl --store s --max-cost 1',
    ],
    [
      { reason: "key_missing", provider: "openai" },
      "set OPENAI_API_KEY, at the workers: perigee run in.jsonl --store s --max-cost 1",
    ],
    [
      { reason: "price_unknown", model: "box:m" },
      'give the workers a price sheet, {"version": "1", "models": {"box:m": {"input_mtok": <usd>, "output_mtok": <usd>}}}: perigee run in.jsonl --store s --max-cost 1',
    ],
    [
      { reason: "model_unavailable", provider: "box", model: "box:m" },
      "let box offer box:m to the key of the workers: perigee run in.jsonl --store s --max-cost 1",
    ],
    [{ reason: "outage", provider: "box" }, "perigee run in.jsonl --store s --max-cost 1"],
  ] as const)("over a fleet changes the cap, and names what its workers need (%j)", (hold, said) => {
    const words = ["run", "in.jsonl", "--store", "s", "--max-cost", "1"];
    expect(continueLine({ words, held: [hold], isOnFleet: true })).toBe(`to continue: ${said}\n`);
  });

  describe("with a deadline", () => {
    const words = ["run", "in.jsonl", "--out", "out.jsonl", "--sla", "10", "--wait", "0"];
    const said = (deadlineInMs: number, held: Parameters<typeof continueLine>[0]["held"]): string =>
      continueLine({ words, held, sla: 10, deadlineInMs });

    it("says until when it works", () => {
      expect(said(312_000, [{ reason: "quota", provider: "mybox" }])).toBe(
        `to continue: add credit to the account of mybox: perigee ${words.join(" ")}\n` +
          "what is left expires in 5:12, also while nothing runs; another --sla counts from its call\n",
      );
    });

    it.each([
      [-1, "whose deadline has passed"],
      [42_000, "whose deadline ends in 0:42"],
    ])("has another --sla when what is left would expire (%i ms)", (inMs, why) => {
      const command = "perigee run in.jsonl --out out.jsonl --wait 0 --sla <minutes>";
      expect(said(inMs, [])).toBe(`to continue: choose an --sla other than 10, ${why}: ${command}\n`);
      expect(said(inMs, [{ reason: "outage", provider: "mybox" }])).toBe(
        `to continue (--finish ends what is held with its error): choose an --sla other than 10, ${why}: ${command}\n`,
      );
      expect(said(inMs, [{ reason: "cap_reached", needed_usd: 1 }])).toBe(
        `to continue: raise the cap to at least $1.0; choose an --sla other than 10, ${why}: perigee run in.jsonl --out out.jsonl --wait 0 --max-cost <usd> --sla <minutes>\n`,
      );
    });
  });
});
