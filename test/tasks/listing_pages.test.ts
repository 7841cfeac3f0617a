/** What a page of tasks reads: of each kind no more than it may show, at any place of a long list. */
import { expect, it } from "vitest";
import { WORK_KINDS } from "../../src/log/work_kinds.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import { type TaskRecord, taskToRecord } from "../../src/tasks/lots/task_record.ts";
import { type ListedTask, TaskListing } from "../../src/tasks/task_listing.ts";
import { createCrashableStore, FakeClock } from "../../src/testing/index.ts";
import { newId } from "../../src/work/new_id.ts";
import { stemOf } from "../../src/work/object_id.ts";

const LIMIT = 10;

it("a page of tasks reads no more of small and of large ones than it has room for, wherever it begins", async () => {
  const clock = new FakeClock();
  const store = await createCrashableStore().open();
  const log = await openWorkLog({ store, clock });
  const createdWallMs = clock.wallMs();
  const ids: string[] = [];
  for (let round = 0; round < 40; round += 1) {
    for (let posted = 0; posted < round % 4; posted += 1) {
      const id = newId();
      ids.unshift(id);
      const body = JSON.stringify({ id });
      const work = { id: stemOf(id), items: 1, body, kind: WORK_KINDS.posted, project: "p", createdWallMs };
      await clock.runUntilSettled(log.accept(work).durable);
    }
    const id = newId();
    ids.unshift(id);
    const beforeTask = log.nextRow.number;
    const task = {
      id,
      project: "p",
      createdWallMs,
      beforeTask,
      parts: [],
      spans: [],
    } as unknown as TaskRecord; // as far as lists look
    await store.change([{ kind: "insert", record: taskToRecord(task) }]);
  }
  let read = 0;
  const counted = {
    record: store.record.bind(store),
    records: async (...query: Parameters<typeof store.records>) => {
      const found = await store.records(...query);
      read += found.length;
      return found;
    },
  };
  // biome-ignore lint/suspicious/noExplicitAny: the id is all that is looked at
  const viewOf = async (task: ListedTask): Promise<any> => ("posted" in task ? task.posted : task.large);
  const listing = new TaskListing({ store: counted, log, viewOf });
  for (let start = 0; start <= ids.length; start += 1) {
    read = 0;
    const after = start === 0 ? {} : { after: ids[start - 1] as string };
    const { items, hasMore } = await listing.page("p", { limit: LIMIT, ...after });
    expect(items.map(({ id }) => id)).toEqual(ids.slice(start, start + LIMIT));
    expect(hasMore).toBe(start + LIMIT < ids.length);
    expect(read).toBeLessThanOrEqual(LIMIT + 1);
  }
});
