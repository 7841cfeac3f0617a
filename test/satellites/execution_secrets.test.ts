/**
 * Secrets in executions: filled in only for the attempt, and taken out of everything that it returns (fault 102).
 */
import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import type { Satellite, SatelliteArguments } from "../../src/satellites/sdk/satellite.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { z } from "../../src/schema.ts";
import { CALLER, ExecutionWorld, requestOf, satellite, textsOf } from "./execution_world.ts";

const CANARY = 'pgs"canary/4711+x';

function seeing(calls: SatelliteArguments<unknown, unknown>[], name = "see") {
  return satellite(name, {
    run: async ({ input, config }) => {
      calls.push({ input, config });
      return {};
    },
  });
}

describe("secrets of executions", () => {
  it("are filled into texts that name them, also where the schema would refuse the name", async () => {
    const world = new ExecutionWorld();
    const calls: SatelliteArguments<unknown, unknown>[] = [];
    world.add(seeing(calls));
    world.secrets.set("one/hook", "https://hooks.test/T/B");
    world.secrets.set("one/token", CANARY);
    const executions = await world.open();
    const config = { url: "secret://hook", headers: { authorization: "Bearer secret://token" } };
    await executions.submit(CALLER, requestOf("see", { config }));
    await world.clock.advance(100);
    expect(calls[0]?.config).toEqual({
      url: "https://hooks.test/T/B",
      headers: { authorization: `Bearer ${CANARY}` },
    });
  });

  it("are filled in only at the named paths, if any", async () => {
    const world = new ExecutionWorld();
    const calls: SatelliteArguments<unknown, unknown>[] = [];
    world.add(seeing(calls));
    world.secrets.set("one/token", CANARY);
    const executions = await world.open();
    const config = { text: "secret://token", other: "secret://token" };
    const secretPaths = ["/config/other", "/config/x", "/input/text"];
    const input = { text: "secret://token" };
    await executions.submit(CALLER, requestOf("see", { input, config, secretPaths }));
    const refused = executions.submit(
      CALLER,
      requestOf("see", { config: { url: "secret://token" }, secretPaths: [] }),
    );
    await expect(refused).rejects.toMatchObject({ code: "invalid_request" });
    await world.clock.advance(100);
    expect(calls[0]).toEqual({ input, config: { text: "secret://token", other: CANARY } });
  });

  it("are plain text in an input, and passed on unchanged, unless the satellite marks the field", async () => {
    const world = new ExecutionWorld();
    const calls: SatelliteArguments<unknown, unknown>[] = [];
    const marked = z.looseObject({ text: z.string(), token: z.string().min(20).meta({ "x-secret": true }) });
    world.add({ ...seeing(calls), input: marked as never });
    world.secrets.set("one/token", `${CANARY}, and some more`);
    const executions = await world.open();
    const input = { text: "repeat: secret://token", token: "secret://token", other: ["secret://missing"] };
    const { id } = await executions.submit(CALLER, requestOf("see", { input }));
    await world.clock.advance(100);
    expect(await executions.execution("one", id)).toMatchObject({ status: "completed" });
    expect(calls[0]?.input).toEqual({ ...input, token: `${CANARY}, and some more` });
  });

  it("are checked by the schema as they are written where they are plain text", async () => {
    const world = new ExecutionWorld();
    world.add({ ...seeing([]), input: z.strictObject({ url: z.url({ protocol: /^https$/ }) }) as never });
    const executions = await world.open();
    const refused = executions.submit(CALLER, requestOf("see", { input: { url: "secret://hook" } }));
    await expect(refused).rejects.toMatchObject({
      code: "invalid_request",
      details: { issues: [{ path: "input.url" }] },
    });
  });

  it("are plain text at the attempt when the satellite has stopped marking the field", async () => {
    const world = new ExecutionWorld();
    const calls: SatelliteArguments<unknown, unknown>[] = [];
    let isSecret = true;
    const busy: Satellite["run"] = async ({ input, config, attempt }) => {
      calls.push({ input, config });
      if (attempt === 1) throw new SatelliteError("refused", "busy", "busy", { retryAfterMs: 5_000 });
      return {};
    };
    const schema = (): Satellite["input"] =>
      z.looseObject({ text: z.string().meta({ "x-secret": isSecret }) }) as never;
    world.add(satellite("see", { input: schema(), run: busy }));
    world.secrets.set("one/token", CANARY);
    const executions = await world.open();
    await executions.submit(CALLER, requestOf("see", { input: { text: "secret://token" } }));
    await world.clock.advance(100);
    isSecret = false;
    world.add(satellite("see", { input: schema(), run: busy }));
    await world.clock.advance(10_000);
    expect(calls.map(({ input }) => input)).toEqual([{ text: CANARY }, { text: "secret://token" }]);
  });

  it("of a satellite's fixed config are its owner's, and win over the caller's", async () => {
    const world = new ExecutionWorld();
    const calls: SatelliteArguments<unknown, unknown>[] = [];
    world.add(seeing(calls), { token: "secret://token", mode: "fixed" });
    world.secrets.set("one/token", CANARY);
    const executions = await world.open();
    await executions.submit(CALLER, requestOf("see", { config: { token: "own", mode: "own" } }));
    await world.clock.advance(100);
    expect(calls[0]?.config).toEqual({ token: CANARY, mode: "fixed" });
  });

  it.each(["missing", "NOT-A-NAME", ""])("that are not there end the execution: %j", async (name) => {
    const world = new ExecutionWorld();
    const calls: SatelliteArguments<unknown, unknown>[] = [];
    world.add(seeing(calls));
    world.secrets.set("two/missing", CANARY);
    const executions = await world.open();
    const { id } = await executions.submit(
      CALLER,
      requestOf("see", { config: { text: `secret://${name}` } }),
    );
    await world.clock.advance(100);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "failed",
      error: { code: "secret_missing" },
      retries: 0,
    });
    expect(calls).toEqual([]);
  });

  it("make an invalid input end as invalid_input, without showing the value", async () => {
    const world = new ExecutionWorld();
    world.add(seeing([]));
    world.secrets.set("one/hook", CANARY);
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("see", { config: { url: "secret://hook" } }));
    await world.clock.advance(100);
    const { error } = await executions.execution("one", id);
    expect(error).toMatchObject({ code: "invalid_input", retryable: false });
    expect(error?.message).toMatch(/^config\.url: /);
    expect(error?.message).not.toContain(CANARY);
  });

  it("are in no output, error, log line or record (fault 102)", async () => {
    const world = new ExecutionWorld();
    const written = JSON.stringify(CANARY).slice(1, -1);
    world.add(
      satellite("leaky", {
        run: async ({ config, attempt, log, notes }) => {
          const value = String(config["token"]);
          log("info", `signed in with ${value}`);
          await notes.set("session", { [value]: `token ${value}` });
          if (attempt === 1)
            throw new SatelliteError("refused", "busy", `busy with ${encodeURIComponent(value)}`);
          if (config["fails"] === true) throw new SatelliteError("permanent", "denied", `denied: ${value}`);
          return {
            [value]: [`<${value}>`],
            json: JSON.stringify({ value }),
            base64: btoa(value),
            noted: notes.get("session") ?? null,
          };
        },
      }),
    );
    world.secrets.set("one/token", CANARY);
    const executions = await world.open();
    const token = "secret://token";
    const leaky = await executions.submit(CALLER, requestOf("leaky", { config: { token } }));
    const failing = await executions.submit(CALLER, requestOf("leaky", { config: { token, fails: true } }));
    const texts: string[] = [];
    for (let index = 0; index < 20; index += 1) {
      await world.clock.advance(index < 2 ? 10 : 5_000);
      texts.push(JSON.stringify(await executions.list("one", { limit: 10 })));
      texts.push(...(await world.peek(textsOf)));
    }
    expect(await executions.execution("one", leaky.id)).toMatchObject({
      status: "completed",
      output: {
        "[redacted]": ["<[redacted]>"],
        json: '{"value":"[redacted]"}',
        base64: expect.stringContaining("[redacted]"),
      },
    });
    expect((await executions.execution("one", failing.id)).error?.message).toBe("denied: [redacted]");
    const all = [...texts, JSON.stringify(world.lines), JSON.stringify(world.finished)].join("\n");
    for (const form of [CANARY, written, encodeURIComponent(CANARY), btoa(CANARY)])
      expect(all).not.toContain(form);
    expect(all).toContain("signed in with [redacted]");
  });
});

