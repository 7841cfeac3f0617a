/**
 * The life of one item as `engine.trace` tells it, in virtual time.
 */
import { describe, expect, it } from "vitest";
import type { Summary } from "../../src/engine/items/progress.ts";
import type { EngineRunOptions } from "../../src/engine/runs/run_options.ts";
import { readStatus } from "../../src/engine/runs/run_status.ts";
import type { ItemTrace } from "../../src/engine/trace.ts";
import { finish } from "./runs.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, status, World } from "./world.ts";

const PRICES = { "*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 2_000, asOf: "2026-11-01" } };

const shortOf = ({ events }: ItemTrace): string[] =>
  events.map(({ event, attempt }) => (attempt === undefined ? event : `${event} ${attempt}`));

/** Milliseconds from the first event that has a time to each of the others. */
function timesOf({ events }: ItemTrace): (number | null)[] {
  const first = Date.parse(events[0]?.at ?? "");
  return events.map(({ at }) => (at === null ? null : Date.parse(at) - first));
}

describe("engine.trace", () => {
  it("shows each request of an item with its time, why it ended, what was billed, and the place of its line", async () => {
    const world = new World({ config: { prices: PRICES, maxInFlight: 1 }, latencyMs: 1_000 });
    world.input(2);
    world.answer = (line, attempt) => (line === 2 && attempt === 1 ? status(500, "broken") : ok(line));
    const engine = await world.engine();
    const { task_id: id } = await world.settle(engine.run(INPUT, { out: OUTPUT, sla: 60 }).finished);
    const trace = await world.settle(engine.trace(id, "k2"));
    await world.settle(engine.close());
    expect(trace).toMatchObject({ key: "k2", line: 2, status: "completed" });
    expect(shortOf(trace)).toEqual([
      "accepted",
      "admitted 1",
      "ended 1",
      "held",
      "admitted 2",
      "released",
      "committed",
      "written",
    ]);
    const requests = { ...trace, events: trace.events.filter(({ event }) => !/held|released/.test(event)) };
    const [, sent = 0, ended = 0, again = 0, committed = 0, written] = timesOf(requests) as number[];
    expect(sent).toBeGreaterThanOrEqual(1_000); // one request at a time
    expect(ended - sent).toBeGreaterThanOrEqual(1_000);
    expect(again).toBeGreaterThan(ended);
    expect(committed - again).toBeGreaterThanOrEqual(1_000);
    expect(written).toBe(committed);
    const details = requests.events.map(({ detail }) => detail);
    expect(details[0]).toBe("its run began: sla 60 minutes");
    expect(details[1]).toMatch(/^alpha.*: reserved \d+ input and \d+ output tokens, at most \$0\.\d+$/);
    expect(details[2]).toMatch(/may have been billed/);
    expect(details[4]).toMatch(
      /^completed after 2 requests: 10 input and 5 output tokens, \$0\.0200 billed, at most \$0\.0\d+ more in doubt$/,
    );
    expect(details[5]).toMatch(
      /^bytes \d+ to \d+ of \/out\.jsonl; model: alpha:scripted; finish reason: stop; latency/,
    );
  });

  it("tells the code and the HTTP status of each request that failed", async () => {
    const replies = [
      status(429, "slow_down"),
      status(503),
      { ok: false, failure: "not_sent", message: "refused" },
    ] as const;
    const world = new World({ answer: (line, attempt) => replies[attempt - 1] ?? ok(line) });
    world.input(1);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    const { events } = await world.settle(engine.trace(OUTPUT, "k1"));
    const ended = events.filter(({ event }) => event === "ended");
    expect(ended.map(({ code, http_status }) => [code, http_status])).toEqual([
      ["rate_limited", 429],
      ["overloaded", 503],
      ["connection_failed", undefined],
    ]);
    expect(ended[0]?.detail).toBe(
      "it failed (rate_limited, HTTP 429), nothing billed; it does not count against the item (an outage, a limit, an account or a restart)",
    );
    expect(ended[2]?.detail).toContain("it failed (connection_failed), nothing billed; ");
    await world.settle(engine.close());
  });

  it.each([
    [401, "invalid_api_key"],
    [403, "permission_denied"],
  ])("tells a refusal of the key with %i, in status too", async (code, type) => {
    const world = new World({ answer: () => status(code, type) });
    world.input(1);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT, waitMs: 0 }).finished);
    const { events } = await world.settle(engine.trace(OUTPUT, "k1"));
    expect(events.find(({ event }) => event === "ended")).toMatchObject({
      code: "authentication_failed",
      http_status: code,
    });
    await world.settle(engine.close());
    const store = await world.store.open();
    const task = await store.taskByName(`out:${OUTPUT}`);
    if (task === undefined) throw new Error("the run is not recorded");
    const found = await readStatus({ store, disk: world.disk, dataDir: "/data" }, task);
    expect(found.retrying_errors).toEqual([
      { code: "authentication_failed", provider_status: code, items: 1 },
    ]);
    await store.close();
  });

  it("tells the HTTP status of a request that ended its item", async () => {
    const world = new World({ answer: () => status(422, "bad") });
    world.input(1);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    const { events } = await world.settle(engine.trace(OUTPUT, "k1"));
    expect(events.at(-1)?.detail).toContain("; HTTP status: 422");
    await world.settle(engine.close());
  });

  it("says that an item waits for its turn, is under way, or is held, and by what", async () => {
    const world = new World({ config: { maxInFlight: 1 } });
    world.input(2);
    world.answer = () => "hang";
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 1 });
    await world.clock.advance(500);
    expect(shortOf(await world.settle(engine.trace(OUTPUT, "k1")))).toEqual([
      "accepted",
      "admitted 1",
      "waiting 1",
    ]);
    const waiting = await world.settle(engine.trace(OUTPUT, "k2"));
    expect(waiting.events[0]?.detail).toBe("its run began: sla 1 minute");
    expect(shortOf(waiting)).toEqual(["accepted", "waiting"]);
    expect(waiting.status).toBe("open");
    expect(waiting.events.at(-1)).toMatchObject({
      at: null,
      detail: expect.stringContaining("first request"),
    });
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());

    world.answer = () => status(401, "invalid_api_key");
    const other = await world.engine();
    const held = other.run(INPUT, { out: OUTPUT });
    await world.clock.advance(5_000);
    const trace = await world.settle(other.trace(OUTPUT, "k2"));
    expect(trace.events.find(({ event }) => event === "held")).toMatchObject({
      at: expect.stringMatching(/^\d{4}-/),
      detail: expect.stringContaining("authentication: alpha: no key is set"),
    });
    expect(trace.events.at(-1)?.detail).toBe(
      "its first request waits until this is over: authentication: alpha; nothing is tried before the run is called again",
    );
    const ofTried = await world.settle(other.trace(OUTPUT, "k1"));
    expect(ofTried.events.at(-1)?.detail).toBe(
      "its next request waits until this is over: authentication: alpha; nothing is tried before the run is called again",
    );
    held.stop();
    await world.settle(held.finished);
    await world.settle(other.close());
  });

  it("tells a request that a kill cut off as in doubt, with the most that it may have cost", async () => {
    const world = new World({ config: { prices: PRICES }, latencyMs: 50 });
    world.input(1);
    world.answer = () => "hang";
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, { out: OUTPUT }).finished;
    await world.clock.advance(1_000);
    process.kill();
    world.kill();
    world.answer = ok;
    const { task_id: id } = await finish(world);
    const engine = await world.engine();
    const trace = await world.settle(engine.trace(id, "k1"));
    await world.settle(engine.close());
    expect(shortOf(trace)).toEqual([
      "accepted",
      "admitted 1",
      "in doubt 1",
      "admitted 2",
      "committed",
      "written",
    ]);
    expect(trace.events[2]?.detail).toMatch(/may have cost \$0\.\d+/);
  });

  it("does not tell a refusal after a request that a kill cut off as in doubt", async () => {
    const world = new World({ config: { prices: PRICES }, latencyMs: 50 });
    world.input(1);
    world.answer = () => "hang";
    const process = mortal(world.clock);
    void (await world.engine(process.clock)).run(INPUT, { out: OUTPUT }).finished;
    await world.clock.advance(1_000);
    process.kill();
    world.kill();
    world.answer = () => status(401, "invalid_api_key");
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT, waitMs: 0 }).finished);
    const { events } = await world.settle(engine.trace(OUTPUT, "k1"));
    await world.settle(engine.close());
    expect(events.map(({ event }) => event)).toContain("in doubt");
    expect(events.find(({ event }) => event === "ended")?.detail).toBe(
      "it failed (authentication_failed, HTTP 401), nothing billed; it does not count against the item (an outage, a limit, an account or a restart)",
    );
  });

  it("tells the life of an item that was held, stopped, called again and run again by a retry as one, each event once", async () => {
    const world = new World({ config: { maxInFlight: 2 } });
    world.input(3);
    world.answer = () => status(503);
    const engine = await world.engine();
    const call = (options: EngineRunOptions): Promise<Summary> =>
      world.settle(engine.run(INPUT, { out: OUTPUT, waitMs: 0, ...options }).finished);
    const traced = (): Promise<ItemTrace> => world.settle(engine.trace(OUTPUT, "k3"));
    await call({});
    const first = await traced();
    expect(shortOf(first)).toEqual(["accepted", "admitted 1", "held", "ended 1", "waiting"]);
    expect(first.events.at(-1)?.detail).toBe(
      "its next request waits until this is over: outage: alpha; nothing is tried before the run is called again",
    );
    const holds = first.events.filter(({ event }) => event === "held");
    expect(holds.map(({ detail }) => detail)).toEqual([
      expect.stringMatching(/^outage: alpha: .*; nothing is tried before the run is called again$/),
    ]);
    const ats = first.events.flatMap(({ at }) => at ?? []);
    expect(ats).toEqual([...ats].sort());

    await world.clock.advance(1_000);
    await call({ finish: true });
    await world.clock.advance(1_000);
    world.answer = (line) => (line === 3 ? status(400) : ok(line));
    await call({ retryFailed: true });
    await world.clock.advance(1_000);
    world.answer = ok;
    expect(await call({ retryFailed: ["invalid_request"] })).toMatchObject({ counts: { completed: 3 } });
    const trace = await traced();
    await world.settle(engine.close());
    expect(shortOf(trace)).toEqual([
      "accepted",
      "admitted 1",
      "held",
      "ended 1",
      "admitted 2",
      "ended 2",
      "committed",
      "reopened",
      "released",
      "admitted 3",
      "committed",
      "reopened",
      "admitted 4",
      "committed",
      "written",
    ]);
    const times = timesOf(trace).map(Number);
    expect(times).toEqual([...times].sort((left, right) => left - right));
    expect(trace.events[3]?.detail).toBe(
      "it failed (overloaded, HTTP 503), nothing billed; it does not count against the item (an outage, a limit, an account or a restart)",
    );
    const ends = trace.events.filter(({ event }) => event === "committed").map(({ detail }) => detail);
    expect(ends.map((detail) => detail.slice(0, detail.indexOf(" after")))).toEqual([
      "failed (overloaded)",
      "failed (invalid_request)",
      "completed",
    ]);
  });

  it("tells of the lines that an update keeps how they ended, and of those that it opens what is left", async () => {
    const world = new World();
    world.input(2);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    world.disk.put(INPUT, itemLine(3) + itemLine(2) + itemLine(1));
    await world.settle(engine.run(INPUT, { out: OUTPUT, update: true }).finished);
    const kept = await world.settle(engine.trace(OUTPUT, "k1"));
    const added = await world.settle(engine.trace(OUTPUT, "k3"));
    await world.settle(engine.close());
    expect([kept.line, shortOf(kept)]).toEqual([3, ["accepted", "committed", "written"]]);
    expect([added.line, shortOf(added)]).toEqual([1, ["accepted", "admitted 1", "committed", "written"]]);
  });

  it.each(["ended", "killed and called again"])(
    "keeps what held an item and when it was released, in the order of time, after its run has %s",
    async (how) => {
      const world = new World({ answer: () => status(503) });
      world.input(3);
      let process = mortal(world.clock);
      let { engine } = await world.opened(process.clock, process);
      let run = engine.run(INPUT, { out: OUTPUT, sla: 60 });
      await world.clock.advance(100_000);
      const during = await world.settle(engine.trace(OUTPUT, "k2"));
      expect(shortOf(during)).toContain("held");
      expect(shortOf(during)).not.toContain("released");
      if (how !== "ended") {
        process.kill();
        world.kill();
        process = mortal(world.clock);
        ({ engine } = await world.settle(world.opened(process.clock, process)));
        run = engine.run(INPUT, { out: OUTPUT, sla: 60 });
        await world.clock.advance(20_000);
      }
      world.answer = (line) => ok(line);
      await world.settle(run.finished);
      for (let time = 0; time < 2; time += 1) {
        const trace = await world.settle(engine.trace(OUTPUT, "k2"));
        const held = trace.events.filter(({ event }) => event === "held");
        const released = trace.events.filter(({ event }) => event === "released");
        expect(held).toHaveLength(1); // the outage goes on over a kill
        expect(released.map(({ detail }) => detail)).toEqual(held.map(({ detail }) => detail));
        expect(held[0]?.detail).toMatch(/^outage: alpha/);
        expect(Date.parse(released.at(-1)?.at ?? "")).toBeGreaterThan(Date.parse(held[0]?.at ?? "") + 95_000);
        expect(timesOf(trace)).toEqual(timesOf(trace).toSorted((one, other) => Number(one) - Number(other)));
        expect(shortOf(trace).at(-1)).toBe("written");
        await world.settle(engine.run(INPUT, { out: OUTPUT }).finished); // finished before
      }
      await world.settle(engine.close());
    },
  );

  it("shows events of before and after an update in the order of time", async () => {
    const world = new World({ answer: (line) => (line === 1 ? status(400, "bad") : ok(line)) });
    world.input(2);
    const engine = await world.engine();
    await world.settle(engine.run(INPUT, { out: OUTPUT, sla: 60 }).finished);
    await world.clock.advance(60_000);
    world.answer = (line) => ok(line);
    const retryFailed = ["invalid_request"] as const;
    await world.settle(engine.run(INPUT, { out: OUTPUT, sla: 120, retryFailed }).finished);
    await world.clock.advance(60_000);
    world.disk.put(INPUT, itemLine(1) + itemLine(2) + itemLine(3));
    await world.settle(engine.run(INPUT, { out: OUTPUT, sla: 120, update: true }).finished);
    for (const key of ["k1", "k2", "k3"]) {
      const times = timesOf(await world.settle(engine.trace(OUTPUT, key)));
      expect(times).toEqual(times.toSorted((one, other) => Number(one) - Number(other)));
      expect(times).not.toContain(null);
    }
    await world.settle(engine.close());
  });

  it("finds an item by the id of its object, and in a stream and an ordered output by its key", async () => {
    const world = new World();
    const engine = await world.engine();
    const items = ["[[1]] a", "[[2]] b"].map((input) => ({ model: "alpha:m1", input, sla: 60 }));
    const { objects } = await world.settle(engine.submit(items).finished);
    const id = objects[1]?.object_id ?? "";
    const trace = await world.settle(engine.trace(id));
    expect([trace.line, trace.status, shortOf(trace).at(-1)]).toEqual([2, "completed", "written"]);
    world.input(3);
    const ordered = await world.settle(engine.run(INPUT, { out: "/ordered.jsonl", ordered: true }).finished);
    expect((await world.settle(engine.trace(ordered.task_id, "k3"))).line).toBe(3);
    const bytes = world.disk.bytes(INPUT) as Uint8Array;
    const stream = await world.settle(engine.run([bytes], { out: "/stream.jsonl", id: "s" }).finished);
    expect((await world.settle(engine.trace(stream.task_id, "k2"))).line).toBe(2);
    await world.settle(engine.close());
  });

  it("finds a run that has an id and an output by either of them", async () => {
    const world = new World();
    world.input(1);
    const engine = await world.engine();
    const options = { id: "mine", out: OUTPUT };
    const { task_id: id } = await world.settle(engine.run(INPUT, options).finished);
    for (const name of [id, "mine", OUTPUT])
      expect(await world.settle(engine.trace(name, "k1"))).toMatchObject({ key: "k1", status: "completed" });
    await world.settle(engine.close());
  });

  it("refuses a key and an id that nothing has", async () => {
    const world = new World();
    world.input(1);
    const engine = await world.engine();
    const { task_id: id } = await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    const refused = (promise: Promise<unknown>) =>
      world.settle(
        promise.then(
          () => "found",
          (error: { code: string }) => error.code,
        ),
      );
    expect(await refused(engine.trace(id, "k9"))).toBe("not_found");
    expect(await refused(engine.trace("00000000-0000-4000-8000-000000000000"))).toBe("not_found");
    expect(await refused(engine.trace(id))).toBe("not_found");
    await world.settle(engine.close());
  });
});
