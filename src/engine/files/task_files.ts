/**
 * The files of a task in the data folder, by name.
 *
 *   <id>.input.jsonl           the copy of a stream
 *   <id>.input.jsonl.<state>   the lines of a `.json` file in that state (`array_copy.ts`)
 *   <id>.answers.jsonl         answers that will be put in order
 *   <id>.output.jsonl          answers of a run without `out`
 *   <id>.held.json             what holds the run, and what has held it (`hold_note.ts`)
 *   <id>.<part>.jsonl          the items of a submitted list that have one sla
 *
 * The first three exist until the task is finished.
 */
import { join } from "node:path";
import { holdNotePath } from "../items/hold_note.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { arrayCopyPath, isArrayPath } from "./array_copy.ts";
import type { TaskBody } from "./task_body.ts";

type Home = Pick<EngineStorage, "dataDir">;

/** Removes what a finished task needs no more. What cannot be removed is left for the next call of the run. */
export async function removeWorkFiles(
  storage: Pick<EngineStorage, "dataDir" | "disk">,
  taskId: string,
  body: TaskBody,
): Promise<void> {
  for (const path of workPaths(storage, taskId, body)) await storage.disk.remove(path).catch(() => undefined);
}

/** Removes all of a run but the output that its caller named. */
export async function removeRunFiles(
  storage: Pick<EngineStorage, "dataDir" | "disk">,
  taskId: string,
  body: TaskBody,
): Promise<void> {
  const own = ownOutputPath(storage, taskId);
  const paths = [...workPaths(storage, taskId, body), holdNotePath(storage, taskId)];
  if (body.out === own) paths.push(own);
  for (const path of paths) await storage.disk.remove(path);
}

function workPaths(home: Home, taskId: string, body: TaskBody): string[] {
  const spool = spoolPath(home, taskId);
  const paths = body.isOrdered ? [answersPath(home, taskId, body)] : [];
  paths.push(partPath(answersPath(home, taskId, body)));
  if (body.input === undefined) paths.push(spool);
  else if (isArrayPath(body.input.name)) paths.push(arrayCopyPath(spool, body.input));
  return paths;
}

/** Where answers are appended: the output itself, or a file beside the journal that is put in order at the end. */
export function answersPath(home: Home, taskId: string, body: TaskBody): string {
  return body.isOrdered ? pathOf(home, taskId, "answers.jsonl") : body.out;
}

/** Where a file is written again before it replaces the one at `path`. */
export function partPath(path: string): string {
  return `${path}.perigee-part`;
}

/** Where a copy of an input is kept that cannot be read twice. */
export function spoolPath(home: Home, taskId: string): string {
  return pathOf(home, taskId, "input.jsonl");
}

/** Where answers go when the caller names no place. */
export function ownOutputPath(home: Home, taskId: string): string {
  return pathOf(home, taskId, "output.jsonl");
}

/** Where a part of a submitted list is kept. */
export function submittedPath(home: Home, taskId: string, part: number): string {
  return pathOf(home, taskId, `${part}.jsonl`);
}

function pathOf({ dataDir }: Home, taskId: string, what: string): string {
  return join(dataDir, "tasks", `${taskId}.${what}`);
}
