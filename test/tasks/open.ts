/**
 * Tasks on a real engine and a real store, for tests: the echo provider answers.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EngineOptions, type OpenedEngine, openEngine } from "../../src/engine/engine.ts";
import { PerigeeError } from "../../src/errors.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import type { Files } from "../../src/tasks/files/files.ts";
import { type OpenedTasks, openTasks } from "../../src/tasks/open_tasks.ts";
import { createSpending } from "../../src/tasks/usage/spending.ts";

export interface OpenTasks extends OpenedEngine {
  readonly dataDir: string;
  readonly tasks: OpenedTasks;
  /** Ends it as a service that is asked to end. */
  close(): Promise<void>;
}

export async function openTestTasks(
  dataDir: string,
  files: Files = noFiles,
  options: Partial<EngineOptions> = {},
): Promise<OpenTasks> {
  const opened = await openEngine({ env: {}, ...options, dataDir });
  const { clock, store } = opened.core.storage;
  const spending = createSpending({ clock, store, capUsd: () => undefined });
  const workLog = await openWorkLog({ store, clock });
  const tasks = await openTasks({ ...opened, workLog, files, spending, dataDir });
  return {
    ...opened,
    dataDir,
    tasks,
    close: async () => {
      await tasks.close();
      await workLog.close();
      await opened.engine.close();
    },
  };
}

/** A folder that is removed by the function beside it. */
export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "perigee-tasks-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

const none = (): never => {
  throw new PerigeeError("not_found", "no such file");
};

const noFiles: Files = {
  put: none,
  file: none,
  list: none,
  remove: none,
  named: none,
  read: none,
  index: async () => none(),
  assertWhole: none,
  assertKeysDiffer: none,
  hold: none,
};
