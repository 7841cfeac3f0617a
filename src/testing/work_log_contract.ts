/**
 * What the work log must do on every store, and what it must do besides on one that survives its process.
 */
import assert from "node:assert/strict";
import type { Clock } from "../clock.ts";
import { recordOf, SUMS_ITEM } from "../log/records.ts";
import { openWorkLog, type WorkLog } from "../log/work_log.ts";
import type { Store } from "../store/store.ts";
import { type ContractCase, rejectsWith } from "./contract_case.ts";
import type { OutputsUnderTest, StorageUnderTest } from "./store_contract.ts";
import { endedOf, intentOf, outcomeOf, settled, stateOf, text, textOf, work } from "./work_log_calls.ts";
import { LOG_TEXT_CASES, type OpeningLog } from "./work_log_texts.ts";

/** What a log under test is opened with besides its store. */
export interface WorkLogUnderTest {
  readonly clock: Clock;
  readonly outputs: OutputsUnderTest;
}

/** The cases for any store. `makeStore` returns a new, empty one for each case, which closes it. */
export function workLogContract(
  makeStore: () => Promise<Store>,
  { clock, outputs }: WorkLogUnderTest,
): readonly ContractCase[] {
  const cases: typeof LOG_TEXT_CASES = {
    ...LOG_TEXT_CASES,
    "a task is open once it is durable, and its row has its request": acceptsTasks,
    "an item goes through attempts to its end, and its answer stays": endsItem,
    "a task of several items is final after the last, with the sums of all": sumsItems,
    "a task is counted later, and one without items is final at once": countsLater,
    "the rest of a task ends without its items under way, which end by themselves": endsRest,
    "items are opened again, of open tasks and of final ones": reopensItems,
    "names keep their numbers, lanes their last facts, tasks their holds": remembers,
    "a second log of the store is refused while the first is open": hasOneOwner,
    "calls take effect in their order, however many share a commit": keepsOrder,
    "a log that is cut says the same as before": cutsItself,
    "after close every call is refused, and those before have taken effect": closes,
  };
  return Object.entries(cases).map(([name, run]) => ({
    name,
    run: async () => {
      const store = await makeStore();
      const logs: WorkLog[] = [];
      try {
        await run(async (options) => {
          const log = await openWorkLog({ store, clock, ...options });
          logs.push(log);
          return log;
        }, outputs);
      } finally {
        for (const log of logs) await log.close();
        await store.close();
      }
    },
  }));
}

/** The further cases for a store that survives. `makeStorage` returns new, empty storage for each. */
export function durableWorkLogContract(
  makeStorage: () => Promise<StorageUnderTest>,
  { clock }: Pick<WorkLogUnderTest, "clock">,
): readonly ContractCase[] {
  const within = async (storage: StorageUnderTest, work: (log: WorkLog) => Promise<void>): Promise<void> => {
    const store = await storage.open();
    const log = await openWorkLog({ store, clock });
    try {
      await work(log);
    } finally {
      await log.close();
      await store.close();
    }
  };
  return [
    {
      name: "what is open is read again, and continues",
      run: async () => {
        const storage = await makeStorage();
        let before: unknown;
        await within(storage, async (log) => {
          await fillWithWork(log);
          before = await stateOf(log);
        });
        await within(storage, async (log) => {
          assert.deepEqual(await stateOf(log), before);
          await log.end(outcomeOf(1, 0), text("late"));
          assert.equal(log.task(1), undefined);
          assert.equal(log.accept(work("next")).task, 6);
        });
      },
    },
  ];
}

async function acceptsTasks(open: OpeningLog): Promise<void> {
  const log = await open();
  const { task, durable } = log.accept(work("a", { request: text("a prompt"), deadlineMs: 5_000, kind: 7 }));
  assert.equal(task, 1);
  assert.equal(log.task(1), undefined);
  await durable;
  const { number, items, left, deadlineMs, kind, project } = log.task(1) ?? {};
  assert.deepEqual(
    { number, items, left, deadlineMs, kind },
    { number: 1, items: 1, left: 1, deadlineMs: 5_000, kind: 7 },
  );
  assert.equal(log.text(project ?? 0), "default");
  for (const key of ["id-a", 1]) {
    const row = await log.rows.loggedTask(key);
    assert.deepEqual(
      { ...row, request: undefined },
      {
        ...{ number: 1, id: "id-a", project, kind: 7, parent: "", createdWallMs: 17, body: '{"ü":1}' },
        request: undefined,
      },
    );
    assert.equal(textOf(row?.request), "a prompt");
  }
  assert.equal(await log.rows.loggedTask("a"), undefined);
  assert.equal(await log.rows.loggedTask(2), undefined);
}

