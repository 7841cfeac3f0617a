/** A service without its HTTP, in virtual time, whose provider has batches. */
import type { ConfigOptions } from "../../src/engine/config/config.ts";
import type { OpenedEngine } from "../../src/engine/engine.ts";
import { openWorkLog, type WorkLog } from "../../src/log/work_log.ts";
import { nanoOf } from "../../src/price/nano.ts";
import { inlineScanner } from "../../src/shard/measurer.ts";
import { createFiles } from "../../src/tasks/files/file_store.ts";
import { type OpenedTasks, openTasks } from "../../src/tasks/open_tasks.ts";
import type { TaskEvent } from "../../src/tasks/shapes/tasks.ts";
import { createSpending, type Spending } from "../../src/tasks/usage/spending.ts";
import type { FakeOptions } from "../batch_servers/behaviour.ts";
import { type wireCase, worldOf } from "../engine/batches/wires.ts";

export const PROJECT = "acme";

/** `capUsd`: of each project and month. */
export function batchService(
  wire: ReturnType<typeof wireCase>,
  options: Partial<FakeOptions> = {},
  config: ConfigOptions = {},
  capUsd?: number,
) {
  const { world, fake } = worldOf(wire, options, config);
  const events: TaskEvent[] = [];
  let spending: Spending | undefined;
  let log: WorkLog | undefined;
  const tasksOn = async (opened: OpenedEngine): Promise<OpenedTasks> => {
    const { store, clock, disk } = opened.core.storage;
    const dataDir = "/data";
    spending = createSpending({ clock: world.clock, store, capUsd: () => capUsd });
    log = await openWorkLog({ store, clock });
    const files = await createFiles({ store, disk, clock: world.clock, measurer: inlineScanner, dataDir });
    return openTasks({
      ...{ ...opened, workLog: log, files, spending, dataDir },
      onFinished: (event) => {
        events.push(event);
      },
    });
  };
  const usage = async () => {
    const [from, to] = ["2026-11-01", "2026-11-03"];
    const { days } = (await spending?.usage(PROJECT, from, to)) ?? { days: [] };
    return days.reduce(
      (sum, day) => ({
        items: sum.items + day.items,
        listNanos: sum.listNanos + nanoOf(day.listUsd),
        billedNanos: sum.billedNanos + nanoOf(day.billedUsd),
      }),
      { items: 0, listNanos: 0, billedNanos: 0 },
    );
  };
  return { world, fake, events, tasksOn, usage };
}
