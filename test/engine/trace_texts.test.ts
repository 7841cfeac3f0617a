/**
 * Every word that `engine.trace` says of an item that is held, cut off at its deadline or retried, in virtual time.
 */
import { describe, expect, it } from "vitest";
import type { ItemTrace } from "../../src/engine/trace.ts";
import { INPUT, itemLine, mortal, OUTPUT, ok, status, World } from "./world.ts";

const PRICES = { "*": { inputUsdPerMillion: 1_000, outputUsdPerMillion: 2_000, asOf: "2026-11-01" } };
const MISSING =
  'provider_missing: gone: provider "gone" is not configured; set PERIGEE_PROVIDER_GONE_BASE_URL, or providers.gone.baseUrl in the configuration';
const RESERVED = "alpha:realtime:m1: reserved 14 input and 4096 output tokens";

/** Of each event the seconds since the first, and all its words. */
function told({ status: state, events }: ItemTrace): readonly string[] {
  const first = Date.parse(events[0]?.at ?? "");
  const lines = events.map(({ at, event, attempt, detail }) => {
    const when = at === null ? "now" : `${(Date.parse(at) - first) / 1_000}`;
    return `${when} ${event}${attempt === undefined ? "" : ` ${attempt}`}: ${detail}`;
  });
  return [state, ...lines];
}

const item = (input: string, model = "alpha:m1", sla = 1) => ({ model, input, sla });

describe("engine.trace of an item whose provider is missing", () => {
  it.each(["works", "has stopped"])("names it while its run %s", async (when) => {
    const world = new World({ answer: () => "hang" });
    const lines = [
      itemLine(1),
      itemLine(2, "gone:m1"),
      `${JSON.stringify({ key: "k3", model: "far:m2", input: "[[3]]" })}\n`,
    ];
    world.disk.put(INPUT, lines.join(""));
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 60 });
    await world.clock.advance(5_000);
    if (when !== "works") {
      run.stop();
      await world.settle(run.finished);
    }
    expect(told(await world.settle(engine.trace(OUTPUT, "k2")))).toEqual([
      "open",
      "0 accepted: its run began: sla 60 minutes",
      `0 held: ${MISSING}; nothing is tried before the run is called again`,
      "now waiting: its first request waits until this is over: provider_missing: gone; nothing is tried before the run is called again",
    ]);
    const other = told(await world.settle(engine.trace(OUTPUT, "k3")));
    expect(other.at(-1)).toMatch(/its first request waits until this is over: provider_missing: far;/);
    const served = told(await world.settle(engine.trace(OUTPUT, "k1")));
    expect(served.join()).not.toContain("provider_missing");
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
  });

  it("names it where the run sets the model", async () => {
    const world = new World();
    world.input(1);
    const engine = await world.engine();
    const run = engine.run(INPUT, { out: OUTPUT, sla: 60, model: "gone:m9" });
    await world.clock.advance(5_000);
    expect(told(await world.settle(engine.trace(OUTPUT, "k1"))).at(-1)).toBe(
      "now waiting: its first request waits until this is over: provider_missing: gone; nothing is tried before the run is called again",
    );
    run.stop();
    await world.settle(run.finished);
    await world.settle(engine.close());
  });

  it("names it in a list, beside items that are answered", async () => {
    const world = new World();
    const engine = await world.engine();
    const list = engine.submit([item("[[1]] a"), item("[[2]] b", "gone:m1")]);
    const { objects } = await world.settle(Promise.resolve(list));
    await world.clock.advance(5_000);
    const [answered, held] = objects.map(({ object_id: id }) => id);
    expect(told(await world.settle(engine.trace(held ?? "")))).toEqual([
      "open",
      "0 accepted: its run began: sla 1 minute",
      `0 held: ${MISSING}; nothing is tried before the configuration changes`,
      "now waiting: its first request waits until this is over: provider_missing: gone; nothing is tried before the configuration changes",
    ]);
    expect(told(await world.settle(engine.trace(answered ?? ""))).join()).not.toContain("held");
    await world.settle(engine.close());
  });
});

