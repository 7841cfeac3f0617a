import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkVariables } from "../../src/engine/variables.ts";
import { createEngine, type Engine } from "../../src/index.ts";
import { INPUT, World } from "./world.ts";

let world: World;
let engine: Engine;
beforeEach(async () => {
  world = new World();
  world.input(1);
  engine = await world.engine();
});
afterEach(() => world.settle(engine.close()));

/** What a call throws, at once or later. */
async function fault(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
}

const run = (options: object) => (): unknown => engine.run(INPUT, options);

describe("an option of a call", () => {
  it("that is not known is refused with the one that was meant, and nothing is sent", async () => {
    expect(
      await Promise.all([
        fault(run({ maxCost: 4 })),
        fault(run({ maxCostUSD: 4 })),
        fault(run({ order: true })),
        fault(() => engine.submit([{ model: "alpha:m1", input: "x" }], { onprogress: () => 0 } as object)),
        fault(() => engine.quote(INPUT, { sla: 60 } as object)),
        fault(() => engine.run(INPUT, "out.jsonl" as never)),
      ]),
    ).toEqual([
      'usage: run: "maxCost" is not a known option; did you mean "maxCostUsd"?',
      'usage: run: "maxCostUSD" is not a known option; did you mean "maxCostUsd"?',
      'usage: run: "order" is not a known option; did you mean "ordered"?',
      'usage: submit: "onprogress" is not a known option; did you mean "onProgress"?',
      'usage: quote: "sla" is not a known option; did you mean "slas"?',
      'usage: run: options must be an object, got "out.jsonl"',
    ]);
    expect(world.sent).toEqual([]);
  });

  it("of another kind is refused, a cap that is no number among them", async () => {
    expect(
      await Promise.all([
        fault(run({ maxCostUsd: "4" })),
        fault(run({ maxCostUsd: Number.NaN })),
        fault(run({ ordered: "yes" })),
        fault(run({ model: "gpt-4o" })),
        fault(run({ signal: {} })),
        fault(run({ onWarning: true })),
      ]),
    ).toEqual([
      'usage: run: maxCostUsd must be a number from 0, got "4"',
      "usage: run: maxCostUsd must be a number from 0, got NaN",
      'usage: run: ordered must be true or false, got "yes"',
      'usage: run: model must be "<provider>:<name>", got "gpt-4o"',
      "usage: run: signal must be an AbortSignal, got object",
      "usage: run: onWarning must be a function, got true",
    ]);
  });

  it("that is undefined counts as absent", async () => {
    const summary = await world.settle(
      engine.run(INPUT, { maxCostUsd: undefined, model: undefined } as object).finished,
    );
    expect(summary.counts.completed).toBe(1);
  });
});

describe("an item", () => {
  it("with a member that is not known is refused with its number", async () => {
    const item = { model: "alpha:m1", input: "x" };
    expect(await fault(() => engine.submit([item, { ...item, max_token: 5 } as never]))).toBe(
      'usage: item 1: "max_token" is not a known name; did you mean "max_tokens"?',
    );
    const keyed = [{ ...item, key: "a", sla: 60 }] as never;
    expect(await fault(() => world.settle(engine.run(keyed).finished))).toBe(
      "usage: item 1: sla is an option of the run, not of its items",
    );
  });
});

describe("an option of an engine", () => {
  it("that is not known is refused with its place and the one that was meant", async () => {
    const open =
      (options: object): (() => unknown) =>
      () =>
        createEngine({ dataDir: "/nowhere", env: {}, ...options } as never);
    expect(
      await Promise.all([
        fault(open({ provders: {} })),
        fault(open({ stateDirectory: "/x" })),
        fault(open({ limits: { openai: { requestPerMinute: 3 } } })),
        fault(open({ providers: { openai: { baseURL: "http://x.test" } } })),
        fault(open({ unsupportedConfig: "ignore" })),
        fault(() => createEngine({ datadir: "/nowhere" } as never)),
      ]),
    ).toEqual([
      'invalid_config: options: "provders" is not a known name; did you mean "providers"?',
      'invalid_config: options: "stateDirectory" is not a known name',
      'invalid_config: options at limits.openai: "requestPerMinute" is not a known name; did you mean "requestsPerMinute"?',
      'invalid_config: options at providers.openai: "baseURL" is not a known name; did you mean "baseUrl"?',
      'invalid_config: options at unsupportedConfig: Invalid option: expected one of "drop"|"refuse"',
      "usage: options: dataDir must be the path of a folder, got undefined",
    ]);
  });
});

describe("an environment variable of perigee", () => {
  const providers = ["openai", "my-box"];
  const faultOf = (name: string, value = "1"): Promise<unknown> =>
    fault(() => checkVariables({ PATH: "/bin", [name]: value }, providers));

  it("that nobody reads is refused with the one that was meant", async () => {
    expect(
      await Promise.all(
        [
          "PERIGEE_MAX_INFLIHGT",
          "PERIGEE_PROVIDER_OPNAI_KEY",
          "PERIGEE_LIMIT_OPENIA_RPM",
          "PERIGEE_LIMIT_OPENAI_RPS",
          "PERIGEE_PROVIDER_OPENAI_BASEURL",
          "PERIGEE_PROVIDER_OTHER_URL",
          "PERIGEE_COLOUR",
        ].map((name) => faultOf(name)),
      ),
    ).toEqual([
      'invalid_config: PERIGEE_MAX_INFLIHGT is not a known variable; did you mean "PERIGEE_MAX_INFLIGHT"?',
      'invalid_config: PERIGEE_PROVIDER_OPNAI_KEY is of a provider that is not configured; did you mean "PERIGEE_PROVIDER_OPENAI_KEY"?',
      'invalid_config: PERIGEE_LIMIT_OPENIA_RPM is of a provider that is not configured; did you mean "PERIGEE_LIMIT_OPENAI_RPM"?',
      'invalid_config: PERIGEE_LIMIT_OPENAI_RPS is not a known variable; did you mean "PERIGEE_LIMIT_OPENAI_RPM"?',
      'invalid_config: PERIGEE_PROVIDER_OPENAI_BASEURL is not a known variable; did you mean "PERIGEE_PROVIDER_OPENAI_BASE_URL"?',
      "invalid_config: PERIGEE_PROVIDER_OTHER_URL is not a known variable; expected PERIGEE_PROVIDER_<NAME>_BASE_URL or PERIGEE_PROVIDER_<NAME>_KEY",
      "invalid_config: PERIGEE_COLOUR is not a known variable; perigee does not read a variable of that name",
    ]);
  });

  it("may be empty, of a provider whose name has a dash, or of one that is not configured now", async () => {
    expect(await faultOf("PERIGEE_COLOUR", "")).toBeUndefined();
    for (const name of [
      "PERIGEE_PROVIDER_MY_BOX_KEY",
      "PERIGEE_LIMIT_LATER_TPM",
      "PERIGEE_DELIVERY",
      "PERIGEE_TEST_KILLS",
    ])
      expect(await faultOf(name), name).toBeUndefined();
  });
});
