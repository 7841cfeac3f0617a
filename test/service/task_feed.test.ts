/** What the operator page shows of tasks: their names, and when the open ones will be done. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { outlookOf } from "../../src/service/operate/task_feed.ts";
import { TaskNames } from "../../src/service/operate/task_names.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { FakeClock } from "../../src/testing/index.ts";

const USAGE = { inputTokens: 1, outputTokens: 1, listUsd: 2, usd: 1, billedUsd: 3, ambiguousUsd: 0 };

function view(more: Partial<TaskView> = {}): TaskView {
  return {
    id: "t1",
    project: "red",
    status: "submitted",
    isCancelled: false,
    retries: 0,
    totalItems: 10,
    models: [],
    fileIds: [],
    counts: { submitted: 4, completed: 5, failed: 1, expired: 0, cancelled: 0 },
    createdWallMs: 0,
    held: [],
    hasOutputFile: false,
    usage: USAGE,
    version: "1",
    ...more,
  };
}

function names(metadata?: Record<string, unknown>, fileName?: string) {
  const clock = new FakeClock();
  let reads = 0;
  const object = { object_id: "o", status: "completed", metadata, model: "openai:first" } as never;
  const made = new TaskNames({
    clock,
    tasks: {
      objects: async () => {
        reads += 1;
        return { items: [object], hasMore: false };
      },
    },
    files: {
      file: async () => {
        if (fileName === undefined) throw new Error("erased");
        return { name: fileName } as never;
      },
    },
  });
  return { clock, names: made, reads: () => reads };
}

describe("the name of a task", () => {
  it("is that of its first item's metadata, else of its file, else its model", async () => {
    const task = view({ models: ["openai:m", "openai:n"], fileIds: ["f"] });
    expect(await names({ other: 1, name: " Reviews " }, "a.jsonl").names.of(task)).toEqual({
      name: "Reviews",
      named_by: "metadata",
    });
    expect(await names({ other: "x" }, "a.jsonl").names.of(task)).toEqual({
      name: "a.jsonl",
      named_by: "file",
    });
    expect(await names(undefined).names.of(task)).toEqual({ name: "openai:m and 1 more", named_by: "model" });
  });

  it("is the model of its first answer where its models are not known, and nothing before one", async () => {
    expect(await names(undefined).names.of(view())).toEqual({ name: "openai:first", named_by: "model" });
    const counts = { submitted: 10, completed: 0, failed: 0, expired: 0, cancelled: 0 };
    expect(await names(undefined).names.of(view({ counts }))).toBeUndefined();
  });

  it("is that of an OpenAI batch's metadata, of at most 80 characters, also before an item has ended", async () => {
    const note = JSON.stringify({ batch_id: "b", metadata: { description: "x".repeat(200) } });
    const fresh = view({
      note,
      counts: { submitted: 10, completed: 0, failed: 0, expired: 0, cancelled: 0 },
    });
    const { name } = (await names().names.of(fresh)) ?? {};
    expect(name).toBe(`${"x".repeat(79)}…`);
    expect(await names().names.of(view({ note: "no JSON" }))).toMatchObject({ named_by: "model" });
  });

  it("is read once, and every ten seconds while nothing has named it", async () => {
    const named = names({ task: "Reviews" });
    for (let index = 0; index < 5; index += 1) await named.names.of(view());
    expect(named.reads()).toBe(1);
    const unnamed = names({});
    for (let index = 0; index < 5; index += 1) await unnamed.names.of(view());
    await unnamed.clock.advance(10_001);
    await unnamed.names.of(view());
    expect(unnamed.reads()).toBe(2);
  });
});

describe("the outlook", () => {
  it("is of the open tasks: the last end, what is late, what is not known, and the cost to expect", () => {
    const nowMs = 1_000_000;
    const outlook = outlookOf(
      [
        view({ expectedEndWallMs: nowMs + 60_000, deadlineWallMs: nowMs + 30_000 }),
        view({ expectedEndWallMs: nowMs - 5_000, deadlineWallMs: nowMs + 30_000 }),
        view({}),
        view({ status: "completed", expectedEndWallMs: nowMs + 900_000 }),
      ],
      nowMs,
    );
    expect(outlook).toEqual({
      open_tasks: 3,
      open_items: 12,
      expected_end_at: nowMs + 60_000,
      unknown_tasks: 1,
      late_tasks: 1,
      billed_usd: 9,
      expected_usd: 15, // 3 + 4 x 3 / 6 each
      uncosted_tasks: 0,
    });
  });

  it("knows no cost of a task without an ended item, and no end without tasks", () => {
    const counts = { submitted: 10, completed: 0, failed: 0, expired: 0, cancelled: 0 };
    expect(outlookOf([view(), view({ counts })], 0)).toMatchObject({ expected_usd: 5, uncosted_tasks: 1 });
    expect(outlookOf([view({ counts })], 0)).toMatchObject({ expected_usd: null, uncosted_tasks: 1 });
    expect(outlookOf([], 0)).toMatchObject({ open_tasks: 0, expected_end_at: null, expected_usd: null });
  });

  it("never expects less than is billed, nor an end in the past", () => {
    const count = fc.nat(1_000);
    const tasks = fc.array(
      fc.record({
        submitted: count,
        completed: count,
        failed: count,
        usd: fc.nat(9_999),
        end: fc.option(fc.nat(9_999)),
      }),
    );
    fc.assert(
      fc.property(tasks, fc.nat(9_999), (drawn, nowMs) => {
        const views = drawn.map(({ submitted, completed, failed, usd, end }) =>
          view({
            counts: { submitted, completed, failed, expired: 0, cancelled: 0 },
            usage: { ...USAGE, billedUsd: usd },
            ...(end === null ? {} : { expectedEndWallMs: end }),
          }),
        );
        const {
          expected_usd: expected,
          billed_usd: billed,
          expected_end_at: endMs,
        } = outlookOf(views, nowMs);
        const known = views.filter(
          ({ counts }) => counts.submitted === 0 || counts.completed + counts.failed > 0,
        );
        expect(expected ?? 0).toBeGreaterThanOrEqual(
          known.reduce((sum, { usage }) => sum + usage.billedUsd, 0),
        );
        if (known.length === views.length) expect(expected ?? billed).toBeGreaterThanOrEqual(billed);
        expect(endMs ?? nowMs).toBeGreaterThanOrEqual(nowMs);
      }),
    );
  });
});
