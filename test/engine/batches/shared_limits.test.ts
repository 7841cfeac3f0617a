/** Batches of several models under limits that these share: their rests wait for the same requests a minute. In virtual time. */
import { describe, expect, it } from "vitest";
import { type SimulationEvent, simulate } from "../../../src/testing/index.ts";

const PRICES = { "openai:*": { inputUsdPerMillion: 1, outputUsdPerMillion: 4 } };
const SECONDS = { p50: 30, p90: 60, p99: 90 };

function itemsOf(models: readonly string[], count: number) {
  return Array.from({ length: count }, (_, index) => ({
    key: `k${index}`,
    model: `openai:${models[index % models.length]}`,
    input: `question ${index}`,
    max_output_tokens: 64,
  }));
}

describe("batches of models that share the limits of their provider", () => {
  it.each([
    [["gpt-5-mini"]],
    [["gpt-5-mini", "gpt-4o-mini"]],
    [["gpt-5-mini", "gpt-4o-mini", "gpt-4.1-mini"]],
  ])("are left so early that realtime does the rest of all of them in time: %j", async (models) => {
    const { summary } = await simulate({
      config: {
        prices: PRICES,
        limits: { openai: { requestsPerMinute: 80 } },
        lanes: { priors: { batch: SECONDS } },
      },
      providers: {
        openai: {
          latency: { p50: 4, p90: 8, p99: 15 },
          requestsPerMinute: 80,
          batch: { latency: SECONDS, stuckShare: 1, cancelSeconds: 300 },
        },
      },
      items: itemsOf(models, 201),
      run: { sla: 15, lanes: { deny: ["flex"] } },
    });
    expect(summary.counts).toMatchObject({ completed: 201, expired: 0 });
  });

  it("count against the shared limit and not against the narrower one of another model", async () => {
    const cancelled: SimulationEvent[] = [];
    const { summary, requests } = await simulate({
      config: {
        prices: PRICES,
        limits: { openai: { requestsPerMinute: 6_000 }, "openai:gpt-4o-mini": { requestsPerMinute: 40 } },
        lanes: { priors: { batch: SECONDS }, minItems: 10 },
      },
      providers: { openai: { batch: { latency: { p50: 400, p90: 400, p99: 400 } } } },
      items: [...itemsOf(["gpt-4o-mini", "gpt-5-mini"], 60), ...itemsOf(["gpt-5-mini"], 1_200)].map(
        (item, index) => ({ ...item, key: `k${index}` }),
      ),
      run: { sla: 20, lanes: { deny: ["flex"] } },
      check: (event) => {
        if (event.type === "batch" && event.state === "cancelling") cancelled.push(event);
      },
    });
    expect(summary.counts).toMatchObject({ completed: 1_260, expired: 0 });
    expect(cancelled).toEqual([]);
    expect(requests.filter(({ lane }) => lane !== "batch")).toEqual([]);
  });
});
