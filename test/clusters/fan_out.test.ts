/** Fan-out over lists: order, bounds, failures, memory. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { openClusters } from "../../src/clusters/clusters.ts";
import { PerigeeError } from "../../src/errors.ts";
import type {
  ExecutionCaller,
  ExecutionRequest,
  Executions,
  ExecutionView,
} from "../../src/satellites/sdk/execution.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { JsonObject } from "../../src/work/json.ts";
import { ONE, resolver } from "./satellites.ts";
import { ClusterWorld, declared, FakeFiles, finished, memberOf, ran, statuses } from "./world.ts";

const items = (world: ClusterWorld, identifier = "a") =>
  world.ledger.submitted
    .filter(({ member }) => member?.identifier === identifier)
    .map(({ input }) => input["item"]);

describe("each", () => {
  it("runs an execution for each element, with item and index, in order", async () => {
    const world = new ClusterWorld(({ input }) => ({ output: { of: input["item"] ?? null } }));
    const view = await ran(
      world,
      [
        {
          identifier: "a",
          each: [{ id: "x" }, "${{ input.last }}", 7, null],
          input: { item: "${{ each.item }}", text: "${{ each.index }}: ${{ each.item.id }}" },
          concurrency: 1,
        },
      ],
      { input: { last: { id: "y" } } },
    );
    expect(view.status).toBe("failed"); // 7 has no id
    expect(items(world)).toEqual([{ id: "x" }, { id: "y" }, null]);
    expect(world.ledger.submitted.map(({ input }) => input["text"])).toEqual(["0: x", "1: y", "3: "]);
    const { counts, output, error } = memberOf(view, "a");
    expect(counts).toEqual({ pending: 0, completed: 3, failed: 1, cancelled: 0, expired: 0 });
    expect(output).toEqual([{ of: { id: "x" } }, { of: { id: "y" } }, null, { of: null }]);
    expect(error).toEqual({
      code: "elements_failed",
      message: '1 of 4 did not complete; invalid_reference: element 2: each.item.id: there is no "id"',
      retryable: false,
    });
  });

  it.each([
    ["8 at once by default", undefined, 8],
    ["as many as it says", 3, 3],
  ])("runs %s", async (_name, concurrency, expected) => {
    const world = new ClusterWorld(() => ({ afterMs: 5 }));
    const each = Array.from({ length: 40 }, (_, index) => index);
    await ran(world, [{ identifier: "a", each, ...(concurrency === undefined ? {} : { concurrency }) }]);
    expect(world.ledger.runningMax).toBe(expected);
  });

  it("gives its outputs as a list to others, and to the each of others one by one", async () => {
    const world = new ClusterWorld(({ input }) => ({ output: { n: input["item"] ?? 0, ids: ["p", "q"] } }));
    await ran(world, [
      { identifier: "a", each: [3, 4], input: { item: "${{ each.item }}" } },
      { identifier: "b", each: "${{ a.output }}", input: { item: "${{ each.item.n }}" } },
      { identifier: "c", each: "${{ a.output[*].n }}", input: { item: "${{ each.item }}" } },
      { identifier: "d", each: "${{ a.output[1].ids }}", input: { item: "${{ each.item }}" } },
      {
        identifier: "e",
        input: { item: "${{ a.output }}", n: "${{ a.output[*].n }}", one: "${{ a.output[0].n }}" },
      },
    ]);
    expect(["b", "c", "d"].map((name) => items(world, name))).toEqual([
      [3, 4],
      [3, 4],
      ["p", "q"],
    ]);
    expect(world.ledger.submitted.find(({ member }) => member?.identifier === "e")?.input).toEqual({
      item: [
        { n: 3, ids: ["p", "q"] },
        { n: 4, ids: ["p", "q"] },
      ],
      n: [3, 4],
      one: 3,
    });
  });

  it("runs all elements when some fail; who runs always sees what there is", async () => {
    const world = new ClusterWorld(({ member }) =>
      member?.index === 1 ? { error: "boom" } : { output: { n: member?.index ?? 0 } },
    );
    const view = await ran(world, [
      { identifier: "a", each: [0, 1, 2] },
      { identifier: "next", input: { x: "${{ a.output }}" } },
      { identifier: "after", if: "always", input: { x: "${{ a.output }}", n: "${{ a.output[*].n }}" } },
    ]);
    expect(statuses(view)).toEqual({ a: "failed", next: "skipped", after: "completed" });
    expect(world.ledger.submitted.at(-1)?.input).toEqual({ x: [{ n: 0 }, null, { n: 2 }], n: [0, null, 2] });
  });

  it("of an empty list is completed with an empty list", async () => {
    const world = new ClusterWorld();
    const view = await ran(
      world,
      [
        { identifier: "a", each: "${{ input.none }}" },
        { identifier: "b", input: { x: "${{ a.output }}" } },
      ],
      { input: { none: [] } },
    );
    expect([view.status, memberOf(view, "a").output]).toEqual(["completed", []]);
    expect(world.ledger.submitted[0]?.input).toEqual({ x: [] });
  });

  it.each([
    ["is not a list", { x: { files: "a" } }, "a.output.x.files: is not a list"],
    ["is not there", { x: {} }, 'a.output.x.files: there is no "files"'],
    ["is null", { x: null }, "a.output.x.files: is not a list"],
  ])("fails where what it refers to %s", async (_name, output, message) => {
    const view = await ran(new ClusterWorld(() => ({ output })), [
      { identifier: "a" },
      { identifier: "b", each: "${{ a.output.x.files }}" },
    ]);
    expect(memberOf(view, "b").error).toEqual({ code: "invalid_reference", message, retryable: false });
  });

  it("refuses outputs that are too large together, and says what to refer to instead", async () => {
    const world = new ClusterWorld(() => ({ output: { text: "x".repeat(300_000), id: "i" } }));
    const view = await ran(world, [
      { identifier: "a", each: [1, 2, 3, 4] },
      { identifier: "whole", input: { x: "${{ a.output }}" } },
      { identifier: "field", input: { x: "${{ a.output[*].id }}" } },
    ]);
    expect(statuses(view)).toEqual({ a: "completed", whole: "failed", field: "completed" });
    expect(memberOf(view, "whole").error?.message).toBe(
      "a.output: is larger than 1048576 characters; refer to what you need of it, such as a.output[*].file_id of a list",
    );
  });

  it("runs over the lines of a file, and over a listing of files that may be longer than what it shows", async () => {
    const world = new ClusterWorld(({ member }) =>
      member?.identifier === "list"
        ? { output: { files: ["x"], is_complete: false, list: { file_id: "f" } } }
        : member?.identifier === "short"
          ? { output: { files: ["p", "q"], is_complete: true, list: null } }
          : {},
    );
    world.files.texts.set("f", '{"n":"ä"}\n\n7\r\n[1]\n"last"');
    const view = await ran(world, [
      { identifier: "list" },
      { identifier: "short" },
      { identifier: "a", each: "${{ list.output }}", input: { item: "${{ each.item }}" }, concurrency: 2 },
      { identifier: "b", each: "${{ list.output.list }}", input: { item: "${{ each.item }}" } },
      { identifier: "c", each: "${{ short.output }}", input: { item: "${{ each.item }}" } },
      { identifier: "d", each: "${{ short.output.files }}", input: { item: "${{ each.item }}" } },
      { identifier: "e", each: "${{ list.output.files }}" },
    ]);
    const lines = [{ n: "ä" }, 7, [1], "last"];
    expect(["a", "b", "c", "d"].map((name) => items(world, name))).toEqual([
      lines,
      lines,
      ["p", "q"],
      ["p", "q"],
    ]);
    expect(memberOf(view, "e").error?.message).toBe(
      "list.output.files: these are only the first files; write each: ${{ list.output }}",
    );
    expect(world.files.held).toBe(0);
  });

  it("fails where a file of lines is not there, and an element whose line is not JSON", async () => {
    const world = new ClusterWorld();
    world.files.texts.set("f", "1\n{\n3\n");
    const view = await ran(
      world,
      [
        { identifier: "a", each: "${{ input.gone }}" },
        { identifier: "b", each: "${{ input.file }}", input: { item: "${{ each.item }}" } },
      ],
      { input: { gone: { file_id: "gone" }, file: { file_id: "f" } } },
    );
    expect(memberOf(view, "a").error?.message).toBe("input.gone: its file is not there");
    expect(memberOf(view, "b").error?.message).toContain(
      "element 1: input.file: the line for element 1 is not JSON",
    );
    expect([items(world, "b"), world.files.held]).toEqual([[1, 3], 0]);
  });

  it("goes on in a file of lines where a crash has left it, reading it twice more", async () => {
    const world = new ClusterWorld(() => ({ afterMs: 5 }));
    world.files.texts.set("f", Array.from({ length: 300 }, (_, index) => `${index}\n`).join(""));
    const { clusters } = await world.open();
    const declaration = declared([
      { identifier: "a", each: "${{ input.file }}", input: { item: "${{ each.item }}" } },
    ]);
    const { id } = await clusters.submit(ONE, { declaration, input: { file: { file_id: "f" } } });
    await world.clock.advance(100);
    world.kill();
    const again = await world.clock.runUntilSettled(world.open());
    await world.clock.advance(1_000);
    expect((await finished(world, again.clusters, id)).status).toBe("completed");
    expect(items(world).toSorted((one, two) => Number(one) - Number(two))).toEqual(
      Array.from({ length: 300 }, (_, index) => index),
    );
    expect(world.files.opened).toBeLessThanOrEqual(5);
  });

  it("takes 100,000 elements and no more", async () => {
    const files = Array.from({ length: 100_001 }, () => 1);
    const world = new ClusterWorld(({ member }) =>
      member?.identifier === "list" ? { output: { files } } : {},
    );
    const view = await ran(world, [
      { identifier: "list" },
      { identifier: "a", each: "${{ list.output.files }}" },
    ]);
    expect(memberOf(view, "a").error?.message).toBe("each has at most 100000 elements, got 100001");
  });

  it("after a crash looks up and runs only those that had not ended at the last checkpoint", async () => {
    const files = Array.from({ length: 1_000 }, (_, index) => `file-${index}`);
    const world = new ClusterWorld(({ member }) =>
      member?.identifier === "list"
        ? { output: { files } }
        : { afterMs: 5, output: { n: member?.index ?? 0 } },
    );
    const { clusters } = await world.open();
    const declaration = declared([
      { identifier: "list" },
      {
        identifier: "a",
        each: "${{ list.output.files }}",
        concurrency: 50,
        input: { file: "${{ each.item }}" },
      },
    ]);
    const { id } = await clusters.submit(ONE, { declaration });
    await world.clock.advance(60);
    world.kill();
    const before = world.ledger.ended.length;
    expect(before).toBeGreaterThan(300);
    const again = await world.clock.runUntilSettled(world.open());
    const lookups = new Set<string>();
    const look = again.executions.execution.bind(again.executions);
    again.executions.execution = (project, execution) => {
      lookups.add(execution);
      return look(project, execution);
    };
    await world.clock.advance(1_000);
    const view = await finished(world, again.clusters, id);
    expect(memberOf(view, "a").counts?.completed).toBe(1_000);
    expect(world.ledger.ended.length).toBe(1_001);
    expect(new Set(world.ledger.ended).size).toBe(1_001);
    expect(lookups.size).toBeLessThan(1_000 - before + 50 + 64 + 2);
  });

  it("runs 10,000 elements in constant memory, for any sum of their outputs", async () => {
    const collect = garbageCollector();
    const files = Array.from({ length: 10_000 }, (_, index) => `file-${index}`);
    const executions = new ForgetfulExecutions((identifier) =>
      identifier === "list" ? { files } : { text: Buffer.alloc(40_000, 120).toString("latin1") },
    );
    const clusters = await openClusters({
      clock: systemClock,
      store: createMemoryStore(),
      executions,
      resolver,
      files: new FakeFiles(),
    });
    const declaration = declared([
      { identifier: "list" },
      {
        identifier: "a",
        each: "${{ list.output.files }}",
        concurrency: 64,
        input: { file: "${{ each.item }}" },
      },
      { identifier: "b", each: "${{ a.output }}", concurrency: 64, input: { text: "${{ each.item.text }}" } },
    ]);
    collect();
    const before = process.memoryUsage().heapUsed;
    let most = 0;
    executions.onEnded = (ended) => {
      if (ended % 2_000 !== 0) return;
      collect();
      most = Math.max(most, process.memoryUsage().heapUsed - before);
    };
    const { id } = await clusters.submit(ONE, { declaration });
    let view = await clusters.cluster(ONE.project, id);
    for (; view.status === "pending"; view = await clusters.cluster(ONE.project, id))
      await systemClock.sleep(20);
    expect(statuses(view)).toEqual({ list: "completed", a: "completed", b: "completed" });
    expect(executions.ended).toBe(20_001);
    expect(most).toBeLessThan(24 * 1024 * 1024); // of 800 MB that went through
  });
});

/** Node's own, without a flag of the process. */
function garbageCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
}

