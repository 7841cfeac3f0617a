/** How fast a lane's use grows: as configured, as a provider asks, and over restarts. */
import { describe, expect, it } from "vitest";
import { checkOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { openaiAnswer } from "../../src/testing/index.ts";
import { killedAfter } from "./runs.ts";
import { status, World } from "./world.ts";

const MINUTE_MS = 60_000;

/** Answers that take a hundred thousand input tokens each. */
const large = (line: number) => openaiAnswer(`answer ${line}`, { inputTokens: 100_000, outputTokens: 5 });

function sentIn(world: World, fromMs: number, toMs: number): number {
  return world.sent.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).length;
}

describe("a ramp", () => {
  it.each(["slow_down", "ramp_limit_exceeded"])(
    "begins with a refusal: %s takes use down by a third, and up by half after 15 minutes, over a restart too",
    async (code) => {
      let isRefused = false;
      const world = new World({
        config: { limits: { alpha: { requestsPerMinute: 60 } } },
        answer: (line) => {
          if (isRefused || world.clock.nowMs() < 5 * MINUTE_MS) return large(line);
          isRefused = true;
          return status(429, code, { "retry-after": "2" });
        },
      });
      world.input(1_500);
      await killedAfter(world, 11 * MINUTE_MS);
      expect(sentIn(world, MINUTE_MS, 5 * MINUTE_MS)).toBeGreaterThan(0.97 * 60 * 4);
      expect(sentIn(world, 7 * MINUTE_MS, 10 * MINUTE_MS) / 3).toBeGreaterThan(37);
      await world.clock.advance(2 * MINUTE_MS);
      await killedAfter(world, 17 * MINUTE_MS); // to minute 30
      for (let minute = 6; minute < 20; minute += 1)
        expect(sentIn(world, minute * MINUTE_MS, (minute + 1) * MINUTE_MS)).toBeLessThanOrEqual(40);
      expect(sentIn(world, 14 * MINUTE_MS, 19 * MINUTE_MS) / 5).toBeGreaterThan(37);
      // The process that died in minute 11 had proven its level until then: 15 minutes count from there.
      expect(sentIn(world, 27 * MINUTE_MS, 30 * MINUTE_MS) / 3).toBeGreaterThan(0.97 * 60);
    },
  );

  it("that is configured holds from the start, for each family of models by itself", async () => {
    const world = new World({
      config: {
        providers: {
          alpha: {
            baseUrl: "http://alpha.test/v1",
            key: "k",
            ramp: { inputTokensPerMinute: 2_000_000, growth: 0.5, minutes: 2 },
          },
        },
        limits: { alpha: { requestsPerMinute: 120 }, "alpha:m1": { concurrency: 4 } },
      },
      answer: (line) => large(line),
    });
    world.input(400, (line) => `alpha:m${line % 2}`);
    await killedAfter(world, 6 * MINUTE_MS);
    const perMinute = [1, 4].map((minute) => sentIn(world, minute * MINUTE_MS, (minute + 1) * MINUTE_MS));
    expect(perMinute[0]).toBeLessThanOrEqual(40);
    expect(perMinute[0]).toBeGreaterThan(36);
    expect(perMinute[1]).toBeGreaterThan(54);
  });

  it("does not limit a lane below its threshold, or one whose ramp is off", async () => {
    for (const ramp of [{ inputTokensPerMinute: 6_100_000 }, false] as const) {
      const world = new World({
        config: {
          providers: { alpha: { baseUrl: "http://alpha.test/v1", key: "k", ramp } },
          limits: { alpha: { requestsPerMinute: 60 } },
        },
        answer: (line) => large(line),
      });
      world.input(200);
      await killedAfter(world, 3 * MINUTE_MS);
      expect(sentIn(world, MINUTE_MS, 3 * MINUTE_MS)).toBeGreaterThan(0.97 * 120);
    }
  });
});

describe("the configuration of ramps", () => {
  const ramps = (options: Parameters<typeof resolveConfig>[0], env = {}) => resolveConfig(options, env).ramps;
  const rule = { inputTokensPerMinute: 1_000_000, growth: 0.5, minutes: 15 };

  it("applies OpenAI's own rule only at OpenAI, and waits for a refusal elsewhere", () => {
    expect(ramps({})["openai"]).toEqual({ ...rule, isAsked: true });
    expect(ramps({}, { OPENAI_BASE_URL: "http://127.0.0.1:9/v1" })["openai"]).toEqual({
      ...rule,
      isAsked: false,
    });
    expect(ramps({})["anthropic"]).toEqual({ ...rule, isAsked: false });
  });

  it("takes all settings or some of them, and false for no ramp", () => {
    const given = { anthropic: { ramp: { inputTokensPerMinute: 40_000 } }, openai: { ramp: false as const } };
    expect(ramps({ providers: given })).toMatchObject({
      anthropic: { inputTokensPerMinute: 40_000, growth: 0.5, minutes: 15, isAsked: true },
    });
    expect(ramps({ providers: given })).not.toHaveProperty("openai");
  });

  it("refuses an invalid ramp", async () => {
    for (const ramp of [true, { growth: 0 }, { minutes: 0.5 }, { inputTokensPerMinute: 0 }, { tokens: 1 }])
      await expect(checkOptions({ providers: { openai: { ramp } } }, "options")).rejects.toMatchObject({
        code: "invalid_config",
        message: expect.stringContaining("providers.openai.ramp"),
      });
  });
});
