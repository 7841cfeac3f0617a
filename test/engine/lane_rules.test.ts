/** Which lanes work may use: what the configuration, a project, a model and a call say, and what of it is refused. */
import { describe, expect, it } from "vitest";
import { checkOptions, resolveConfig } from "../../src/engine/config/config.ts";
import type { ConfigOptions } from "../../src/engine/config/config_options.ts";
import { type LaneOptions, laneRules } from "../../src/engine/config/lane_rules.ts";
import type { RunOptions } from "../../src/engine/runs/run_options.ts";
import { tiered } from "./tiers.ts";
import type { Reply } from "./world.ts";
import { INPUT, OUTPUT, World } from "./world.ts";

const MODEL = "openai:gpt-5-mini";
const NO_ENV = {};

function settingsOf(options: ConfigOptions) {
  return resolveConfig(options, NO_ENV).lanes;
}

function allowed(options: ConfigOptions, call: LaneOptions & { readonly project?: string }, model = MODEL) {
  const { lanes } = laneRules(settingsOf(options), call);
  return (["realtime", "flex", "batch", "offpeak"] as const).filter((kind) => lanes.allows(kind, model));
}

describe("the lanes that work may use", () => {
  it("are all, without a word about them", () => {
    expect(allowed({}, {})).toEqual(["realtime", "flex", "batch", "offpeak"]);
  });

  it("are those that the configuration, the project, the model and the call allow together", () => {
    const options: ConfigOptions = {
      lanes: {
        deny: ["offpeak"],
        models: { "openai:gpt-5*": { deny: ["openai:batch"] }, "openai:gpt-5-nano": { allow: ["flex"] } },
      },
      projects: { slow: { lanes: { allow: ["batch"] } } },
    };
    expect(allowed(options, {})).toEqual(["realtime", "flex"]);
    expect(allowed(options, {}, "openai:gpt-6")).toEqual(["realtime", "flex", "batch"]);
    expect(allowed(options, {}, "openai:gpt-5-nano")).toEqual(["realtime", "flex"]);
    expect(allowed(options, { project: "slow" }, "openai:gpt-6")).toEqual(["realtime", "batch"]);
    expect(allowed(options, { project: "constructor" }, "openai:gpt-6")).toEqual([
      "realtime",
      "flex",
      "batch",
    ]);
    expect(allowed(options, { lanes: { deny: ["flex"] } })).toEqual(["realtime"]);
    expect(allowed(options, { lanes: { allow: ["offpeak"] } })).toEqual(["realtime"]);
  });

  it("are realtime alone where the policy is fastest, of the call before the configuration", () => {
    expect(allowed({ policy: "fastest" }, {})).toEqual(["realtime"]);
    expect(allowed({}, { policy: "fastest" })).toEqual(["realtime"]);
    expect(allowed({ policy: "fastest" }, { policy: "balanced" })).toHaveLength(4);
  });
});

