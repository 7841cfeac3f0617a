/**
 * Numbers of tasks and objects that are not final, in all projects.
 */
import type { Lot } from "../lots/lot.ts";

/** Open tasks, and their open objects. */
export interface OpenCounts {
  readonly tasks: number;
  readonly objects: number;
}

/** Fast enough for every scrape of the metrics. */
export function openCountsOf(lots: Iterable<Lot>): OpenCounts {
  const own = new Set<string>(); // a task may have many
  const shared: Lot[] = [];
  let objects = 0;
  for (const lot of lots) {
    if (lot.record.taskId === undefined) shared.push(lot);
    else for (const { taskId, open } of lot.members) if (open > 0) own.add(taskId);
    for (const { open } of lot.members) objects += open;
  }
  let tasks = own.size;
  for (const { members } of shared)
    for (const { open, taskId } of members) if (open > 0 && !(own.size > 0 && own.has(taskId))) tasks += 1;
  return { tasks, objects };
}