describe("engine.trace of an item of a posted list", () => {
  it("says once that it ended at its deadline, after the request that was cut off", async () => {
    const world = new World({ answer: () => "hang", config: { prices: PRICES } });
    const engine = await world.engine();
    const { objects } = await world.settle(engine.submit([item("[[1]] a")]).finished);
    const trace = told(await world.settle(engine.trace(objects[0]?.object_id ?? "")));
    await world.settle(engine.close());
    expect(trace).toEqual([
      "expired",
      "0 accepted: its task was stored: sla 1 minute",
      `0.25 admitted 1: ${RESERVED}, at most $262.18`,
      "60.001 ended 1: it failed without an answer (timeout), and may have been billed; it does not count against the item (an outage, a limit, an account or a restart)",
      "60.001 committed: expired (expired) after 1 request: 0 input and 0 output tokens, $0.00 billed, at most $262.18 more in doubt",
      "60.001 written: its answer is in the work log; error: the sla passed before the item was answered; its last request failed (timeout)",
    ]);
  });

  it("says what its requests took if it ended at its deadline between two of them, or before the first", async () => {
    const world = new World({ config: { maxInFlight: 1 }, latencyMs: 100 });
    world.answer = (line) => (line === 1 ? "hang" : status(503, "busy", { "retry-after": "90" }));
    const engine = await world.engine();
    const { objects } = await world.settle(engine.submit([item("[[2]] a")]).finished);
    const tried = told(await world.settle(engine.trace(objects[0]?.object_id ?? "")));
    expect(tried.slice(-2)).toEqual([
      "60.001 committed: expired (expired) after 1 request: 0 input and 0 output tokens, $0.00 billed",
      "60.001 written: its answer is in the work log; error: the sla passed before the item was answered; its last request failed (overloaded, HTTP 503); HTTP status: 503",
    ]);
    const { objects: others } = await world.settle(
      engine.submit([item("[[1]] b"), item("[[1]] c")]).finished,
    );
    const unsent = told(await world.settle(engine.trace(others[1]?.object_id ?? "")));
    await world.settle(engine.close());
    expect(unsent).toEqual([
      "expired",
      "0 accepted: its task was stored: sla 1 minute",
      "60 committed: expired (expired), no request was sent",
      "60 written: its answer is in the work log; error: the sla passed before the item was answered",
    ]);
  });

  it("says that a retry opened it again", async () => {
    const world = new World({ answer: (line, attempt) => (attempt === 1 ? status(400, "bad") : ok(line)) });
    const engine = await world.engine();
    const { task_id, objects } = await world.settle(engine.submit([item("[[1]] a")]).finished);
    await world.clock.advance(2_000);
    await world.settle(engine.retryTask(task_id, { codes: ["invalid_request"] }));
    await world.clock.advance(2_000);
    const trace = told(await world.settle(engine.trace(objects[0]?.object_id ?? "")));
    await world.settle(engine.close());
    expect(trace).toEqual([
      "completed",
      "0 accepted: its task was stored: sla 1 minute",
      `0.25 admitted 1: ${RESERVED}`,
      "0.26 committed: failed (invalid_request) after 1 request: 0 input and 0 output tokens, $0.00 billed",
      "2.26 reopened: a retry opened it again; earlier requests no longer count against it",
      `2.26 admitted 2: ${RESERVED}`,
      "2.27 committed: completed after 2 requests: 10 input and 5 output tokens, the price is not known",
      "2.27 written: its answer is in the work log; model: alpha:scripted; finish reason: stop; latency of the last request: 10 ms; provider's request id: chatcmpl-scripted",
    ]);
  });
});

describe("engine.trace of an item whose model has no known price", () => {
  it("says so instead of an amount, also after a retry and an update", async () => {
    const world = new World({ answer: (line) => (line === 2 ? status(400, "bad") : ok(line)) });
    world.input(2);
    const engine = await world.engine();
    const said = async (): Promise<string | undefined> =>
      (await world.settle(engine.trace(OUTPUT, "k1"))).events.find(({ event }) => event === "committed")
        ?.detail;
    const unpriced = "completed after 1 request: 10 input and 5 output tokens, the price is not known";
    await world.settle(engine.run(INPUT, { out: OUTPUT }).finished);
    expect(await said()).toBe(unpriced);
    await world.settle(engine.run(INPUT, { out: OUTPUT, retryFailed: ["invalid_request"] }).finished);
    expect(await said()).toBe(unpriced);
    world.disk.put(INPUT, itemLine(3) + itemLine(1));
    await world.settle(engine.run(INPUT, { out: OUTPUT, update: true }).finished);
    expect(await said()).toBe(unpriced);
    await world.settle(engine.close());
  });
});