async function endsItem(open: OpeningLog): Promise<void> {
  const log = await open();
  const { task } = log.accept(work("a"));
  await log.intend(intentOf(task, 0, 1));
  assert.deepEqual(
    [...log.triedItems(task).values()].map(({ intents, ended }) => [intents.length, ended]),
    [[1, undefined]],
  );
  void log.intend(intentOf(task, 0, 2)); // a second request beside the first
  await log.endAttempt(endedOf(task, 0, 1, { ambiguousAttempts: 1, usd: 0.5, nextMs: 90 }));
  const tried = log.triedItems(task).get(0);
  assert.deepEqual(
    tried?.intents.map(({ attempt }) => attempt),
    [2],
  );
  assert.deepEqual([tried?.ended?.ambiguousAttempts, tried?.ended?.usd, tried?.ended?.nextMs], [1, 0.5, 90]);
  await log.end(
    outcomeOf(task, 0, { attempts: 2, ambiguousAttempts: 1, usd: 0.75, code: 3 }),
    text("réponse"),
  );
  assert.equal(log.task(task), undefined);
  assert.equal(log.triedItems(task).size, 0);
  const [answer] = await log.rows.loggedAnswers(task, 0, 10);
  assert.equal(textOf(answer?.text), "réponse");
  assert.deepEqual((await log.rows.loggedTask(task))?.first, answer);
  assert.equal((await log.rows.loggedTasks({ numbers: [task], limit: 1 }))[0]?.first, undefined);
  const { status, attempts, code, usd, textBytes } = recordOf("outcome", answer?.record ?? new Uint8Array());
  assert.deepEqual([status, attempts, code, usd, textBytes], ["completed", 2, 3, 0.75, 8]);
  assert.equal((await log.sumsOf(task))?.completed, 1);
}

async function sumsItems(open: OpeningLog): Promise<void> {
  const finals: [number, number][] = [];
  const log = await open({ onFinal: (task, sums) => finals.push([task, sums.completed]) });
  const { task } = log.accept(work("a", { items: 3 }));
  await log.end(outcomeOf(task, 2, { usd: 1, attempts: 2 }), text("two"));
  assert.equal(log.task(task)?.left, 2);
  assert.deepEqual(
    [0, 1, 2, 3].map((item) => log.isOpen(task, item)),
    [true, true, false, false],
  );
  void log.end(outcomeOf(task, 2, { status: "failed", usd: 99 }), text("again")); // the first end counts
  void log.end(outcomeOf(task, 0, { status: "failed", usd: 2 }), text("zero"));
  await log.end(outcomeOf(task, 1, { status: "expired", usd: 4 }), text(""));
  await log.learn(1, 1, 1, 1); // the next commit
  await log.learn(1, 1, 1, 1);
  assert.equal(log.task(task), undefined);
  const { completed, failed, expired, cancelled, usd, attempts } = (await log.sumsOf(task)) ?? {};
  assert.deepEqual(
    { completed, failed, expired, cancelled, usd, attempts },
    {
      ...{ completed: 1, failed: 1, expired: 1, cancelled: 0, usd: 7, attempts: 4 },
    },
  );
  assert.deepEqual(finals, [[task, 1]]);
  const answers = await log.rows.loggedAnswers(task, 0, 10);
  assert.deepEqual(
    answers.map(({ item }) => item),
    [0, 1, 2, SUMS_ITEM],
  );
  assert.deepEqual(
    (await log.rows.loggedAnswers(task, 1, 2)).map(({ item }) => item),
    [1, 2],
  );
  assert.equal(await log.sumsOf(99), undefined);
}

async function countsLater(open: OpeningLog): Promise<void> {
  const log = await open();
  const { task } = log.accept(work("a", { items: undefined }));
  const empty = log.accept(work("b", { items: undefined })).task;
  const none = log.accept(work("c", { items: 0 })).task;
  await log.end(outcomeOf(task, 1), text("one"));
  assert.equal(log.isOpen(task, 4_000_000_000), true);
  await log.count(task, 2);
  assert.deepEqual([log.task(task)?.items, log.task(task)?.left], [2, 1]);
  await log.count(empty, 0);
  void log.end(outcomeOf(task, 0), text("zero"));
  await settled(log);
  assert.deepEqual(
    [task, empty, none].map((number) => log.task(number)),
    [undefined, undefined, undefined],
  );
  assert.equal((await log.sumsOf(task))?.completed, 2);
  assert.equal((await log.sumsOf(none))?.completed, 0);
}

