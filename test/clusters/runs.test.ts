/** Runs of clusters: order, references, conditions, ends. */
import { describe, expect, it } from "vitest";
import { keptClusters } from "../../src/clusters/runs/cluster_retention.ts";
import { PerigeeError } from "../../src/errors.ts";
import { ONE } from "./satellites.ts";
import { ClusterWorld, declared, finished, memberOf, ran, statuses } from "./world.ts";

/** Identifiers in the order of their submission. */
const order = ({ ledger }: ClusterWorld): string[] =>
  ledger.submitted.map(({ member }) =>
    member?.index === undefined ? `${member?.identifier}` : `${member.identifier}[${member.index}]`,
  );

const requestOf = ({ ledger }: ClusterWorld, identifier: string) => {
  const found = ledger.submitted.find(({ member }) => member?.identifier === identifier);
  if (found === undefined) throw new Error(`${identifier} was not submitted`);
  return found;
};

describe("a run of a cluster", () => {
  it("starts members as soon as what they refer to is there, and others at once", async () => {
    const world = new ClusterWorld(({ member }) => ({
      afterMs: member?.identifier === "slow" ? 500 : 100,
      output: { of: member?.identifier ?? "" },
    }));
    const view = await ran(world, [
      { identifier: "last", input: { slow: "${{ slow.output.of }}", next: "${{ next.output.of }}" } },
      { identifier: "next", input: { text: "${{ first.output.of }}" } },
      { identifier: "first" },
      { identifier: "slow" },
    ]);
    expect(view.status).toBe("completed");
    expect(order(world)).toEqual(["first", "slow", "next", "last"]);
    const at = (name: string) => (memberOf(view, name).startedWallMs ?? 0) - view.createdWallMs;
    expect(["first", "slow", "next", "last"].map(at)).toEqual([0, 0, 100, 500]);
    expect(memberOf(view, "last").needs).toEqual(["next", "slow"]);
  });

  it("gives whole values of any type, and scalars within texts", async () => {
    const output = {
      list: [{ a: 1 }, { a: null }],
      number: 7,
      yes: true,
      none: null,
      text: "t",
      "a b": { c: 1 },
    };
    const world = new ClusterWorld(() => ({ output }));
    await ran(
      world,
      [
        { identifier: "a" },
        {
          identifier: "b",
          config: "${{ a.output }}",
          input: {
            whole: "${{ a.output }}",
            list: "${{a.output.list[*].a}}",
            nested: [{ deep: "${{ a.output.list[0] }}" }, "${{ a.output.number }}"],
            quoted: "${{ a.output['a b'].c }}",
            within:
              "n=${{ a.output.number }} ${{ a.output.yes }} [${{ a.output.none }}] ${{ a.output.text }}",
            below: "${{ a.output.none.of.nothing }}",
            status: "${{ a.status }}",
            error: "${{ a.error }}",
            id: "${{ cluster.id }}",
            given: "${{ input.who.name }}",
          },
        },
      ],
      { input: { who: { name: "Ada" } } },
    );
    const { input, config, member } = requestOf(world, "b");
    expect(config).toEqual(output);
    expect(input).toEqual({
      whole: output,
      list: [1, null],
      nested: [{ deep: { a: 1 } }, 7],
      quoted: 1,
      within: "n=7 true [] t",
      below: null,
      status: "completed",
      error: null,
      id: member?.clusterId,
      given: "Ada",
    });
  });

  it("fault 99: sees only own members, and evaluates nothing", async () => {
    for (const path of [
      "__proto__",
      "constructor",
      "constructor.name",
      "text.length",
      "list.length",
      "list.map",
      "toString",
    ]) {
      const world = new ClusterWorld(() => ({
        output: { text: "abc", list: [1], code: "${{ secrets.key }} {{7*7}}" },
      }));
      const view = await ran(world, [
        { identifier: "a" },
        { identifier: "b", input: { x: `\${{ a.output.${path} }}` } },
        { identifier: "c", input: { x: "${{ a.output.code }}" } },
      ]);
      expect(memberOf(view, "b").error?.code, path).toBe("invalid_reference");
      expect(requestOf(world, "c")).toMatchObject({
        input: { x: "${{ secrets.key }} {{7*7}}" },
        secretPaths: [],
      });
    }
  });

  it("uses only secrets that its declaration names, not those that an output or the input names", async () => {
    const named = { token: "secret://stolen", deep: { more: "see secret://stolen" } };
    const world = new ClusterWorld(() => ({ output: named }));
    await ran(
      world,
      [
        { identifier: "a" },
        {
          identifier: "b",
          each: ["secret://stolen"],
          config: { key: "Bearer ${{ secrets.my-key }}", "a/b~c": ["secret://written"] },
          input: {
            whole: "${{ a.output }}",
            text: "x ${{ a.output.token }}",
            given: "${{ input.token }}",
            item: "${{ each.item }}",
          },
        },
      ],
      { input: named },
    );
    expect(requestOf(world, "b")).toMatchObject({
      config: { key: "Bearer secret://my-key", "a/b~c": ["secret://written"] },
      input: { whole: named, text: "x secret://stolen", given: "secret://stolen", item: "secret://stolen" },
      secretPaths: ["/config/key", "/config/a~1b~0c/0"],
    });
  });

  it("waits for needs as well, and gives its members its own deadline and their own sla", async () => {
    const world = new ClusterWorld();
    const view = await ran(world, [{ identifier: "b", needs: ["a"], sla: "5m" }, { identifier: "a" }], {
      top: { sla: "30m" },
    });
    expect(order(world)).toEqual(["a", "b"]);
    expect(requestOf(world, "a")).toMatchObject({ sla: "30m", deadlineWallMs: view.deadlineWallMs });
    expect(requestOf(world, "b")).toMatchObject({ sla: "5m", deadlineWallMs: view.deadlineWallMs });
    expect(view.deadlineWallMs - view.createdWallMs).toBe(1_800_000);
  });

  it("waits for room when the runtime has none, and fails a member that is refused", async () => {
    const world = new ClusterWorld();
    let refusals = 3;
    world.ledger.refuse = ({ member }) => {
      if (member?.identifier === "gone") return new PerigeeError("not_found", "no such satellite");
      if (member?.identifier === "bad")
        return new PerigeeError("invalid_request", "the input is not as described", {
          details: { issues: [{ path: "input.text", message: "must be text" }] },
        });
      refusals -= 1;
      return refusals > 0 ? new PerigeeError("too_many", "full") : undefined;
    };
    const view = await ran(world, [{ identifier: "a" }, { identifier: "gone" }, { identifier: "bad" }]);
    expect(statuses(view)).toEqual({ a: "completed", gone: "failed", bad: "failed" });
    expect(memberOf(view, "gone").error?.code).toBe("satellite_not_found");
    expect(memberOf(view, "gone")).not.toHaveProperty("executionId");
    expect(memberOf(view, "bad").error).toEqual({
      code: "invalid_input",
      message: "the input is not as described: input.text: must be text",
      retryable: false,
    });
  });
});

