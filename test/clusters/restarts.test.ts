/** Clusters over crashes and restarts: at every step, and after their end. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../src/testing/random.ts";
import { ONE } from "./satellites.ts";
import { ClusterWorld, declared, finished, memberOf, statuses } from "./world.ts";

const RUN = "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001";
const members = [
  { identifier: "list" },
  {
    identifier: "parse",
    each: "${{ list.output.files }}",
    concurrency: 2,
    input: { file: "${{ each.item }}" },
  },
  { identifier: "infer", input: { texts: "${{ parse.output[*].text }}" } },
  { identifier: "fails", needs: ["infer"] },
  { identifier: "skipped", needs: ["fails"] },
  { identifier: "alert", if: "on_failure", input: { error: "${{ fails.error.code }}" } },
];

const world = (random: () => number): ClusterWorld =>
  new ClusterWorld(
    ({ member, input }) => {
      if (member?.identifier === "fails") return { afterMs: 7, error: "boom" };
      if (member?.identifier === "list") return { afterMs: 7, output: { files: ["a", "b", "c", "d", "e"] } };
      return { afterMs: 7, output: { text: `text of ${JSON.stringify(input["file"])}` } };
    },
    { commitMs: 3, random },
  );

describe("fault 104: a crash between any two steps of a cluster", () => {
  /** Lets the process live until so many timers have fired; undefined when the run was over before. */
  async function killedAfter(timers: number, share: number) {
    const one = world(() => share);
    const opening = one
      .open()
      .then(({ clusters }) => clusters.submit(ONE, { id: RUN, declaration: declared(members) }));
    opening.catch(() => undefined); // killed before it was acknowledged
    for (let fired = 0; fired < timers; fired += 1)
      if (!(await one.clock.advanceToNextTimer())) return undefined;
    const isAcknowledged = await Promise.race([
      opening.then(() => true),
      one.clock.settle().then(() => false),
    ]);
    one.kill();
    const { clusters } = await one.clock.runUntilSettled(one.open());
    const known = await one.clock.runUntilSettled(clusters.list(ONE.project, { limit: 1 }));
    if (isAcknowledged) expect(known.items).toHaveLength(1);
    return known.items.length === 0 ? "nothing" : { one, view: await finished(one, clusters, RUN) };
  }

  it.each([0, 0.999])(
    "goes on where it was, and does nothing twice (share of writes that happen: %d)",
    async (share) => {
      let runs = 0;
      for (let timers = 0; ; timers += 1) {
        const killed = await killedAfter(timers, share);
        if (killed === undefined) break;
        if (killed === "nothing") continue;
        runs += 1;
        const { one, view } = killed;
        expect(view.status).toBe("failed");
        expect(statuses(view)).toEqual({
          list: "completed",
          parse: "completed",
          infer: "completed",
          fails: "failed",
          skipped: "skipped",
          alert: "completed",
        });
        const { ended, submitted } = one.ledger;
        expect(new Set(ended).size).toBe(ended.length);
        expect(ended.length).toBe(9);
        expect(new Set(submitted.map(({ id }) => id)).size).toBe(9);
        const infer = submitted.find(({ member }) => member?.identifier === "infer");
        expect(infer?.input).toEqual({ texts: ["a", "b", "c", "d", "e"].map((name) => `text of "${name}"`) });
      }
      expect(runs).toBeGreaterThan(25);
    },
  );

  it("submits nothing again that a process has submitted, and asks for no output twice", async () => {
    const one = world(createRandom(1));
    const { clusters } = await one.open();
    await one.clock.runUntilSettled(clusters.submit(ONE, { id: RUN, declaration: declared(members) }));
    await one.clock.advance(40);
    const before = one.ledger.submitted.map(({ id }) => id);
    expect(before.length).toBeGreaterThan(2);
    one.kill();
    const opened = await one.clock.runUntilSettled(one.open());
    await finished(one, opened.clusters, RUN);
    const after = one.ledger.submitted.slice(before.length).map(({ id }) => id);
    expect(after.filter((id) => before.includes(id))).toEqual([]);
  });
});

describe("a restart", () => {
  it("shows runs that are over as they were", async () => {
    const one = world(createRandom(1));
    const { clusters } = await one.open();
    await one.clock.runUntilSettled(clusters.submit(ONE, { id: RUN, declaration: declared(members) }));
    const before = await finished(one, clusters, RUN);
    one.kill();
    const opened = await one.clock.runUntilSettled(one.open());
    expect(await opened.clusters.cluster(ONE.project, RUN)).toEqual(before);
    expect(one.ledger.submitted).toHaveLength(9);
  });

  it("after the sla finds what has completed, and ends what has not", async () => {
    const one = new ClusterWorld(({ member }) => ({
      afterMs: member?.identifier === "quick" ? 100 : 100_000,
    }));
    const { clusters } = await one.open();
    const declaration = declared(
      [{ identifier: "quick" }, { identifier: "slow" }, { identifier: "next", needs: ["quick", "slow"] }],
      { sla: "60s" },
    );
    await clusters.submit(ONE, { id: RUN, declaration });
    await one.clock.advance(1_000);
    one.kill();
    await one.clock.advance(90_000);
    const opened = await one.clock.runUntilSettled(one.open());
    const view = await finished(one, opened.clusters, RUN);
    expect([view.status, statuses(view)]).toEqual([
      "expired",
      { quick: "completed", slow: "expired", next: "expired" },
    ]);
  });

  it("goes on cancelling", async () => {
    const one = new ClusterWorld(() => undefined, { commitMs: 10 });
    const { clusters } = await one.clock.runUntilSettled(one.open());
    const declaration = declared([
      { identifier: "a" },
      { identifier: "b", needs: ["a"] },
      { identifier: "c", each: [1, 2, 3], concurrency: 1 },
    ]);
    await one.clock.runUntilSettled(clusters.submit(ONE, { id: RUN, declaration }));
    await one.clock.advance(100);
    void clusters.cancel(ONE.project, RUN).catch(() => undefined); // killed
    await one.clock.advance(11);
    one.kill();
    const opened = await one.clock.runUntilSettled(one.open());
    const view = await finished(one, opened.clusters, RUN);
    expect([view.status, statuses(view)]).toEqual([
      "cancelled",
      { a: "cancelled", b: "cancelled", c: "cancelled" },
    ]);
    expect(memberOf(view, "c").counts).toEqual({
      pending: 0,
      completed: 0,
      failed: 0,
      cancelled: 3,
      expired: 0,
    });
  });

  it("goes on when a disk that was full has room again", async () => {
    const one = new ClusterWorld();
    const { clusters } = await one.open();
    await clusters.submit(ONE, {
      id: RUN,
      declaration: declared([{ identifier: "a" }, { identifier: "b", needs: ["a"] }]),
    });
    one.store.failNext("disk_full", 3);
    const view = await finished(one, clusters, RUN);
    expect(view.status).toBe("completed");
    expect(one.faults).toEqual([]);
  });
});
