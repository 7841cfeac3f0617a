/**
 * The task of a run that is called again, with what an earlier call had decided done.
 */
import { resolve } from "node:path";
import type { StoredTask } from "../../store/store.ts";
import { bodyOf, movedTask } from "../files/moved_task.ts";
import { onThisClock } from "../files/run_terms.ts";
import type { TaskBody } from "../files/task_body.ts";
import { answersPath } from "../files/task_files.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { type Repaired, repairOutput } from "./repair.ts";
import { type RestatedIn, settleRestatement } from "./restate.ts";

/** The task of a run by its name; of one whose output has moved, as it is under the new path. */
export async function findTask(
  storage: EngineStorage,
  name: string,
  { out, id }: { readonly out?: string; readonly id?: string },
): Promise<StoredTask | undefined> {
  const found = await storage.store.taskByName(name);
  return (
    found ?? (out === undefined || id !== undefined ? undefined : movedTask(storage, name, resolve(out)))
  );
}

/** As an earlier call left it; its output written again when that was found to be another. */
export async function mended(core: RestatedIn, task: StoredTask, signal: AbortSignal): Promise<TaskBody> {
  const body = await settled(core.storage, task, signal);
  if (body.isOutputChanged !== true) return body;
  const {
    body: repaired,
    kept,
    lost,
    change,
    damaged,
    isIntact,
  } = await repairOutput(core, task, body, signal);
  if (isIntact) return repaired; // it was put back
  const what = change === undefined ? "" : ` (it ${change})`;
  const old = damaged === undefined ? "" : `; the changed file is kept as ${damaged}`;
  core.storage.notice(
    `${body.out}${what} was rewritten: ${kept} lines were left, ${lost} are requested again${old}`,
  );
  return repaired;
}

/** `repairOutput` of a task as an earlier call left it, for a caller that does not go on with it. */
export async function repairTask(core: RestatedIn, task: StoredTask): Promise<Repaired> {
  const { signal } = new AbortController();
  return repairOutput(core, task, await settled(core.storage, task, signal), signal);
}

async function settled(storage: EngineStorage, task: StoredTask, signal: AbortSignal): Promise<TaskBody> {
  const found = onThisClock(bodyOf(storage, task), storage.clock.moment());
  return settleRestatement(storage, task, found, answersPath(storage, task.id, found), signal);
}