describe("if", () => {
  const failing = (name: string) =>
    new ClusterWorld(({ member }) => (member?.identifier === name ? { error: "boom" } : {}));
  const members = [
    { identifier: "a" },
    { identifier: "b", needs: ["a"] },
    { identifier: "c", needs: ["b"] },
    {
      identifier: "alert",
      if: "on_failure",
      input: { error: "${{ b.error }}", code: "${{ b.error.code }}", a: "${{ a.status }}" },
    },
    { identifier: "after", if: "failure", needs: ["c"] },
    { identifier: "always", if: "always", needs: ["c"] },
    { identifier: "any", if: "on_failure" },
    { identifier: "behind", needs: ["any"] },
  ];

  it("lets alerts follow errors, and skips what needs what has failed", async () => {
    const world = failing("b");
    const view = await ran(world, members);
    expect([view.status, view.error]).toEqual([
      "failed",
      { code: "boom", message: "b failed: it failed", retryable: false },
    ]);
    expect(statuses(view)).toEqual({
      a: "completed",
      b: "failed",
      c: "skipped",
      alert: "completed",
      after: "completed",
      always: "completed",
      any: "completed",
      behind: "completed",
    });
    expect(requestOf(world, "alert").input).toEqual({
      error: { code: "boom", message: "it failed", retryable: false },
      code: "boom",
      a: "completed",
    });
  });

  it("skips alerts when nothing has failed, and what needs them, and the run is completed", async () => {
    const view = await ran(failing("none"), members);
    expect(view.status).toBe("completed");
    expect(statuses(view)).toMatchObject({
      alert: "skipped",
      after: "skipped",
      always: "completed",
      any: "skipped",
      behind: "skipped",
    });
  });

  it("of members without names waits for all that run on success and do not wait for it", async () => {
    const view = await ran(failing("a"), members);
    expect(memberOf(view, "any").needs).toEqual(["a", "b", "c"]);
    expect(statuses(view)).toMatchObject({ b: "skipped", alert: "completed", any: "completed" });
  });
});