describe("the settings of lanes", () => {
  it("have defaults", () => {
    expect(settingsOf({})).toEqual({
      choices: {},
      projects: {},
      models: {},
      policy: "cheapest",
      minOnTime: 0.99,
      pollMs: { min: 30_000, max: 300_000 },
      adoptMs: 120_000,
      minItems: 100,
      priors: {},
      offPeakDays: [],
    });
  });

  it("are what is configured", () => {
    const seconds = { p50: 1, p90: 2, p99: 3 };
    const options: ConfigOptions = {
      lanes: {
        pollSeconds: { min: 0.2, max: 1 },
        adoptSeconds: 0.5,
        minItems: 1,
        priors: { batch: seconds, "openai:flex": seconds },
      },
      minOnTime: 0.9,
    };
    const settings = settingsOf(options);
    expect(settings).toMatchObject({
      pollMs: { min: 200, max: 1_000 },
      adoptMs: 500,
      minItems: 1,
      minOnTime: 0.9,
    });
    expect(resolveConfig(options, NO_ENV).offers.get("openai")).toMatchObject([{ prior: { p90: 2_000 } }]);
    expect(settingsOf({ lanes: { pollSeconds: { max: 5 } } }).pollMs).toEqual({ min: 5_000, max: 5_000 });
    expect(settingsOf({ lanes: { pollSeconds: { min: 600 } } }).pollMs).toEqual({
      min: 600_000,
      max: 600_000,
    });
  });

  it.each<[string, object, string]>([
    [
      "a misspelt kind",
      { lanes: { deny: ["flx"] } },
      'at lanes.deny.0: "flx" is not a known lane; did you mean "flex"?',
    ],
    [
      "a misspelt kind of a project",
      { projects: { p: { lanes: { allow: ["openai:flx"] } } } },
      'at projects.p.lanes.allow.0: "openai:flx" is not a known lane; did you mean "openai:flex"?',
    ],
    [
      "a misspelt list",
      { lanes: { alow: [] } },
      'at lanes: "alow" is not a known name; did you mean "allow"?',
    ],
    ["realtime that is denied", { lanes: { deny: ["realtime"] } }, "at lanes.deny: realtime is what remains"],
    [
      "a misspelt prior",
      { lanes: { priors: { "openai:btch": { p50: 1, p90: 1, p99: 1 } } } },
      '"openai:btch" is not a lane whose answers take a time of their own; did you mean "openai:batch"?',
    ],
    ["a prior that falls", { lanes: { priors: { batch: { p50: 3, p90: 2, p99: 9 } } } }, "p50 <= p90 <= p99"],
    [
      "a prior of no time",
      { lanes: { priors: { batch: { p50: 0, p90: 2, p99: 9 } } } },
      "at lanes.priors.batch.p50",
    ],
    [
      "a prior without its tail",
      { lanes: { priors: { flex: { p50: 1, p90: 2 } } } },
      "at lanes.priors.flex.p99",
    ],
    ["polls at most before at least", { lanes: { pollSeconds: { min: 3, max: 2 } } }, "at lanes.pollSeconds"],
    ["no time to adopt", { lanes: { adoptSeconds: 0 } }, "at lanes.adoptSeconds"],
    [
      "a holiday that is not a day",
      { lanes: { offPeakDays: ["soon"] } },
      "at lanes.offPeakDays.0: must be a day such as",
    ],
    ["no items", { lanes: { minItems: 0 } }, "at lanes.minItems"],
    ["a policy that does not exist", { policy: "cheap" }, "at policy"],
    ["more than certain", { minOnTime: 1 }, "at minOnTime"],
  ])("with %s are refused", async (_, options, message) => {
    await expect(checkOptions(options, "options")).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringContaining(message),
    });
  });

  it("of a misspelt provider are refused, and of one that is not configured are noted", () => {
    expect(() => settingsOf({ lanes: { deny: ["opnai:flex"] } })).toThrow(
      'lanes.deny["opnai:flex"]: provider "opnai" is not configured; did you mean "openai"?',
    );
    const { notes } = resolveConfig({ lanes: { allow: ["flex", "elsewhere:flex"] } }, NO_ENV);
    expect(notes).toEqual([expect.stringContaining('lanes.allow["elsewhere:flex"] has no effect')]);
  });

  it("that cost nothing less are noted: Groq's flex, and a Batch Chat that nobody knows", () => {
    const openai = { batchChatUrl: "https://batch.test/v1" };
    const { notes } = resolveConfig({ lanes: { allow: ["groq:flex"] }, providers: { openai } }, NO_ENV);
    expect(notes).toEqual([
      expect.stringContaining("providers.openai.batchChatUrl has no effect"),
      expect.stringContaining('lanes.allow["groq:flex"] has no effect: flex costs as much as realtime'),
    ]);
  });
});

