/** What goes because it is too old leaves a trace, as what somebody deletes does. */
import { expect, it } from "vitest";
import { createEgress } from "../../src/egress/egress.ts";
import type { WorkLog } from "../../src/log/work_log.ts";
import { openCompletion } from "../../src/service/completion.ts";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import { itemLine } from "../engine/world.ts";
import { CountedDestinations } from "../jobs/counted_destinations.ts";
import { testVault } from "../satellites/test_vault.ts";
import { chunked } from "../tasks/files.ts";
import { item, PROJECT, submit, TaskWorld } from "../tasks/world.ts";

const DAY_MS = 86_400_000;

it("tells the audit log of each task and file that retention has removed, and of nothing that stays", async () => {
  const world = new TaskWorld();
  world.hasFileStore = true;
  const noted: AuditEvent[] = [];
  const opened = await world.opened();
  world.opened = async () => opened; // one engine, whose store is looked at here, too
  const tasks = await world.tasks();
  const files = world.fileStore as Files; // made with the tasks
  const completion = await openCompletion({
    clock: world.clock,
    store: opened.core.storage.store,
    workLog: world.workLog as WorkLog, // opened with the tasks
    disk: world.disk,
    dataDir: "/data",
    notice: () => undefined,
    files,
    openTasks: async () => tasks,
    egress: createEgress({ clock: world.clock }),
    vault: testVault,
    destinations: new CountedDestinations(),
    retentionDays: 10,
    audit: { note: (event) => noted.push(event) },
  });
  const upload = (key: string) =>
    files.put(PROJECT, { name: "in.jsonl", purpose: "batch", chunks: chunked(itemLine(1, "alpha:m1", key)) });
  const oldFile = await world.settle(upload("a"));
  const oldTask = await world.settle(submit(tasks, [item(1, 60)]));
  await world.clock.advance(6 * DAY_MS);
  await world.settle(upload("b"));
  await world.settle(submit(tasks, [item(2, 60)]));
  expect(noted).toEqual([]);
  await world.clock.advance(5 * DAY_MS);
  expect(noted).toEqual([
    { kind: "task.deleted", project: PROJECT, taskId: oldTask.id, by: "retention" },
    { kind: "file.deleted", project: PROJECT, fileId: oldFile.id, by: "retention" },
  ]);
  await world.settle(completion.close());
});
