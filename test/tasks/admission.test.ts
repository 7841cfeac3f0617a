/** Whether work is accepted, by what waits. */
import { describe, expect, it, vi } from "vitest";
import type { EngineCore } from "../../src/engine/core.ts";
import type { Work } from "../../src/engine/posted/admitting.ts";
import { Admission } from "../../src/tasks/usage/admission.ts";
import { TaskBacklog } from "../../src/tasks/usage/backlog.ts";
import { createSpending } from "../../src/tasks/usage/spending.ts";
import { INPUT, OUTPUT, World } from "../engine/world.ts";

function work(items: number, slaMinutes: number | null): Work {
  return {
    model: "alpha:m1",
    endpoints: ["chat"],
    slaMinutes,
    items,
    requests: items,
    inputTokens: items * 10,
    outputTokens: items * 512,
    volumeTokens: 0,
  };
}

/** Admits works as a task of one item, so that the backlog has room. */
interface Admitting {
  admit(project: string, works: readonly Work[]): Promise<unknown>;
}

function admissionOf(core: EngineCore): Admitting {
  const { clock, store } = core.storage;
  const spending = createSpending({ clock, store, capUsd: () => undefined });
  const admission = new Admission({ core, spending, backlog: new TaskBacklog() });
  return { admit: (project, works) => admission.admit(project, works, { items: 1, bytes: 1 }) };
}

describe("admission", () => {
  it("counts the requests that items share, not the items", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
    const { engine, core } = await world.opened();
    const admission = admissionOf(core);
    const texts: Work = { ...work(6_000, 2), endpoints: ["embeddings"], requests: 60 };
    await expect(admission.admit("a", [texts])).resolves.toMatchObject({ estimatedUsd: 0 });
    await expect(admission.admit("b", [{ ...texts, requests: 6_000 }])).rejects.toMatchObject({
      code: "sla_infeasible",
    });
    await world.settle(engine.close());
  });

  it("refuses work that cannot be done within its sla, and names the earliest that it can", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
    const { engine, core } = await world.opened();
    const admission = admissionOf(core);
    await expect(admission.admit("a", [work(600, 20)])).resolves.toMatchObject({ estimatedUsd: 0 });
    await expect(admission.admit("a", [work(600, 9)])).rejects.toMatchObject({
      code: "sla_infeasible",
      details: { earliestSlaMinutes: 11 },
    });
    await expect(admission.admit("a", [work(60, null)])).resolves.toBeDefined();
    await expect(admission.admit("a", [work(600, null)])).rejects.toMatchObject({ code: "sla_infeasible" });
    await expect(admission.admit("a", [work(60 * 43_201, 43_200)])).rejects.toMatchObject({
      details: { earliestSlaMinutes: null },
    });
    await engine.close();
  });

  it("counts what its own project has waiting, and of another's no more than its share", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
    world.input(6_000);
    const { engine, core } = await world.opened();
    const admission = admissionOf(core);
    const run = engine.run(INPUT, { out: OUTPUT, project: "large", sla: 120 });
    await world.clock.advance(5_000);
    const details = async (project: string): Promise<unknown> =>
      admission.admit(project, [work(60, 1)]).catch((error: { details: unknown }) => error.details);
    expect(await details("other")).toMatchObject({ earliestSlaMinutes: 3 });
    expect(await details("large")).toMatchObject({ earliestSlaMinutes: 2 });
    const late = admission.admit("large", [work(3_000, 121)]);
    await expect(late).rejects.toMatchObject({ details: { earliestSlaMinutes: 151 } });
    run.stop();
    await world.settle(run.finished);
    await engine.close();
  });

  it("refuses nothing for what was never measured", async () => {
    const { engine, core } = await new World().opened();
    await expect(admissionOf(core).admit("a", [work(1_000_000, 1)])).resolves.toBeDefined();
    await engine.close();
  });

  it("looks at no more than 64 models in a turn of the event loop", async () => {
    const world = new World();
    const { engine, core } = await world.opened();
    let forecasts = 0;
    const admission = admissionOf(core);
    const { forecasts: all } = core.sending.lanes;
    const forecast = all.forecast.bind(all);
    vi.spyOn(all, "forecast").mockImplementation((work) => {
      forecasts += 1;
      return forecast(work);
    });
    const seen: number[] = [];
    const soon = world.clock.soon.bind(world.clock);
    vi.spyOn(world.clock, "soon").mockImplementation((callback) => {
      seen.push(forecasts);
      soon(callback);
    });
    const works = Array.from({ length: 150 }, (_, index) => ({ ...work(1, 60), model: `alpha:m${index}` }));
    const small = admission.admit("a", works.slice(0, 10));
    await Promise.all([admission.admit("a", works), small]);
    const turns = seen.map((before, index) => (seen[index + 1] ?? forecasts) - before);
    expect(forecasts).toBeGreaterThanOrEqual(150);
    expect(Math.max(...turns)).toBeLessThanOrEqual(64);
    await engine.close();
  });

  it("counts the items of a task that go before others of their model", async () => {
    const world = new World({ config: { limits: { alpha: { requestsPerMinute: 60 } } } });
    const { engine, core } = await world.opened();
    const admission = admissionOf(core);
    await expect(admission.admit("a", [work(600, 15), work(600, 30)])).resolves.toBeDefined();
    await expect(admission.admit("a", [work(900, 20), work(600, 15)])).rejects.toMatchObject({
      details: { earliestSlaMinutes: 26 },
    });
    await engine.close();
  });
});
