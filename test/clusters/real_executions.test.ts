/** Clusters over the runtime as it is: secrets, retries, and who may run what when it is run. */
import { describe, expect, it } from "vitest";
import type { Clusters, ClusterView } from "../../src/clusters/cluster.ts";
import { openClusters } from "../../src/clusters/clusters.ts";
import { PerigeeError } from "../../src/errors.ts";
import type { SatelliteCall } from "../../src/satellites/sdk/satellite.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { CALLER, ExecutionWorld, satellite } from "../satellites/execution_world.ts";
import { FakeFiles, memberOf, statuses } from "./world.ts";

class RealWorld extends ExecutionWorld {
  /** What satellites were given, by identifier of their input. */
  readonly seen: SatelliteCall[] = [];

  /** A satellite whose `run` is a function of what it is given. */
  given(name: string, run: (call: SatelliteCall) => JsonObject): void {
    this.add(
      satellite(name, {
        run: async (call) => {
          this.seen.push(call);
          return run(call);
        },
      }),
    );
  }

  async clusters(): Promise<Clusters> {
    const executions = await this.open();
    return this.peek((store) =>
      openClusters({
        clock: this.clock,
        store,
        executions,
        files: new FakeFiles(),
        resolver: {
          resolve: async (caller, reference) => {
            this.mayRun(caller, reference.name);
            const found = this.satellites.get(reference.name);
            if (found === undefined) throw new PerigeeError("not_found", "no such satellite");
            return { reference, kind: "vendor", satellite: found, fixedConfig: {} };
          },
        },
        onFault: (error) => this.faults.push(error),
      }),
    );
  }

  async ran(members: readonly object[]): Promise<ClusterView> {
    const clusters = await this.clusters();
    const declaration = { sla: "1h", cluster: { satellites: members } } as unknown as JsonObject;
    const { id } = await this.clock.runUntilSettled(clusters.submit(CALLER, { declaration }));
    for (;;) {
      const view = await this.clock.runUntilSettled(clusters.cluster(CALLER.project, id));
      if (view.status !== "pending") return view;
      await this.clock.advance(1_000);
    }
  }
}

describe("clusters over the runtime", () => {
  it("fill in secrets of the declaration, and never one that an output names", async () => {
    const world = new RealWorld();
    world.secrets.set("one/key", "value-of-key").set("one/stolen", "value-of-stolen");
    world.given("leaks", () => ({ token: "secret://stolen", deep: { list: ["Bearer secret://stolen"] } }));
    world.given("uses", () => ({}));
    const view = await world.ran([
      { identifier: "a", uses: "satellite/perigee/leaks" },
      {
        identifier: "b",
        uses: "satellite/perigee/uses",
        config: {
          key: "${{ secrets.key }}",
          header: "Bearer ${{ secrets.key }}!",
          taken: "${{ a.output.token }}",
        },
        input: { whole: "${{ a.output }}", within: "x ${{ a.output.token }}" },
      },
      {
        identifier: "c",
        uses: "satellite/perigee/uses",
        each: "${{ a.output.deep.list }}",
        input: "${{ a.output }}",
        config: { item: "${{ each.item }}" },
      },
    ]);
    expect([view.status, view.error]).toEqual(["completed", null]);
    // `b` and `c` wait only for `a`, so either may be first.
    const seenWith = (name: string) => world.seen.slice(1).filter(({ config }) => name in config);
    expect([seenWith("key").length, seenWith("item").length]).toEqual([1, 1]);
    expect(seenWith("key")[0]).toMatchObject({
      config: { key: "value-of-key", header: "Bearer value-of-key!", taken: "secret://stolen" },
      input: { whole: { token: "secret://stolen" }, within: "x secret://stolen" },
    });
    expect(seenWith("item")[0]).toMatchObject({
      config: { item: "Bearer secret://stolen" },
      input: { token: "secret://stolen" },
    });
    expect(JSON.stringify([view, world.seen.map(({ input, config }) => [input, config])])).not.toContain(
      "value-of-stolen",
    );
    expect(JSON.stringify(view)).not.toContain("value-of-key");
  });

  it("fail a member whose secret is not there, and let an alert follow", async () => {
    const world = new RealWorld();
    world.given("uses", () => ({}));
    const view = await world.ran([
      { identifier: "a", uses: "satellite/perigee/uses", config: { key: "${{ secrets.none }}" } },
      {
        identifier: "alert",
        uses: "satellite/perigee/uses",
        if: "on_failure",
        input: { code: "${{ a.error.code }}" },
      },
    ]);
    expect(statuses(view)).toEqual({ a: "failed", alert: "completed" });
    expect(world.seen.map(({ input }) => input)).toEqual([{ code: "secret_missing" }]);
  });

  it("count retries, and give a member its own sla within that of the cluster", async () => {
    const world = new RealWorld();
    world.given("late", ({ attempt }) => {
      if (attempt < 3) throw new SatelliteError("refused", "busy", "come later");
      return { attempt };
    });
    const hangs = ({ signal }: SatelliteCall): Promise<never> =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    world.add(satellite("never", { run: hangs }));
    const view = await world.ran([
      { identifier: "a", uses: "satellite/perigee/late" },
      { identifier: "b", uses: "satellite/perigee/never", sla: "30s" },
    ]);
    expect([view.status, statuses(view)]).toEqual(["failed", { a: "completed", b: "expired" }]);
    expect(memberOf(view, "a")).toMatchObject({ retries: 2, output: { attempt: 3 } });
    expect(Number(memberOf(view, "b").finishedWallMs) - view.createdWallMs).toBeLessThanOrEqual(31_000);
  });

  it("fault 103: ask again who may run what when a member is about to run", async () => {
    const world = new RealWorld();
    let mayRun = true;
    world.mayRun = (_caller, name) => {
      if (name === "vendor" && !mayRun) throw new PerigeeError("forbidden", "needs the beta flag");
    };
    world.given("first", () => {
      mayRun = false;
      return {};
    });
    world.given("vendor", () => ({}));
    const view = await world.ran([
      { identifier: "a", uses: "satellite/perigee/first" },
      { identifier: "b", uses: "satellite/perigee/vendor", needs: ["a"] },
    ]);
    expect([statuses(view), memberOf(view, "b").error?.code]).toEqual([
      { a: "completed", b: "failed" },
      "forbidden",
    ]);
    expect(world.seen).toHaveLength(1);
  });

  it("check again what came by reference, and say where it is wrong", async () => {
    const world = new RealWorld();
    world.given("gives", () => ({ text: 7 }));
    world.given("takes", () => ({}));
    const view = await world.ran([
      { identifier: "a", uses: "satellite/perigee/gives" },
      { identifier: "b", uses: "satellite/perigee/takes", input: { text: "${{ a.output.text }}" } },
    ]);
    expect(memberOf(view, "b").error).toMatchObject({
      code: "invalid_input",
      message: expect.stringContaining("input.text"),
    });
    expect(world.faults).toEqual([]);
  });
});