describe("engine.trace of an item that further calls run", () => {
  const isAsked = ({ event }: { readonly event: string }): boolean => event === "admitted";

  it("says first when it was accepted, and from when its sla counts after a retry", async () => {
    const world = new World({ answer: (line, attempt) => (attempt === 1 ? status(400, "bad") : ok(line)) });
    const engine = await world.engine();
    const items = [item("[[2]] a", "alpha:m1", 60), item("[[3]] b", "alpha:m1", 30)]; // two slas: two runs
    const { task_id: id, objects } = await world.settle(engine.submit(items).finished);
    world.input(1);
    await world.settle(engine.run(INPUT, { out: OUTPUT, sla: 60 }).finished);
    await world.clock.advance(60_000);
    const retriedAt = new Date(world.clock.wallMs()).toISOString();
    await world.settle(engine.retryTask(id, { codes: ["invalid_request"] }));
    await world.clock.advance(10_000);
    await world.settle(
      engine.run(INPUT, { out: OUTPUT, sla: 60, retryFailed: ["invalid_request"] }).finished,
    );
    const ofList = await world.settle(engine.trace(objects[0]?.object_id ?? ""));
    const ofRun = await world.settle(engine.trace(OUTPUT, "k1"));
    await world.settle(engine.close());
    for (const { events } of [ofList, ofRun]) {
      expect(events.map(({ event }) => event)).toEqual([
        ...["accepted", "admitted", "committed", "reopened", "admitted", "committed", "written"],
      ]);
      const [accepted, sent] = events;
      expect(Date.parse(sent?.at ?? "") - Date.parse(accepted?.at ?? "")).toBeLessThan(1_000);
      expect(accepted?.detail).toMatch(/^its run began: sla 60 minutes, counted from \d{4}-/);
    }
    expect(ofList.events[0]?.detail).toContain(retriedAt.slice(0, 19));
  });

  it.each(["run", "list"])(
    "names no price of a request that a kill cut off if none is known (%s)",
    async (kind) => {
      const world = new World({ answer: () => "hang" });
      world.input(1);
      const process = mortal(world.clock);
      const engine = await world.engine(process.clock);
      const list = kind === "list" ? await world.settle(engine.submit([item("[[1]] a")])) : undefined;
      if (list === undefined) engine.run(INPUT, { out: OUTPUT, sla: 1 }).finished.catch(() => undefined);
      await world.clock.advance(2_000);
      process.kill();
      world.kill();
      world.answer = () => status(400, "bad");
      const again = await world.engine();
      if (list === undefined) await world.settle(again.run(INPUT, { out: OUTPUT }).finished);
      else await world.clock.advance(5_000);
      const id = list?.objects[0]?.object_id;
      const trace = await world.settle(id === undefined ? again.trace(OUTPUT, "k1") : again.trace(id));
      await world.settle(again.close());
      const words = told(trace).join("\n");
      expect(trace.events.filter(isAsked)).toHaveLength(2);
      expect(words).toContain("may have been billed");
      expect(words).toContain("after 2 requests: 0 input and 0 output tokens, the price is not known");
      expect(words).not.toContain("$");
    },
  );

  it("says once that it was held, while what holds it goes on", async () => {
    const world = new World();
    world.disk.put(INPUT, itemLine(1) + itemLine(2, "gone:m1"));
    const engine = await world.engine();
    for (let call = 0; call < 3; call += 1) {
      await world.settle(engine.run(INPUT, { out: OUTPUT, sla: 60, waitMs: 0 }).finished);
      await world.clock.advance(10_000);
    }
    expect(told(await world.settle(engine.trace(OUTPUT, "k2")))).toEqual([
      "open",
      "0 accepted: its run began: sla 60 minutes",
      `0 held: ${MISSING}; nothing is tried before the run is called again`,
      "now waiting: its first request waits until this is over: provider_missing: gone; nothing is tried before the run is called again",
    ]);
    await world.settle(engine.run(INPUT, { out: OUTPUT, sla: 60, waitMs: 0, finish: true }).finished);
    const { events } = await world.settle(engine.trace(OUTPUT, "k2"));
    expect(events.filter(({ event }) => event === "held" || event === "released")).toHaveLength(2);
    await world.settle(engine.close());
  });
});
