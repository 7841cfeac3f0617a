/** What workers know of a provider together, as real processes on a real PostgreSQL: requests in flight, cool-downs and pauses. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { call, type FleetProcess, FleetWorld } from "./fleet_world.ts";

const PLACES = 6;

interface Busy {
  readonly world: FleetWorld;
  /** That of the first project's items, and that of the second's. */
  readonly homes: readonly [FleetProcess, FleetProcess];
  /** When requests of a project arrived, in order. */
  readonly askedAtMs: (project: 0 | 1) => number[];
}

describeCounterpart("what the workers of a fleet know together", POSTGRES, () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres?.remove());

  /** Two workers, each with the items of a project. */
  async function busy(items: number, answerMs: number, limits: object): Promise<Busy> {
    const world = await FleetWorld.open(await postgres.freshUrl(), { limits });
    onTestFinished(() => world.close());
    world.answerMs = answerMs;
    const asked: [number[], number[]] = [[], []];
    world.refuse = (item) => {
      asked[item < items ? 0 : 1].push(performance.now());
      return undefined;
    };
    const [one] = await Promise.all(["w1", "w2"].map((name) => world.start(name)));
    await world.settled();
    const posted = ["first", "second"].map(async (project, index) => {
      const { key } = await world.key(project);
      const body = Array.from({ length: items }, (_, item) => ({
        ...{ model: "local:small", input: `[[${index * items + item}]]`, sla: 30 },
      }));
      return call(one?.url ?? "", key, "/v0/infer/", { method: "POST", body: JSON.stringify(body) });
    });
    expect((await Promise.all(posted)).map(({ status }) => status)).toEqual([200, 200]);
    const homes: [FleetProcess, FleetProcess] = [await world.homeOf("first"), await world.homeOf("second")];
    expect(homes[0]).not.toBe(homes[1]);
    await world.until(async () => asked[0].length > 0 && asked[1].length > 0);
    return { world, homes, askedAtMs: (project) => asked[project] };
  }

  it("is a limit on requests in flight, which all together never exceed, though one is stopped and the other killed", {
    timeout: 180_000,
  }, async () => {
    const items = 250;
    const { world, homes, askedAtMs } = await busy(items, 300, { local: { concurrency: PLACES } });
    await sleep(4_000);
    expect(Math.min(askedAtMs(0).length, askedAtMs(1).length)).toBeGreaterThan(PLACES / 2);
    homes[1].child.kill("SIGSTOP");
    await sleep(8_000);
    homes[1].child.kill("SIGCONT");
    await sleep(4_000);
    homes[0].child.kill("SIGKILL");
    await world.until(async () => world.asked.size === 2 * items, 90_000);
    expect(world.mostInFlight).toBe(PLACES);
  });

  it("is a cool-down and a pause: a refusal of one stops both, and one probe lets both go on", {
    timeout: 240_000,
  }, async () => {
    const { world, askedAtMs } = await busy(3_000, 300, {});
    const note = world.refuse;
    const all = (fromMs: number, toMs: number): number =>
      [...askedAtMs(0), ...askedAtMs(1)].filter((atMs) => atMs > fromMs && atMs < toMs).length;
    await sleep(2_000);
    let refusedMs = 0;
    world.refuse = (item) => {
      note?.(item);
      if (refusedMs > 0) return undefined;
      refusedMs = performance.now();
      return { status: 429, code: "rate_limit_exceeded", headers: { "retry-after": "9" } };
    };
    await sleep(13_000);
    expect(all(refusedMs + 2_000, refusedMs + 8_500)).toBe(0);
    await world.until(async () =>
      [0, 1].every((project) => (askedAtMs(project as 0 | 1).at(-1) ?? 0) > refusedMs + 8_500),
    );

    let isPaid = false;
    let stoppedMs = 0;
    world.refuse = (item) => {
      note?.(item);
      if (isPaid) return undefined;
      if (stoppedMs === 0) stoppedMs = performance.now();
      return { status: 429, code: "insufficient_quota" };
    };
    await world.until(async () => stoppedMs > 0);
    await sleep(15_000);
    expect(all(stoppedMs + 2_500, stoppedMs + 15_000)).toBeLessThanOrEqual(1);
    isPaid = true;
    const paidMs = performance.now();
    const isOn = (project: 0 | 1): boolean => (askedAtMs(project).at(-1) ?? 0) > paidMs;
    await world.until(async () => isOn(0) && isOn(1) && all(paidMs, Number.POSITIVE_INFINITY) > 2, 75_000);
    // From when the worker with the probe goes on, not from the probe: both learn of its answer on the same busy machine.
    const afterMs = [askedAtMs(0), askedAtMs(1)].map((times) => times.filter((atMs) => atMs > paidMs));
    const [probing = [], other = []] = afterMs.toSorted(([one = 0], [two = 0]) => one - two);
    expect((other[0] ?? Number.POSITIVE_INFINITY) - (probing[1] ?? 0)).toBeLessThan(2_500); // promised within 1 s
  });
});
