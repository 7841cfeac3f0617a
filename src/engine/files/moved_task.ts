/**
 * Tasks whose files have moved: a data folder under another path, with its output or without.
 *
 *   an answer file of the folder's own     is where the folder is now
 *   an output that its caller named        is found by what it is called now, when the folder has one run for it
 */
import { basename } from "node:path";
import type { StoredTask } from "../../store/store.ts";
import type { EngineStorage } from "../journal/storage.ts";
import { storedTasks } from "./stored_tasks.ts";
import { decodeBody, encodeBody, type TaskBody } from "./task_body.ts";
import { ownOutputPath } from "./task_files.ts";

/** What is stored of a task, with its own output where the folder is now. */
export function bodyOf(
  home: Pick<EngineStorage, "dataDir">,
  task: Pick<StoredTask, "id" | "body">,
): TaskBody {
  const body = decodeBody(task.body);
  const own = ownOutputPath(home, task.id);
  if (body.out === own || basename(body.out) !== basename(own)) return body;
  return withOutput(body, own);
}

/**
 * The run of this folder whose output was called the same, or the only one, when a file now has the new path;
 * undefined if there is no such run. Whether the file is the one that it wrote is checked as for any run.
 */
export async function movedTask(
  { store, disk }: Pick<EngineStorage, "store" | "disk">,
  name: string,
  out: string,
): Promise<StoredTask | undefined> {
  if (((await disk.stat(out))?.sizeBytes ?? 0) === 0) return undefined;
  const named: StoredTask[] = [];
  for await (const task of storedTasks(store)) if (task.name.startsWith("out:")) named.push(task);
  const same = named.filter((task) => basename(task.name) === basename(out));
  const [task, another] = same.length > 0 ? same : named;
  if (task === undefined || another !== undefined) return undefined;
  return { ...task, name, body: encodeBody(withOutput(decodeBody(task.body), out)) };
}

function withOutput(body: TaskBody, out: string): TaskBody {
  return {
    ...body,
    out,
    ...(body.summary === undefined ? {} : { summary: { ...body.summary, output: out } }),
  };
}