async function endsRest(open: OpeningLog): Promise<void> {
  const log = await open();
  const { task } = log.accept(work("a", { items: 5 }));
  const one = log.accept(work("b")).task;
  void log.end(outcomeOf(task, 4), text("four"));
  void log.intend(intentOf(task, 1, 1));
  void log.intend(intentOf(task, 2, 1));
  void log.intend(intentOf(task, 3, 1));
  void log.endAttempt(endedOf(task, 3, 1, { usd: 8 }));
  await log.endRest(task, "cancelled", 0);
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((item) => log.isOpen(task, item)),
    [false, true, true, false, false],
  );
  assert.deepEqual([log.task(task)?.left, (await log.sumsOf(task))?.cancelled], [2, 2]);
  void log.endRest(one, "expired", 0);
  void log.endRest(task, "expired", 0); // what was under way when it was cancelled ends as cancelled
  void log.end(outcomeOf(task, 1), text("paid"));
  await log.endAttempt(endedOf(task, 2, 1, { usd: 16 }));
  await settled(log);
  const { completed, cancelled, usd } = (await log.sumsOf(task)) ?? {};
  assert.deepEqual({ completed, cancelled, usd }, { completed: 2, cancelled: 3, usd: 24 });
  const rest = (await log.rows.loggedAnswers(task, 0, 9)).filter(({ item }) => item === 2 || item === 3);
  assert.deepEqual(
    rest.map(({ item, record }) => [item, recordOf("attemptEnded", record).usd]),
    [
      [2, 16],
      [3, 8],
    ],
  );
  assert.deepEqual([log.task(task), log.task(one)], [undefined, undefined]);
  assert.equal((await log.sumsOf(one))?.expired, 1);
}

async function reopensItems(open: OpeningLog): Promise<void> {
  const log = await open();
  const { task } = log.accept(work("a", { items: 3 }));
  const one = log.accept(work("b")).task;
  void log.end(outcomeOf(one, 0, { status: "failed", usd: 1 }), text("failed"));
  void log.end(outcomeOf(task, 0, { status: "failed", usd: 1 }), text("bad"));
  await log.end(outcomeOf(task, 1), text("good"));
  await log.reopen(task, [{ item: 0, status: "failed" }]);
  assert.deepEqual([log.task(task)?.left, (await log.sumsOf(task))?.failed], [2, 0]);
  assert.deepEqual(
    (await log.rows.loggedAnswers(task, 0, 9)).map(({ item }) => item),
    [1],
  );
  for (const item of [0, 2]) void log.end(outcomeOf(task, item, { status: "failed", usd: 2 }), text("bad"));
  await settled(log);
  assert.equal(log.task(task), undefined);
  await log.reopen(task, [{ item: 2, status: "failed" }], 77);
  await log.reopen(one, [{ item: 0, status: "failed" }]);
  assert.deepEqual([log.task(task)?.left, log.task(task)?.deadlineMs, log.isOpen(task, 2)], [1, 77, true]);
  assert.deepEqual([log.task(one)?.left, log.isOpen(one, 0)], [1, true]);
  void log.end(outcomeOf(one, 0, { usd: 4 }), text("at last"));
  await log.end(outcomeOf(task, 2, { usd: 4 }), text("at last"));
  await settled(log);
  const { completed, failed, usd } = (await log.sumsOf(task)) ?? {};
  assert.deepEqual({ completed, failed, usd }, { completed: 2, failed: 1, usd: 9 });
  assert.equal((await log.sumsOf(one))?.usd, 5);
  const {
    item: _item,
    task: _task,
    attempt: _attempt,
    nextMs: _next,
    ...taken
  } = endedOf(one, 0, 1, { usd: 5 });
  await log.reopen(one, [{ item: 0, status: "completed", taken }]);
  assert.deepEqual([(await log.sumsOf(one))?.usd, log.triedItems(one).get(0)?.ended?.usd], [5, 5]);
  void log.intend(intentOf(one, 0, 2));
  await log.endAttempt(endedOf(one, 0, 2, { usd: 6 }));
  await log.end(outcomeOf(one, 0, { usd: 7 }), text("again"));
  await settled(log);
  assert.equal((await log.sumsOf(one))?.usd, 7);
  await rejectsWith("not_found", log.reopen(99, []));
}