/** Ends executions at once, and makes their outputs when they are asked for. */
class ForgetfulExecutions implements Executions {
  ended = 0;
  onEnded: (ended: number) => void = () => undefined;
  readonly #outputOf: (identifier: string) => JsonObject;
  /** Who is which member; the only thing that is kept. */
  readonly #identifiers = new Map<string, string>();
  #tell: (execution: ExecutionView) => void = () => undefined;

  constructor(outputOf: (identifier: string) => JsonObject) {
    this.#outputOf = outputOf;
  }

  async submit(
    caller: ExecutionCaller,
    { id = "", member, satellite }: ExecutionRequest,
  ): Promise<ExecutionView> {
    this.#identifiers.set(id, member?.identifier ?? "");
    const times = { createdWallMs: 1, updatedWallMs: 1, deadlineWallMs: 1 };
    const view = {
      id,
      project: caller.project,
      satellite,
      sla: "1h",
      status: "pending" as const,
      ...times,
      output: null,
      error: null,
      retries: 0,
    };
    const inCluster = member === undefined ? view : { ...view, member };
    setImmediate(() => {
      this.ended += 1;
      this.onEnded(this.ended);
      this.#tell({ ...inCluster, status: "completed", output: this.#outputOf(member?.identifier ?? "") });
    });
    return inCluster;
  }

  async execution(project: string, id: string): Promise<ExecutionView> {
    const identifier = this.#identifiers.get(id);
    if (identifier === undefined) throw new PerigeeError("not_found", "no such execution");
    const satellite = { namespace: "perigee", name: "anything" };
    const times = { createdWallMs: 1, updatedWallMs: 1, deadlineWallMs: 1 };
    const output = this.#outputOf(identifier);
    return {
      id,
      project,
      satellite,
      sla: "1h",
      status: "completed",
      ...times,
      output,
      error: null,
      retries: 0,
    };
  }

  onFinished(listener: (execution: ExecutionView) => void): () => void {
    this.#tell = listener;
    return () => undefined;
  }

  list = async () => ({ items: [], hasMore: false });
  cancel = (project: string, id: string) => this.execution(project, id);
  counts = () => ({ queued: 0, running: 0 });
  close = async () => undefined;
}