describe("a satellite is looked up again before every attempt", () => {
  it.each([
    ["the caller's key lost its flag", "forbidden"],
    ["it was disabled", "not_found"],
  ] as const)("and the execution ends when %s", async (_what, code) => {
    const world = new ExecutionWorld();
    let attempts = 0;
    world.add(
      satellite("flaky", {
        run: async () => {
          attempts += 1;
          throw new SatelliteError("refused", "busy", "busy");
        },
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("flaky"));
    await world.clock.advance(5);
    world.mayRun = () => {
      throw new PerigeeError(code, "no");
    };
    await world.clock.advance(60_000);
    expect(attempts).toBe(1);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "failed",
      error: { code, retryable: false },
    });
  });

  it("and tried again, uncounted, when that is not known now", async () => {
    const world = new ExecutionWorld();
    // It waits for a slot of its destination: one that can begin at once runs with what its submission has looked up.
    const run: Satellite["run"] = async ({ attempt }) => ({ attempt });
    world.add(satellite("fine", { destination: () => "fine.test", run }));
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("fine"));
    world.mayRun = () => {
      throw new Error("the catalogue cannot be read");
    };
    await world.clock.advance(10);
    expect(world.faults).toHaveLength(1);
    world.mayRun = () => undefined;
    await world.clock.advance(31_000);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "completed",
      output: { attempt: 1 },
      retries: 0,
    });
  });
});

describe("secrets that are named more often than there is room for", () => {
  it.each<readonly [string, string, number]>([
    ["one long one thousands of times", "secret://long ".repeat(7_000), 1],
    [
      "more of them than a project has use for",
      Array.from({ length: 33 }, (_, i) => `secret://s${i}`).join(" "),
      33,
    ],
    ["long ones", "secret://s0 secret://s1 secret://s2", 3],
  ])("end the execution before they are filled in: %s", async (_what, text, count) => {
    const world = new ExecutionWorld();
    const calls: SatelliteArguments<unknown, unknown>[] = [];
    world.add(seeing(calls));
    world.secrets.set("one/long", "x".repeat(65_536));
    for (let index = 0; index < count; index += 1)
      world.secrets.set(`one/s${index}`, "y".repeat(count === 3 ? 65_536 : 8));
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("see", { config: { text } }));
    await world.clock.advance(100);
    expect(calls).toEqual([]);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "failed",
      error: { code: "too_large", retryable: false },
    });
  });
});
