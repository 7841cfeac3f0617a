/** Satellites that run other satellites. */
import { describe, expect, it } from "vitest";
import type { ExecutionRequest } from "../../src/satellites/sdk/execution.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { mortal } from "../engine/world.ts";
import { CALLER, ExecutionWorld, requestOf, satellite } from "./execution_world.ts";

/** Of the project's own namespace. */
function own(name: string, given: Partial<ExecutionRequest> = {}): ExecutionRequest {
  return requestOf(name, { ...given, satellite: { namespace: "one", name } });
}

function worldWith(bounds: { places?: number } = {}): ExecutionWorld {
  const world = new ExecutionWorld({ bounds });
  world.add(
    satellite("upper", { run: async ({ input }) => ({ text: String(input["text"]).toUpperCase() }) }),
  );
  world.add(
    satellite("twice", {
      run: async ({ input, execute }) => {
        const { text } = await execute("first", { satellite: "satellite/one/upper", input });
        const again = await execute("second", {
          satellite: "satellite/one/upper",
          input: { text: `${text}!` },
        });
        return { text: [text ?? null, again["text"] ?? null] };
      },
    }),
  );
  return world;
}

describe("a satellite that runs others", () => {
  it("receives their outputs, and each is a separate execution", async () => {
    const world = worldWith();
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, own("twice", { input: { text: "hi" } }));
    await world.clock.advance(100);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "completed",
      output: { text: ["HI", "HI!"] },
    });
    expect((await executions.list("one", { limit: 10 })).items).toHaveLength(3);
  });

  it("finds those that ended before a crash, and runs each of them once", async () => {
    const world = worldWith();
    const ran: unknown[] = [];
    world.add(
      satellite("slow", {
        run: async ({ input, clock }) => {
          ran.push(input["text"]);
          await clock.sleep(1_000);
          return { text: input["text"] ?? null };
        },
      }),
    );
    world.add(
      satellite("pair", {
        run: async ({ execute }) => {
          const first = await execute("a", { satellite: "satellite/one/slow", input: { text: "a" } });
          const second = await execute("b", { satellite: "satellite/one/slow", input: { text: "b" } });
          return { text: `${first["text"]}${second["text"]}` };
        },
      }),
    );
    const before = mortal(world.clock);
    const dying = await world.open(before.clock);
    const { id } = await dying.submit(CALLER, own("pair"));
    await world.clock.advance(1_100); // the first has ended, the second runs
    expect(ran).toEqual(["a", "b"]);
    before.kill();
    world.crash();
    const executions = await world.open();
    await world.clock.advance(60_000);
    expect(await executions.execution("one", id)).toMatchObject({
      status: "completed",
      output: { text: "ab" },
    });
    expect(ran.filter((text) => text === "a")).toHaveLength(1);
  });

  it("holds no place while it waits", async () => {
    const world = worldWith({ places: 1 });
    const executions = await world.open();
    const ids = [];
    for (let count = 0; count < 5; count += 1) ids.push((await executions.submit(CALLER, own("twice"))).id);
    await world.clock.advance(1_000);
    for (const id of ids) expect((await executions.execution("one", id)).status).toBe("completed");
  });

  it("fails for good with the code of the one that failed, unless it answers for that", async () => {
    const world = worldWith();
    world.add(
      satellite("broken", {
        run: async () => {
          throw new SatelliteError("permanent", "too_bad", "it is broken");
        },
      }),
    );
    const other = { satellite: "satellite/one/broken", input: {} };
    world.add(satellite("strict", { run: async ({ execute }) => execute("x", other) }));
    world.add(
      satellite("lenient", {
        run: async ({ execute }) =>
          execute("x", other).catch((error: SatelliteError) => ({ code: error.code })),
      }),
    );
    const executions = await world.open();
    const strict = await executions.submit(CALLER, own("strict"));
    const lenient = await executions.submit(CALLER, own("lenient"));
    await world.clock.advance(100);
    expect(await executions.execution("one", strict.id)).toMatchObject({
      status: "failed",
      error: { code: "too_bad" },
    });
    expect((await executions.execution("one", lenient.id)).output).toEqual({ code: "too_bad" });
  });

  it("cancels the one that it waits for when it is cancelled", async () => {
    const world = worldWith();
    world.add(
      satellite("endless", { run: ({ signal, clock }) => clock.sleep(10 ** 9, { signal }).then(() => ({})) }),
    );
    world.add(
      satellite("waits", {
        run: async ({ execute }) => execute("x", { satellite: "satellite/one/endless", input: {} }),
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, own("waits"));
    await world.clock.advance(100);
    await executions.cancel("one", id);
    await world.clock.advance(100);
    const { items } = await executions.list("one", { limit: 10 });
    expect(items.map(({ status }) => status)).toEqual(["cancelled", "cancelled"]);
  });

  it("must be the project's own, at most four levels deep", async () => {
    const world = worldWith();
    world.add(
      satellite("itself", {
        run: async ({ execute }) => execute("x", { satellite: "satellite/one/itself", input: {} }),
      }),
    );
    const executions = await world.open();
    const foreign = await executions.submit(CALLER, requestOf("twice"));
    const deep = await executions.submit(CALLER, own("itself"));
    await world.clock.advance(1_000);
    expect((await executions.execution("one", foreign.id)).error?.code).toBe("not_available");
    expect((await executions.execution("one", deep.id)).error?.code).toBe("too_deep");
    expect((await executions.list("one", { limit: 10 })).items).toHaveLength(6);
  });

  it("leaves room for those of other projects, however many of one wait", async () => {
    const world = worldWith();
    const codes: unknown[] = [];
    world.add(satellite("hangs", { run: () => new Promise(() => undefined) }));
    world.add(
      satellite("many", {
        run: async ({ execute }) => {
          const wanted = Array.from({ length: 1_000 }, (_, index) =>
            execute(String(index), { satellite: "satellite/one/hangs", input: {} }).catch((error) => {
              codes.push(error.code);
            }),
          );
          await Promise.all(wanted);
          return {};
        },
      }),
    );
    const executions = await world.open();
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => {
      warnings.push(warning);
    };
    process.on("warning", onWarning);
    await executions.submit(CALLER, own("many"));
    await world.clock.advance(100);
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
    expect(codes).toEqual(Array.from({ length: 750 }, () => "too_many"));
    const other = { ...CALLER, project: "two" };
    const request = {
      ...own("twice", { input: { text: "hi" } }),
      satellite: { namespace: "two", name: "twice" },
    };
    const { id } = await executions.submit(other, request);
    await world.clock.advance(1_000);
    expect((await executions.execution("two", id)).status).toBe("completed");
  });

  it("passes no secrets on", async () => {
    const world = worldWith();
    world.secrets.set("one/token", "hidden value");
    world.add(
      satellite("leak", {
        run: async ({ execute }) =>
          execute("x", { satellite: "satellite/one/upper", input: { text: "secret://token" } }),
      }),
    );
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, own("leak"));
    await world.clock.advance(100);
    expect((await executions.execution("one", id)).output).toEqual({ text: "SECRET://TOKEN" });
  });
});