describe("the end of a run", () => {
  it("is expired when its sla is over: what waits and what is pending end with it", async () => {
    const world = new ClusterWorld(({ member }) => (member?.identifier === "hangs" ? undefined : {}));
    const view = await ran(
      world,
      [{ identifier: "a" }, { identifier: "hangs" }, { identifier: "c", needs: ["hangs"] }],
      {
        top: { sla: "90s" },
      },
    );
    expect([view.status, view.error?.code]).toEqual(["expired", "expired"]);
    expect(statuses(view)).toEqual({ a: "completed", hangs: "expired", c: "expired" });
    expect(memberOf(view, "c").error?.message).toBe("the sla of its cluster was over first");
  });

  it("is failed when a member's own sla is over, and an alert can follow", async () => {
    const world = new ClusterWorld(({ member }) => (member?.identifier === "hangs" ? undefined : {}));
    const view = await ran(world, [
      { identifier: "hangs", sla: "10s" },
      { identifier: "alert", if: "on_failure", input: { code: "${{ hangs.error.code }}" } },
    ]);
    expect([view.status, ...Object.values(statuses(view))]).toEqual(["failed", "expired", "completed"]);
    expect(requestOf(world, "alert").input).toEqual({ code: "expired" });
  });

  it("is cancelled when it is asked for, with what is pending; again it changes nothing", async () => {
    const world = new ClusterWorld(({ member }) => (member?.identifier === "a" ? {} : undefined));
    const { clusters } = await world.open();
    const members = [
      { identifier: "a" },
      { identifier: "b" },
      { identifier: "c", if: "always", needs: ["b"] },
    ];
    const { id } = await clusters.submit(ONE, { declaration: declared(members) });
    await world.clock.advance(1_000);
    const view = await clusters.cancel(ONE.project, id);
    expect([view.status, ...Object.values(statuses(view))]).toEqual([
      "cancelled",
      "completed",
      "cancelled",
      "cancelled",
    ]);
    const again = await clusters.cancel(ONE.project, id);
    expect(again).toEqual(view);
  });

  it("is reported to listeners, with progress before it", async () => {
    const world = new ClusterWorld(() => ({ afterMs: 300 }));
    const { clusters } = await world.open();
    const seen: string[] = [];
    const stop = clusters.onChanged(({ status, members }) =>
      seen.push([status, ...members.map((member) => member.status)].join(" ")),
    );
    const members = [{ identifier: "a" }, { identifier: "b", needs: ["a"] }];
    const { id } = await clusters.submit(ONE, { declaration: declared(members) });
    await finished(world, clusters, id);
    stop();
    await clusters.submit(ONE, { declaration: declared(members) });
    await world.clock.advance(5_000);
    expect(seen).toEqual([
      "pending pending waiting",
      "pending completed pending",
      "completed completed completed",
    ]);
  });
});

