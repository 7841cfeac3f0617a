/**
 * The task of a run that is called again, with what an earlier call had decided done.
 */
import { resolve } from "node:path";
import type { StoredTask } from "../store/store.ts";
import { bodyOf, movedTask } from "./moved_task.ts";
import type { EngineParts } from "./parts.ts";
import { repairOutput } from "./repair.ts";
import { settleRestatement } from "./restate.ts";
import { onThisClock } from "./run_terms.ts";
import type { TaskBody } from "./task_body.ts";
import { answersPath } from "./task_files.ts";

/** The task of a run by its name; of one whose output has moved, as it is under the new path. */
export async function findTask(
  parts: EngineParts,
  name: string,
  { out, id }: { readonly out?: string; readonly id?: string },
): Promise<StoredTask | undefined> {
  const found = await parts.store.taskByName(name);
  return found ?? (out === undefined || id !== undefined ? undefined : movedTask(parts, name, resolve(out)));
}

/** As an earlier call left it; its output written again when that was found to be another. */
export async function mended(parts: EngineParts, task: StoredTask, signal: AbortSignal): Promise<TaskBody> {
  const found = onThisClock(bodyOf(parts, task), parts.clock.moment());
  const body = await settleRestatement(parts, task, found, answersPath(parts, task.id, found), signal);
  if (body.isOutputChanged !== true) return body;
  const { body: repaired, kept, lost, damaged, isIntact } = await repairOutput(parts, task, body);
  if (isIntact) return repaired; // it was put back
  const old = damaged === undefined ? "" : `; the changed file is kept as ${damaged}`;
  parts.notice(`${body.out} was rewritten: ${kept} lines were left, ${lost} are requested again${old}`);
  return repaired;
}
