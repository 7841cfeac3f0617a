import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RUN_OPTIONS } from "../../src/engine/call_schemas.ts";
import { type ConfigOptions, resolveConfig } from "../../src/engine/config/config.ts";
import { checkVariables } from "../../src/engine/config/variables.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createEngine } from "../../src/index.ts";
import { createPerigeeService } from "../../src/service/index.ts";
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

  it("of another kind is refused, a cap that is not a number among them", async () => {
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
      'usage: run: model must be "<provider>:<name>", got "gpt-4o"; did you mean "openai:gpt-4o"?',
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

describe("a member of an option", () => {
  it("that is not known is refused with its path", async () => {
    const rateCard = { standard: {}, models: { "openai:*": { flor: 0.5 } } };
    expect(
      await Promise.all([
        fault(run({ cap: { name: "a", usd: 1, until: "2026-12-01" } })),
        fault(run({ cap: { name: "a", usdd: 1, usd: 1 } })),
        fault(run({ cap: null })),
        fault(run({ rateCard })),
        fault(run({ rateCard: { standrd: {} } })),
        fault(run({ rateCard: { standard: null, models: {} } })),
        fault(() =>
          createEngine({ dataDir: "/nowhere", env: {}, cap: { name: "a", usd: 1, per: "day" } } as never),
        ),
      ]),
    ).toEqual([
      'usage: run: cap: "until" is not a known option; expected one of name, usd',
      'usage: run: cap: "usdd" is not a known option; did you mean "usd"?',
      'usage: run: cap must be { name, usd } with a name of 1 to 64 letters, digits, ".", "_", ":" and "-", got null',
      'usage: run: "rateCard.models["openai:*"].flor" is not a known option; did you mean "rateCard.models["openai:*"].floor"?',
      'usage: run: "rateCard.standrd" is not a known option; did you mean "rateCard.standard"?',
      "usage: run: rateCard.standard must be an object, got null",
      'invalid_config: options at cap: "per" is not a known name; expected one of name, usd',
    ]);
    expect(world.sent).toEqual([]);
  });
});

describe("a call without what it is about", () => {
  const call = callsWithoutThem();
  it.each(call)("%s tells what was expected", async (_name, make, said) => {
    expect(await fault(() => make(engine))).toBe(said);
  });
});

/** Calls as programs without types make them. */
function callsWithoutThem(): [name: string, make: (given: Engine) => unknown, said: string][] {
  const source = "the source must be a path, a stream, or an iterable of items";
  const none = undefined as never;
  const nil = null as never;
  return [
    ["run()", (given) => given.run(none), `usage: run: ${source}, got undefined`],
    ["run(null)", (given) => given.run(nil), `usage: run: ${source}, got null`],
    ['run("")', (given) => given.run(""), `usage: run: ${source}, got an empty text`],
    ["run({})", (given) => given.run({} as never), `usage: run: ${source}, got object`],
    [
      "run(bytes)",
      (given) => given.run(new Uint8Array(1) as never),
      `usage: run: ${source}, got bytes: pass them in a list`,
    ],
    [
      "run(null options)",
      (given) => given.run(INPUT, nil),
      "usage: run: options must be an object, got null",
    ],
    ["quote()", (given) => given.quote(none), `usage: quote: ${source}, got undefined`],
    [
      "quote(null options)",
      (given) => given.quote(INPUT, nil),
      "usage: quote: options must be an object, got null",
    ],
    ["submit(null)", (given) => given.submit(nil), "usage: submit: items must be a list, got null"],
    ["submit()", (given) => given.submit(none), "usage: submit: items must be a list, got undefined"],
    ["submit({})", (given) => given.submit({} as never), "usage: submit: items must be a list, got object"],
    [
      "submit([null])",
      (given) => given.submit([nil]),
      "usage: item 0 must have a model, which is a text, and one of input (a text), contents and messages (lists)",
    ],
    [
      "submit(null options)",
      (given) => given.submit([], nil),
      "usage: submit: options must be an object, got null",
    ],
    ["retry()", (given) => given.retry(none), "usage: retry: the id must be a text, got undefined"],
    [
      "retry(null options)",
      (given) => given.retry("x", nil),
      "usage: retry: options must be an object, got null",
    ],
    [
      "retry(code)",
      (given) => given.retry("x", { code: [] } as never),
      'usage: retry: "code" is not a known option; did you mean "codes"?',
    ],
    [
      "retryTask()",
      (given) => given.retryTask(none),
      "usage: retryTask: the id must be a text, got undefined",
    ],
    ["task()", (given) => given.task(none), "usage: task: the id must be a text, got undefined"],
    ["object(null)", (given) => given.object(nil), "usage: object: the id must be a text, got null"],
    ["forget(1)", (given) => given.forget(1 as never), "usage: forget: the id must be a text, got 1"],
  ];
}

describe("a null among the options", () => {
  it("of a run is refused with the option's name", async () => {
    for (const name of Object.keys(RUN_OPTIONS)) {
      if (["caps", "project"].includes(name)) continue; // of perigee's own service
      const said = String(await fault(run({ [name]: null })));
      expect(said).toMatch(/^usage: /);
      expect(said).toContain(name);
    }
    expect(world.sent).toEqual([]);
  });

  it("of an engine is refused with the option's name", async () => {
    const names = [
      "stateDir",
      "env",
      "clock",
      "transport",
      "disk",
      "store",
      "measurer",
      "observer",
      "onNotice",
    ];
    for (const name of [...names, "providers", "limits", "cap", "prices", "threads", "waitMs"]) {
      const said = await fault(() => createEngine({ dataDir: "/nowhere", env: {}, [name]: null } as never));
      expect(said).toMatch(new RegExp(`^(usage|invalid_config): options.*${name}`));
    }
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

describe("no options", () => {
  it("for an engine or a service are refused with what is needed", async () => {
    const like = 'options must be an object such as { dataDir: "./perigee-data" }';
    const none = undefined as never;
    expect(await fault(() => createEngine(none))).toBe(`usage: createEngine: ${like}, got undefined`);
    expect(await fault(() => createEngine(null as never))).toBe(`usage: createEngine: ${like}, got null`);
    expect(await fault(() => createEngine("data" as never))).toBe(`usage: createEngine: ${like}, got "data"`);
    const store = "postgres://me:secret@127.0.0.1/perigee";
    expect(await fault(() => createEngine({ dataDir: "/nowhere", store } as never))).toBe(
      "usage: options: store must be an open store, such as await openPostgresStore({ url }) from perigee/fleet, got a text",
    );
    expect(await fault(() => createPerigeeService(none))).toBe(
      `usage: createPerigeeService: ${like}, got undefined`,
    );
    expect(await fault(() => createPerigeeService({} as never))).toBe(
      "usage: options: dataDir must be the path of a folder, got undefined",
    );
  });

  it("of a service that are unknown are refused with their path", async () => {
    const open = (options: object) => (): unknown =>
      createPerigeeService({ dataDir: "/nowhere/x", env: {}, ...options } as never);
    expect(await fault(open({ serverLimits: { idelMs: 5 } }))).toBe(
      'usage: options: "serverLimits.idelMs" is not a known option; did you mean "serverLimits.idleMs"?',
    );
    expect(await fault(open({ satellites: { root: {} } }))).toBe(
      'usage: options: "satellites.root" is not a known option; did you mean "satellites.roots"?',
    );
    expect(await fault(open({ log: { level: "debug", write: () => 0 } }))).toBe(
      'usage: options: log.level must be info or error, got "debug"',
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

  it("whose name of a provider ends in a word of its setting is refused with the one that was meant", async () => {
    expect(
      await Promise.all(
        [
          "PERIGEE_PROVIDER_MY_BOX_API_KEY",
          "PERIGEE_PROVIDER_LATER_API_KEY",
          "PERIGEE_PROVIDER_OPNAI_ACCESS_TOKEN_KEY",
          "PERIGEE_PROVIDER_OPENAI_API_BASE_URL",
          "PERIGEE_LIMIT_OPENAI_MAX_CONCURRENCY",
          "PERIGEE_PROVIDER_API_KEY",
        ].map((name) => faultOf(name)),
      ),
    ).toEqual([
      'invalid_config: PERIGEE_PROVIDER_MY_BOX_API_KEY is of a provider that is not configured; did you mean "PERIGEE_PROVIDER_MY_BOX_KEY"?',
      'invalid_config: PERIGEE_PROVIDER_LATER_API_KEY is of a provider that is not configured; did you mean "PERIGEE_PROVIDER_LATER_KEY"?',
      'invalid_config: PERIGEE_PROVIDER_OPNAI_ACCESS_TOKEN_KEY is of a provider that is not configured; did you mean "PERIGEE_PROVIDER_OPENAI_KEY"?',
      'invalid_config: PERIGEE_PROVIDER_OPENAI_API_BASE_URL is of another provider, "openai_api"; did you mean "PERIGEE_PROVIDER_OPENAI_BASE_URL"? If not, set providers.openai_api.baseUrl in the configuration instead',
      'invalid_config: PERIGEE_LIMIT_OPENAI_MAX_CONCURRENCY is of a provider that is not configured; did you mean "PERIGEE_LIMIT_OPENAI_CONCURRENCY"?',
      "invalid_config: PERIGEE_PROVIDER_API_KEY names no provider; expected PERIGEE_PROVIDER_<NAME>_KEY",
    ]);
  });

  it("may be of a provider whose own name ends in such a word", async () => {
    const resolved = (options: ConfigOptions, env: Record<string, string>): string[] =>
      resolveConfig(options, env).providers.map(({ name }) => name);
    const PERIGEE_PROVIDER_MY_API_BASE_URL = "http://one.test/v1";
    const PERIGEE_PROVIDER_MY_API_KEY = "k";
    const env = { PERIGEE_PROVIDER_MY_API_BASE_URL, PERIGEE_PROVIDER_MY_API_KEY };
    expect(resolved({}, env)).toContain("my_api");
    expect(resolved({}, { ...env, PERIGEE_PROVIDER_MY_BASE_URL: "http://two.test/v1" })).toContain("my_api");
    const providers = { my_api: { baseUrl: "http://one.test/v1" } };
    expect(resolved({ providers }, { PERIGEE_PROVIDER_MY_API_KEY })).toContain("my_api");
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