describe("clusters", () => {
  it("refuse an invalid declaration with all issues, and make nothing", async () => {
    const world = new ClusterWorld();
    const { clusters } = await world.open();
    await expect(clusters.submit(ONE, { declaration: "cluster: 7" })).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("line 1, column 10: cluster: must be an object"),
      details: { issues: [expect.objectContaining({ line: 1 }), expect.objectContaining({ line: 1 })] },
    });
    await expect(clusters.submit(ONE, { declaration: "x".repeat(262_145) })).rejects.toMatchObject({
      code: "too_large",
    });
    await expect(
      clusters.submit(ONE, {
        declaration: declared([{ identifier: "a" }]),
        input: { x: "x".repeat(1_048_577) },
      }),
    ).rejects.toMatchObject({ code: "too_large" });
    expect((await clusters.list(ONE.project, { limit: 10 })).items).toEqual([]);
    expect(await clusters.check(ONE, "cluster: 7")).toHaveLength(2);
  });

  it("take an id of the caller's once", async () => {
    const world = new ClusterWorld();
    const { clusters } = await world.open();
    const id = "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001";
    const declaration = declared([{ identifier: "a" }]);
    expect((await clusters.submit(ONE, { id, declaration })).id).toBe(id);
    await expect(clusters.submit(ONE, { id, declaration })).rejects.toMatchObject({ code: "conflict" });
    await expect(clusters.submit(ONE, { id: "mine", declaration })).rejects.toMatchObject({
      code: "invalid_request",
    });
  });

  it("are listed newest first and page by page, each project its own", async () => {
    const world = new ClusterWorld();
    const { clusters } = await world.open();
    const ids: string[] = [];
    for (const name of ["one", "two", "three"])
      ids.push((await clusters.submit(ONE, { declaration: declared([{ identifier: "a" }], { name }) })).id);
    await world.clock.advance(1_000);
    const first = await clusters.list(ONE.project, { limit: 2 });
    expect([first.items.map(({ name, status, members }) => [name, status, members]), first.hasMore]).toEqual([
      [
        ["three", "completed", []],
        ["two", "completed", []],
      ],
      true,
    ]);
    const rest = await clusters.list(ONE.project, { limit: 2, after: ids[1] ?? "" });
    expect([rest.items.map(({ id }) => id), rest.hasMore]).toEqual([[ids[0]], false]);
    expect((await clusters.list("two", { limit: 2 })).items).toEqual([]);
    for (const call of [
      clusters.cluster("two", ids[0] ?? ""),
      clusters.cancel("two", ids[0] ?? ""),
      clusters.cluster(ONE.project, "nothing"),
      clusters.list("two", { limit: 1, after: ids[0] ?? "" }),
    ])
      await expect(call).rejects.toMatchObject({ code: "not_found" });
  });

  it("show outputs of members, of a fan-out as a list", async () => {
    const world = new ClusterWorld(({ member }) => ({ output: { n: member?.index ?? -1 }, retries: 2 }));
    const view = await ran(world, [{ identifier: "a" }, { identifier: "b", each: [7, 8] }]);
    expect(view.members).toEqual([
      expect.objectContaining({
        identifier: "a",
        output: { n: -1 },
        retries: 2,
        executionId: expect.any(String),
      }),
      expect.objectContaining({
        identifier: "b",
        output: [{ n: 0 }, { n: 1 }],
        retries: 4,
        counts: { pending: 0, completed: 2, failed: 0, cancelled: 0, expired: 0 },
      }),
    ]);
  });

  it("are removed when they are old enough, and not while they are at work", async () => {
    const world = new ClusterWorld(({ member }) => (member?.identifier === "hangs" ? undefined : {}));
    const { clusters, store } = await world.open();
    const over = await clusters.submit(ONE, { declaration: declared([{ identifier: "a", each: [1] }]) });
    const open = await clusters.submit(ONE, {
      declaration: declared([{ identifier: "hangs" }], { sla: "30d" }),
    });
    const { remove } = keptClusters(store, 0);
    const sweep = async (): Promise<void> => {
      const records = await store.records(ONE.project, { collection: "cluster", limit: 10 });
      for (const record of records) await remove?.(record, world.clock.wallMs());
    };
    await sweep();
    expect((await clusters.list(ONE.project, { limit: 10 })).items).toHaveLength(2);
    await world.clock.advance(1_000);
    await sweep();
    expect((await clusters.list(ONE.project, { limit: 10 })).items.map(({ id }) => id)).toEqual([open.id]);
    await expect(clusters.cluster(ONE.project, over.id)).rejects.toMatchObject({ code: "not_found" });
    for (const collection of ["cluster_source", "cluster_member", "cluster_open"])
      expect((await store.records(ONE.project, { collection, limit: 10 })).map(({ id }) => id)).not.toContain(
        over.id,
      );
  });
});
