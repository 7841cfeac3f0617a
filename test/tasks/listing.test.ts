/** Laws of the list of a project's tasks: its order, and its pages while tasks are posted and removed. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OpenedTasks } from "../../src/tasks/open_tasks.ts";
import type { RequestItem } from "../../src/tasks/shapes/requests.ts";
import type { TaskView } from "../../src/tasks/shapes/task_view.ts";
import { newId } from "../../src/work/new_id.ts";
import { item, PROJECT, submit, TaskWorld } from "./world.ts";

const FILE = "f0000000-0000-4000-8000-000000000000";

/** A POST: the slas of its items decide whether it is kept in the work log or in files of lines. */
const post = fc.record({
  is: fc.constant("post" as const),
  slas: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom([60], [90], [60, 60]) },
    { weight: 3, arbitrary: fc.constantFrom([60, 90], [90, 60, 120]) },
  ),
  hasFile: fc.oneof(
    { weight: 6, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  /** Made before it is counted, as of a POST with a key. */
  hasId: fc.boolean(),
  /** Until it begins. */
  delayMs: fc.nat(6),
});
type Post = typeof post extends fc.Arbitrary<infer T> ? T : never;

const posts = fc.array(post, { minLength: 1, maxLength: 8 });
const step = fc.oneof(
  { weight: 5, arbitrary: posts.map((each) => ({ is: "posts" as const, posts: each })) },
  { weight: 2, arbitrary: fc.record({ is: fc.constant("pass" as const), ms: fc.nat(3_000) }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant("cancel" as const), place: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant("remove" as const), place: fc.nat() }) },
  { weight: 1, arbitrary: fc.constant({ is: "restart" as const }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

class Listed {
  readonly world = new TaskWorld({ commitMs: 3, diskLatencyMs: 1, latencyMs: 400 });
  tasks!: OpenedTasks;
  /** Ids of tasks that are there. */
  readonly ids: string[] = [];
  #lines = 0;

  async open(): Promise<void> {
    this.world.file(FILE, 3);
    this.tasks = await this.world.tasks();
  }

  async do(step: Step): Promise<void> {
    const { world } = this;
    if (step.is === "pass") await world.clock.advance(step.ms);
    else if (step.is === "posts") {
      const views = await world.settle(Promise.all(step.posts.map((each) => this.post(each))));
      this.ids.push(...views.map(({ id }) => id));
    } else if (step.is === "restart") {
      world.kill();
      const opening = world.tasks().then((tasks) => [tasks]);
      let opened: OpenedTasks[] = [];
      while (opened.length === 0) {
        await world.clock.advance(5); // what is read at a start waits for commits
        opened = await Promise.race([opening, Promise.resolve([])]);
      }
      [this.tasks] = opened as [OpenedTasks];
    } else {
      const id = this.at(step.place);
      if (id === undefined) return;
      await world.settle(this.tasks.cancel(PROJECT, id));
      if (step.is === "cancel") return;
      await world.clock.advance(5_000);
      await world.settle(this.tasks.remove(PROJECT, id));
      this.ids.splice(this.ids.indexOf(id), 1);
    }
  }

  at(place: number): string | undefined {
    return this.ids[place % Math.max(1, this.ids.length)];
  }

  async post({ slas, hasFile, hasId, delayMs }: Post): Promise<TaskView> {
    await this.world.clock.sleep(delayMs);
    const id = hasId ? { id: newId() } : {};
    const items: RequestItem[] = slas.map((sla) => {
      this.#lines += 1;
      return item(this.#lines, sla);
    });
    if (hasFile) items.push({ file_id: FILE, sla: slas[0] ?? 60 });
    return this.tasks.submit(PROJECT, { ...id, items, hasOutputFile: true });
  }

  async page(limit: number, after?: string): Promise<{ items: readonly TaskView[]; hasMore: boolean }> {
    return this.world.settle(this.tasks.list(PROJECT, { limit, ...(after === undefined ? {} : { after }) }));
  }

  /** All pages joined. `between` may post and remove. */
  async pages(limit: number, between?: (last: string | undefined) => Promise<void>): Promise<string[]> {
    const found: string[] = [];
    for (;;) {
      const { items, hasMore } = await this.page(limit, found.at(-1));
      found.push(...items.map(({ id }) => id));
      if (!hasMore) return found;
      await between?.(found.at(-1));
    }
  }
}

describe("the list of tasks", () => {
  it("is the same in pages of every size, whole, without repeats, and newest first by its times", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 9 }),
        async (steps, limit) => {
          const listed = new Listed();
          await listed.open();
          for (const each of steps) await listed.do(each);
          const { items } = await listed.page(1_000);
          const ids = items.map(({ id }) => id);
          expect(ids.toSorted()).toEqual(listed.ids.toSorted());
          const times = items.map(({ createdWallMs }) => createdWallMs);
          expect(times).toEqual(times.toSorted((one, other) => other - one));
          for (const size of [1, limit]) expect(await listed.pages(size)).toEqual(ids);
        },
      ),
      { numRuns: 12 },
    );
  }, 60_000);

  it("has every task exactly once that is there while others are posted and removed between its pages", async () => {
    await fc.assert(
      fc.asyncProperty(
        posts,
        posts,
        fc.array(step, { maxLength: 4 }),
        fc.integer({ min: 1, max: 5 }),
        async (first, more, steps, limit) => {
          const listed = new Listed();
          await listed.open();
          await listed.do({ is: "posts", posts: first });
          await listed.do({ is: "posts", posts: more });
          const before = (await listed.page(1_000)).items.map(({ id }) => id);
          const [...todo] = steps;
          const found = await listed.pages(limit, async (last) => {
            const next = todo.shift();
            // The one behind which the next page begins stays: without it that page is refused.
            if (next?.is === "remove" && listed.at(next.place) === last) return;
            if (next !== undefined) await listed.do(next);
          });
          expect(new Set(found).size).toBe(found.length);
          const throughout = before.filter((id) => listed.ids.includes(id));
          expect(found.filter((id) => throughout.includes(id))).toEqual(throughout);
        },
      ),
      { numRuns: 12 },
    );
  }, 60_000);

  it("shows what was accepted since before all that it has shown, so that a reader may stop at the first it knows", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(posts, { minLength: 1, maxLength: 4 }), async (rounds) => {
        const listed = new Listed();
        await listed.open();
        const { world } = listed;
        let known: readonly string[] = [];
        for (const round of rounds) {
          const posting = Promise.all(round.map((each) => listed.post(each)));
          let isDone = false;
          void posting.finally(() => {
            isDone = true;
          });
          for (;;) {
            const wasDone = isDone;
            const seen = (await listed.page(1_000)).items.map(({ id }) => id);
            expect(seen.slice(seen.length - known.length)).toEqual(known);
            known = seen;
            if (wasDone) break;
            await world.clock.advance(1);
          }
          listed.ids.push(...(await posting).map(({ id }) => id));
        }
        expect(known.toSorted()).toEqual(listed.ids.toSorted());
      }),
      { numRuns: 12 },
    );
  }, 60_000);

  it("goes on behind a task that is removed while its page is read", async () => {
    const listed = new Listed();
    await listed.open();
    const { world, tasks } = listed;
    for (let one = 0; one < 6; one += 1) {
      const slas =
        one % 2 === 0 ? [item(one * 10 + 1, 60)] : [item(one * 10 + 1, 60), item(one * 10 + 2, 90)];
      listed.ids.push((await world.settle(submit(tasks, slas))).id);
    }
    await world.clock.advance(10_000);
    for (let turns = 0; turns < 12; turns += 2) {
      const [id] = listed.ids.splice(-1);
      const listing = tasks.list(PROJECT, { limit: 1_000 });
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      const [{ items }] = await world.settle(Promise.all([listing, tasks.remove(PROJECT, id ?? "")]));
      const ids = items.map((task) => task.id).filter((one) => one !== id);
      expect(ids).toEqual(listed.ids.toReversed());
    }
  });
});