async function remembers(open: OpeningLog): Promise<void> {
  const log = await open();
  const lane = log.number("echo:m");
  assert.deepEqual([log.number("echo:m"), log.text(lane), log.text(0)], [lane, "echo:m", undefined]);
  void log.learn(lane, 1, 5, 100);
  void log.learn(lane, 2, 6, 100);
  await log.learn(lane, 1, 7, 200);
  assert.deepEqual(
    log.facts().map(({ fact, value, forMs }) => [fact, value, forMs]),
    [
      [1, 7, 200],
      [2, 6, 100],
    ],
  );
  const { task } = log.accept(work("a"));
  void log.intend({ ...intentOf(task, 0, 1), lane });
  await log.sentMore(lane, 1, 2);
  const [sum] = log.recentlySent();
  assert.deepEqual([sum?.lane, sum?.requests, sum?.inputTokens, sum?.outputTokens], [lane, 1, 11, 22]);
  await log.hold({ task, reason: log.number("outage"), sinceMs: 1, nextMs: 2 });
  assert.equal(log.text(log.holdOf(task)?.reason ?? 0), "outage");
  await log.hold({ task, reason: 0, sinceMs: 0, nextMs: 0 });
  assert.equal(log.holdOf(task), undefined);
}

async function hasOneOwner(open: OpeningLog): Promise<void> {
  const log = await open();
  await rejectsWith("data_dir_in_use", open());
  await log.close();
  await (await open()).close();
}

async function keepsOrder(open: OpeningLog): Promise<void> {
  const log = await open();
  const { task } = log.accept(work("a", { items: 500 }));
  const ended: Promise<void>[] = [];
  for (let item = 0; item < 500; item += 1) {
    void log.intend(intentOf(task, item, 1));
    ended.push(log.end(outcomeOf(task, item), text(`answer ${item}`)));
  }
  await Promise.all(ended);
  await settled(log);
  const items: number[] = [];
  for (let from = 0; ; from = (items.at(-1) ?? 0) + 1) {
    const page = await log.rows.loggedAnswers(task, from, 1_000);
    if (page.length === 0) break;
    for (const { item, text: bytes } of page)
      if (item !== SUMS_ITEM) assert.equal(textOf(bytes), `answer ${item}`);
    items.push(...page.map(({ item }) => item));
  }
  assert.deepEqual(items, [...Array.from({ length: 500 }, (_, item) => item), SUMS_ITEM]);
}

async function cutsItself(open: OpeningLog): Promise<void> {
  const bounds = { cutFloorBytes: 4_096, restatedBytesMin: 100 };
  const first = await open(bounds);
  await fillWithWork(first);
  const before = await stateOf(first);
  for (let round = 0; round < 400; round += 1) {
    const { task } = first.accept(work(`round ${round}`));
    await first.end(outcomeOf(task, 0), text("done"));
  }
  assert.deepEqual(await stateOf(first), before);
  assert.ok(first.logBytes < 16_384, `${first.logBytes} bytes are left of the log`);
  await first.close();
  const second = await open(bounds);
  assert.deepEqual(await stateOf(second), before);
  assert.equal(second.accept(work("next")).task, 406);
  assert.equal(second.number("echo:m"), first.number("echo:m"));
}

async function closes(open: OpeningLog): Promise<void> {
  const log = await open();
  const { durable } = log.accept(work("a", { items: 0 }));
  const closed = log.close();
  assert.throws(() => log.accept(work("b")), { code: "closed" });
  await Promise.all([durable, closed]);
  await log.close();
  const again = await open();
  assert.equal((await again.sumsOf(1))?.completed, 0); // it became final before the end
}

/** Work of every kind, in five tasks; the first has one open item. */
async function fillWithWork(log: WorkLog): Promise<void> {
  const one = log.accept(work("one", { deadlineMs: 1_000 })).task;
  const tried = log.accept(work("tried")).task;
  const several = log.accept(work("several", { items: 4_100 })).task;
  const uncounted = log.accept(work("uncounted", { items: undefined, kind: 3 })).task;
  const cancelled = log.accept(work("cancelled", { items: 4 })).task;
  const lane = log.number("echo:m");
  void log.intend({ ...intentOf(tried, 0, 1), lane });
  void log.endAttempt(endedOf(tried, 0, 1, { usd: 0.25, nextMs: 50 }));
  void log.intend({ ...intentOf(tried, 0, 2), lane });
  for (let item = 0; item < 2_060; item += 1) void log.end(outcomeOf(several, item), text(""));
  void log.end(outcomeOf(several, 4_099, { status: "failed", usd: 2 }), text("bad"));
  void log.hold({ task: several, reason: log.number("outage"), sinceMs: 1, nextMs: 2 });
  void log.end(outcomeOf(uncounted, 70), text(""));
  void log.intend(intentOf(cancelled, 1, 1));
  void log.intend(intentOf(cancelled, 3, 1));
  void log.endAttempt(endedOf(cancelled, 3, 1, { usd: 0.5 }));
  void log.endRest(cancelled, "cancelled", 0);
  void log.learn(lane, 4, 0.5, 60);
  await log.rewrite(one, "{}");
}