describe("a run", () => {
  /** The tiers that ten items were asked for. */
  async function tiersOf(
    call: object,
    config: ConfigOptions = {},
    flex = (line: number): Reply => ({ afterMs: 3_000, result: tiered(line, "flex") }),
  ): Promise<readonly string[]> {
    const tiers = new Set<string>();
    const world = new World({
      config: { providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } }, ...config },
      answer: (line, _attempt, _model, body) => {
        const { service_tier: tier = "realtime" } = body as { readonly service_tier?: string };
        tiers.add(tier);
        return tier === "flex" ? flex(line) : tiered(line, "default");
      },
    });
    world.input(10, MODEL);
    const engine = await world.engine();
    const summary = await world.settle(engine.run(INPUT, { out: OUTPUT, ...call }).finished);
    expect(summary.counts.completed).toBe(10);
    await world.settle(engine.close());
    return [...tiers];
  }

  it("goes to the tiers that it may use", async () => {
    expect(await tiersOf({ sla: 60 })).toEqual(["flex"]);
    expect(await tiersOf({ sla: 60, lanes: { deny: ["openai:flex"] } })).toEqual(["realtime"]);
    expect(await tiersOf({ sla: 60, lanes: { allow: ["batch"] } })).toEqual(["realtime"]);
    expect(await tiersOf({ sla: 60, policy: "fastest" })).toEqual(["realtime"]);
    const projects = { p: { lanes: { deny: ["flex"] } } };
    expect(await tiersOf({ sla: 60, project: "p" }, { projects })).toEqual(["realtime"]);
    expect(await tiersOf({ sla: 60, project: "q" }, { projects })).toEqual(["flex"]);
    expect(await tiersOf({ sla: 60 }, { lanes: { models: { [MODEL]: { deny: ["flex"] } } } })).toEqual([
      "realtime",
    ]);
  });

  it("that is balanced goes to a tier only if even its slow answers have time", async () => {
    const lanes = { priors: { flex: { p50: 3, p90: 5, p99: 150 } } };
    expect(await tiersOf({ sla: 3 }, { lanes })).toEqual(["flex"]);
    expect(await tiersOf({ sla: 3, policy: "balanced" }, { lanes })).toEqual(["realtime"]);
    expect(await tiersOf({ sla: 60, policy: "balanced" }, { lanes })).toEqual(["flex"]);
  });

  it("keeps the time of the share of answers in realtime that it wants on time", async () => {
    const asked: string[] = [];
    const world = new World({
      config: { providers: { openai: { baseUrl: "http://openai.test/v1", key: "k" } } },
      answer: (line, _attempt, _model, body) => {
        const { service_tier: tier = "realtime" } = body as { readonly service_tier?: string };
        asked.push(tier);
        return { afterMs: line <= 2 ? 58_000 : 1_000, result: tiered(line, tier) };
      },
    });
    world.input(40, MODEL);
    const engine = await world.engine();
    const tiersOfRun = async (call: RunOptions): Promise<readonly string[]> => {
      asked.length = 0;
      await world.settle(engine.run(INPUT, { ...call, out: OUTPUT + (call.minOnTime ?? "") }).finished);
      return [...new Set(asked)];
    };
    expect(await tiersOfRun({})).toEqual(["realtime"]); // 2 of 40 take 58 s
    expect(await tiersOfRun({ sla: 2, minOnTime: 0.99 })).toEqual(["realtime"]);
    expect(await tiersOfRun({ sla: 2, minOnTime: 0.9 })).toContain("flex");
    await world.settle(engine.close());
  });

  it("with a lane that does not exist is refused before anything is sent", async () => {
    const world = new World();
    const engine = await world.engine();
    const refused: [object, string][] = [
      [{ lanes: { deny: ["flx"] } }, 'run: lanes.deny: "flx" is not a known lane; did you mean "flex"?'],
      [{ lanes: { allow: ["opnai:flex"] } }, 'provider "opnai" is not configured'],
      [{ lanes: { deny: ["realtime"] } }, "run: lanes.deny: realtime is what remains"],
      [{ lanes: { denied: [] } }, '"lanes.denied" is not a known option'],
      [{ lanes: { allow: [1] } }, "run: lanes.allow: the name of a lane must be a text"],
      [{ policy: "cheep" }, 'policy must be "cheapest" or "balanced" or "fastest", got "cheep"'],
      [{ minOnTime: 1 }, "minOnTime must be a number from 0.5 to 0.9999, got 1"],
    ];
    for (const [options, message] of refused) expect(() => engine.run(INPUT, options)).toThrow(message);
    await world.settle(engine.close());
  });
});
