/**
 * Stored files that open work names as media: they stay until the work has ended, because they are read when its requests are sent.
 *
 *   ids of files -> the requests of the project's open tasks are read, posted ones from the work log, large ones from their files of
 *                   lines -> the ids that occur in them, each with a task
 *
 * An id is found wherever it is in a text: words that only mention it keep the file, too. A task counts until its last item has ended.
 *
 * Costs nothing for a project without open work. Otherwise all its open requests are read: 1 GB of lines takes about 4 s.
 */
import { type Disk, errorCodeOf } from "../disk.ts";
import { WORK_KINDS } from "../log/work_kinds.ts";
import type { WorkLog } from "../log/work_log.ts";
import type { Lot } from "./lots/lot.ts";

/** Where the texts of open work are. */
export interface OpenTexts {
  readonly disk: Pick<Disk, "open">;
  readonly log: Pick<WorkLog, "openTasks" | "text" | "rows">;
  readonly lots: { readonly openLots: Iterable<Lot> };
}

const READ_BYTES = 1024 * 1024;
/** Both forms of an id: a UUID, and as OpenAI's clients know it. */
const ID = /[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}/g;
const ID_BYTES_MAX = 36;

/** Of `ids` (UUIDs), those that open tasks of the project name. */
export async function filesNamed(
  texts: OpenTexts,
  project: string,
  ids: ReadonlySet<string>,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  const search = (text: string, taskId: string): void => {
    for (const [match] of text.matchAll(ID)) {
      const id = match.length === ID_BYTES_MAX ? match : dashed(match);
      if (ids.has(id) && !found.has(id)) found.set(id, taskId);
    }
  };
  for (const { number, kind, left, project: name } of [...texts.log.openTasks()]) {
    if (kind !== WORK_KINDS.posted || left === 0 || texts.log.text(name) !== project) continue;
    const row = await texts.log.rows.loggedTask(number);
    if (row?.request === undefined) continue; // it has ended meanwhile
    const { id } = JSON.parse(row.body) as { readonly id: string };
    search(latinOf(row.request), id);
  }
  for (const lot of [...texts.lots.openLots]) {
    if (lot.record.project !== project) continue;
    const taskId = lot.members.find(({ open }) => open > 0)?.taskId;
    if (taskId !== undefined) await searchFile(texts.disk, lot.path, (text) => search(text, taskId));
  }
  return found;
}

/** Every id of the file is whole in one of the texts. */
async function searchFile(disk: OpenTexts["disk"], path: string, search: (text: string) => void) {
  const file = await disk.open(path, "read").catch((error: unknown) => {
    if (errorCodeOf(error) === "ENOENT") return undefined; // its work cannot be sent either
    throw error;
  });
  if (file === undefined) return;
  try {
    const chunk = new Uint8Array(READ_BYTES);
    for (let position = 0; ; ) {
      const length = await file.read(chunk, position);
      search(latinOf(chunk.subarray(0, length)));
      if (length < READ_BYTES) return;
      position += length - ID_BYTES_MAX;
    }
  } finally {
    await file.close();
  }
}

function latinOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function dashed(id: string): string {
  return [id.slice(0, 8), id.slice(8, 12), id.slice(12, 16), id.slice(16, 20), id.slice(20)].join("-");
}
