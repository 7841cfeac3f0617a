/** Laws of the work log: it does what a plain model does, and a crash at any point leaves a whole number of commits. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ENDED_STATUSES, type EndedStatus } from "../../src/log/records.ts";
import { openWorkLog, type WorkLog } from "../../src/log/work_log.ts";
import { createCrashableStore } from "../../src/testing/crashable_store.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { createRandom } from "../../src/testing/random.ts";
import { endedOf, intentOf, outcomeOf, stateOf } from "../../src/testing/work_log_calls.ts";

/** A call, on one of the tasks so far (by its place among them) and one of its items. */
const place = fc.record({ task: fc.nat({ max: 5 }), item: fc.nat({ max: 5 }) });
const status = fc.constantFrom(...ENDED_STATUSES);
const call = fc.oneof(
  { weight: 2, arbitrary: fc.record({ is: fc.constant("accept" as const), items: fc.nat({ max: 6 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ is: fc.constant("intend" as const), at: place, attempt: fc.nat({ max: 2 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ is: fc.constant("endAttempt" as const), at: place, attempt: fc.nat({ max: 2 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ is: fc.constant("end" as const), at: place, status, usd: fc.nat({ max: 9 }) }),
  },
  { weight: 1, arbitrary: fc.record({ is: fc.constant("endRest" as const), at: place, status }) },
  {
    weight: 1,
    arbitrary: fc.record({ is: fc.constant("hold" as const), at: place, reason: fc.nat({ max: 2 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ is: fc.constant("learn" as const), fact: fc.nat({ max: 2 }), value: fc.nat() }),
  },
  { weight: 3, arbitrary: fc.record({ is: fc.constant("wait" as const) }) },
);
type Call = typeof call extends fc.Arbitrary<infer T> ? T : never;

interface ModelItem {
  ended: EndedStatus | undefined;
  /** It ended with the rest of its task: what it took is kept until the task is final. */
  isRest: boolean;
  usd: number;
  attempts: number | undefined;
  intents: number[];
}
interface ModelTask {
  readonly items: ModelItem[];
  rest: EndedStatus | undefined;
  reason: number;
}

/** What the calls come to, in plain objects; tasks whose last item has ended stay. */
class Model {
  readonly tasks: ModelTask[] = [];
  readonly facts = new Map<number, number>();

  apply(given: Call): void {
    if (given.is === "learn") this.facts.set(given.fact, given.value);
    if (given.is === "accept") {
      const items = Array.from({ length: given.items }, () => ({
        ended: undefined,
        isRest: false,
        usd: 0,
        attempts: undefined,
        intents: [],
      }));
      this.tasks.push({ items, rest: undefined, reason: 0 });
    }
    if (!("at" in given)) return;
    const task = this.tasks[given.at.task];
    if (task === undefined || task.items.every(({ ended }) => ended !== undefined)) return;
    if (given.is === "hold") task.reason = given.reason;
    if (given.is === "endRest") this.#endRest(task, given.status);
    const item = task.items[given.at.item];
    if (item === undefined || item.ended !== undefined) return;
    if (given.is === "intend") item.intents.push(given.attempt);
    if (given.is === "endAttempt") {
      item.intents = item.intents.filter((attempt) => attempt !== given.attempt);
      item.attempts = given.attempt;
      item.usd = given.attempt / 4;
      if (task.rest !== undefined) this.#endRest(task, task.rest);
    }
    if (given.is === "end") Object.assign(item, { ended: given.status, usd: given.usd, intents: [] });
  }

  #endRest(task: ModelTask, ended: EndedStatus): void {
    task.rest ??= ended;
    for (const item of task.items)
      if (item.ended === undefined && item.intents.length === 0)
        Object.assign(item, { ended: task.rest, isRest: true });
  }

  /** As `stateOf` tells it, of tasks that are open. */
  state(): unknown {
    const tasks = this.tasks.flatMap(({ items, reason, rest }, index) => {
      const open = items.flatMap(({ ended }, item) => (ended === undefined ? [item] : []));
      if (open.length === 0) return [];
      const tried = items.flatMap(({ ended, isRest, attempts, usd, intents }, item) =>
        (ended !== undefined && !isRest) || (attempts === undefined && intents.length === 0)
          ? []
          : [{ item, attempts, usd: attempts === undefined ? undefined : usd, intents }],
      );
      const sumOf = (status: EndedStatus): number => items.filter(({ ended }) => ended === status).length;
      const usd = items.reduce((sum, item) => sum + (item.ended === undefined ? 0 : item.usd), 0);
      const counts = ENDED_STATUSES.map(sumOf);
      return [{ number: index + 1, open, left: open.length, reason, rest, tried, counts, usd }];
    });
    return { tasks, facts: [...this.facts].toSorted(([one], [other]) => one - other) };
  }
}

/** The same of a log; tasks that are not final yet although their last item has ended are left out. */
async function seen(log: WorkLog): Promise<unknown> {
  const { tasks, facts } = (await stateOf(log)) as {
    tasks: {
      task: { number: number; left: number; restStatus: number };
      sums: Record<string, number>;
      hold: number | undefined;
      open: number[];
      tried: { item: number; attempts?: number; usd?: number; intents: { attempt: number }[] }[];
    }[];
    facts: { fact: number; value: number }[];
  };
  return {
    tasks: tasks
      .filter(({ task }) => task.left > 0)
      .map(({ task, sums, hold, open, tried }) => ({
        number: task.number,
        open,
        left: task.left,
        reason: hold ?? 0,
        rest: ENDED_STATUSES[task.restStatus - 1],
        tried: tried.map(({ item, attempts, usd, intents }) => ({
          ...{ item, attempts, usd },
          intents: intents.map(({ attempt }) => attempt),
        })),
        counts: ENDED_STATUSES.map((each) => sums[each]),
        usd: sums["usd"],
      })),
    facts: facts.map(({ fact, value }) => [fact, value]),
  };
}

/** Makes the call; undefined for a wait. */
function make(log: WorkLog, given: Call, id: number): Promise<void> | undefined {
  if (given.is === "wait") return undefined;
  if (given.is === "accept")
    return log.accept({ id: `t${id}`, project: "p", kind: 1, items: given.items, createdWallMs: 1, body: "" })
      .durable;
  if (given.is === "learn") return log.learn(1, given.fact, given.value, 1);
  const task = given.at.task + 1;
  const { item } = given.at;
  if (given.is === "intend") return log.intend(intentOf(task, item, given.attempt));
  if (given.is === "endAttempt")
    return log.endAttempt(
      endedOf(task, item, given.attempt, { attempts: given.attempt, usd: given.attempt / 4 }),
    );
  if (given.is === "end")
    return log.end(outcomeOf(task, item, { status: given.status, usd: given.usd }), new Uint8Array(3));
  if (given.is === "endRest") return log.endRest(task, given.status, 0);
  return log.hold({ task, reason: given.reason, sinceMs: 1, nextMs: 2 });
}

const bounds = fc.record({
  cutFloorBytes: fc.constantFrom(0, 300, 2_000, 1 << 20),
  restatedBytesMin: fc.constantFrom(0, 1, 100, 10_000),
});
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("the work log", () => {
  it("says what a plain model says, wherever it is cut, and the same when it is read again", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 60 }), bounds, async (calls, cutting) => {
        const clock = new FakeClock();
        const state = createCrashableStore();
        const store = await state.open();
        const log = await openWorkLog({ store, clock, ...cutting });
        const model = new Model();
        for (const [index, given] of calls.entries()) {
          model.apply(given);
          const durable = make(log, given, index);
          if (durable === undefined) await turn();
          else void durable;
        }
        await log.learn(1, 9, 9, 1);
        model.facts.set(9, 9);
        expect(await seen(log)).toEqual(model.state());
        await log.close();
        expect(await seen(log)).toEqual(model.state());
        const before = await stateOf(log);
        const again = await openWorkLog({ store, clock, ...cutting });
        expect(await stateOf(again)).toEqual(before);
        await again.close();
      }),
      { numRuns: 400 },
    );
  });

  it("holds, after a crash at any point, all that was acknowledged and no half of a commit", async () => {
    const crashing = fc.record({ after: fc.nat({ max: 80 }), seed: fc.integer() });
    await fc.assert(
      fc.asyncProperty(
        fc.array(call, { minLength: 5, maxLength: 60 }),
        bounds,
        fc.array(crashing, { minLength: 1, maxLength: 3 }),
        async (calls, cutting, crashes) => {
          const clock = new FakeClock();
          let random = createRandom(1);
          const state = createCrashableStore({ clock, commitMs: 1, random: () => random() });
          let applied: Call[] = [];
          let next = 0;
          for (const { after, seed } of crashes) {
            random = createRandom(seed);
            const log = await openWorkLog({ store: await state.open(), clock, ...cutting });
            let acknowledged = applied.length;
            const made = [...applied];
            for (let step = 0; step < after && next < calls.length; step += 1, next += 1) {
              const given = calls[next] as Call;
              const durable = make(log, given, next);
              if (durable === undefined) {
                await turn();
                await clock.advance(1);
                continue;
              }
              made.push(given);
              const count = made.length;
              durable.then(
                () => {
                  acknowledged = Math.max(acknowledged, count);
                },
                () => undefined,
              );
            }
            await turn();
            const least = acknowledged;
            state.crash();
            const store = await state.open();
            const read = await openWorkLog({ store, clock, ...cutting });
            const rows = await read.rows.loggedTasks({ project: read.number("p"), kind: 1, limit: 100 });
            const found = JSON.stringify(await seen(read));
            const fits = (count: number): boolean => {
              const model = new Model();
              for (const each of made.slice(0, count)) model.apply(each);
              return model.tasks.length === rows.length && JSON.stringify(model.state()) === found;
            };
            let count = least;
            while (count <= made.length && !fits(count)) count += 1;
            expect(
              count,
              `${found} is not one of the states after ${least} to ${made.length} calls`,
            ).toBeLessThanOrEqual(made.length);
            applied = made.slice(0, count);
            state.crash();
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
