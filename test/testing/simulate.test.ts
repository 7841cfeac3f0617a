/**
 * `simulate` of perigee/testing: the engine against providers that behave as stated.
 */
import { describe, expect, it } from "vitest";
import { type SimulationOptions, simulate } from "../../src/testing/index.ts";

function itemsOf(count: number, model = "openai:gpt-4o-mini"): SimulationOptions["items"] {
  return Array.from({ length: count }, (_, index) => ({
    key: `k${index}`,
    request: {
      model,
      contents: [{ role: "user", parts: [{ text: `question ${index}` }] }],
      generation_config: { max_output_tokens: 50 },
    },
  }));
}

describe("simulate", () => {
  it("ends the same way for the same seed", async () => {
    const options = {
      items: itemsOf(60),
      providers: { openai: { failures: [{ kind: "error", share: 0.2 }] } },
    } as const;
    const [first, again] = [await simulate({ ...options, seed: 3 }), await simulate({ ...options, seed: 3 })];
    expect(again.requests).toEqual(first.requests);
    expect(again.elapsedMs).toBe(first.elapsedMs);
    expect(first.summary.counts.completed).toBe(60);
    expect(first.requests.length).toBeGreaterThan(60);
  });

  it("answers in the protocols of OpenAI, Anthropic and Gemini, and bills what their books say", async () => {
    for (const model of ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5", "gemini:gemini-2.5-flash"]) {
      const { summary, lines, requests } = await simulate({ items: itemsOf(20, model) });
      expect(summary.counts.completed).toBe(20);
      expect(lines.map(({ output }) => output?.text)).toEqual(Array(20).fill("ok"));
      const output = requests.reduce((sum, { outputTokens }) => sum + outputTokens, 0);
      expect(summary.usage.outputTokens).toBe(output);
    }
  });

  it("refuses what is above a minute's limit, and the engine stays below it", async () => {
    const { requests, elapsedMs, summary } = await simulate({
      config: { limits: { openai: { requestsPerMinute: 30 } } },
      providers: { openai: { requestsPerMinute: 30 } },
      items: itemsOf(60),
    });
    expect(summary.counts.completed).toBe(60);
    expect(requests.filter(({ outcome }) => outcome === "limited")).toEqual([]);
    expect(elapsedMs).toBeGreaterThan(55_000);
    const without = await simulate({ providers: { openai: { requestsPerMinute: 30 } }, items: itemsOf(60) });
    expect(without.requests.some(({ outcome }) => outcome === "limited")).toBe(true);
  });

  it("runs batches, and answers the rest of one that is stuck in realtime before the deadline", async () => {
    const lanes = { deny: ["flex"], priors: { batch: { p50: 60, p90: 120, p99: 240 } } };
    const latency = { p50: 60, p90: 90, p99: 120 };
    const states: string[] = [];
    const whole = await simulate({
      config: { lanes },
      providers: { openai: { batch: { latency } } },
      items: itemsOf(150),
      run: { sla: 60 },
      check: (event) => void (event.type === "batch" && states.push(event.state)),
    });
    expect(states).toEqual(["created", "ended"]);
    expect(whole.requests.map(({ lane }) => lane)).toEqual(Array(150).fill("batch"));
    expect(whole.summary.cost.billedUsd).toBeCloseTo(whole.summary.cost.listUsd / 2, 9);
    const stuck = await simulate({
      config: { lanes },
      providers: { openai: { batch: { latency, stuckShare: 1 } } },
      items: itemsOf(150),
      run: { sla: 60 },
    });
    expect(stuck.summary.counts.completed).toBe(150);
    expect(stuck.elapsedMs).toBeLessThan(3_600_000);
    expect(stuck.requests.filter(({ lane }) => lane === "batch").length).toBe(75);
    expect(stuck.requests.filter(({ lane }) => lane === "realtime").length).toBe(75);
  });

  it("rejects with what a check throws", async () => {
    const check = (event: { readonly type: string }): void => {
      if (event.type === "line") throw new Error("not this line");
    };
    await expect(simulate({ items: itemsOf(5), check })).rejects.toThrow("not this line");
  });

  it("rejects with what an answer throws", async () => {
    const answer = (): string => {
      throw new Error("no answer");
    };
    await expect(simulate({ items: itemsOf(3), providers: { openai: { answer } } })).rejects.toThrow(
      "no answer",
    );
  });

  it("rejects once where its input cannot be read, and leaves no rejection that nobody handles", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    try {
      const items = "missing.jsonl" as unknown as SimulationOptions["items"];
      await expect(simulate({ items })).rejects.toMatchObject({ code: "input_unreadable" });
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off("unhandledRejection", note);
    }
    expect(unhandled).toEqual([]);
  });

  it.each([
    [{ provider: {} }, 'simulate: "provider" is not a known name; did you mean "providers"?'],
    [
      { providers: { openai: { flexShedd: 0.5 } } },
      'simulate at providers.openai: "flexShedd" is not a known name; did you mean "flexShed"?',
    ],
    [
      { providers: { openai: { latency: { p50: 5, p90: 2, p99: 3 } } } },
      "simulate at providers.openai.latency: quantiles must rise: p50 <= p90 <= p99",
    ],
    [{ providers: { openai: { flexShed: 2 } } }, "simulate at providers.openai.flexShed: "],
    [{ providers: { openai: { failures: [{ kind: "explode" }] } } }, "at providers.openai.failures.0.kind: "],
    [{ seed: 1.5 }, "simulate at seed: "],
    [{ wallMs: Number.NaN }, "simulate at wallMs: "],
  ])("refuses %j", async (options, message) => {
    const given = { items: itemsOf(1), ...options } as unknown as SimulationOptions;
    await expect(simulate(given)).rejects.toThrow(message);
  });
});
