/**
 * The identity of a data folder: `folder.json` and the journal carry the same id, and each says how far the journal was.
 *
 *   start: the journal's count of starts rises and is synced -> folder.json is written -> open
 *   once a minute in a service, and at the end: folder.json is written again
 *
 * So a journal is never older than its `folder.json`. If it is, it was restored from an older copy, is another folder's, or was
 * deleted, and the folder is refused: files that are not in it would look like leftovers. A folder without `folder.json`
 * (made by an earlier version, or accepted by removing that file) gets one.
 *
 * Limit: a copy of the journal that is restored within the minute, or after a kill in the same process life, is not detected.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { PerigeeError } from "../../errors.ts";
import { checkVersion } from "./known_version.ts";

/** What of a folder both sides carry. */
export interface FolderMark {
  /** UUID. */
  readonly id: string;
  /** How often the journal was opened. */
  readonly starts: number;
  /** How many tasks and runs were ever stored. */
  readonly tasks: number;
}

/** Folders with files that only a journal explains. */
const FILE_FOLDERS = ["tasks", "lots", "files"] as const;
const VERSION = 1;
const WAY_ON =
  "restore the whole folder from one backup (perigee restore), or remove folder.json to accept the journal as it is: files that it does not know are kept and named";

/** Undefined if the file does not exist. Throws `store_damaged` if it is not a valid identity, `data_dir_newer`, `data_dir_older`. */
export function readMark(dataDir: string): FolderMark | undefined {
  const path = join(dataDir, "folder.json");
  if (!existsSync(path)) return undefined;
  const found = parsed(readFileSync(path, "utf8"));
  if (found !== undefined) {
    const { version, ...mark } = found;
    checkVersion(`${path} has version`, version, { oldest: VERSION, newest: VERSION });
    return mark;
  }
  throw new PerigeeError("store_damaged", `${path} is not the identity of a data folder; ${WAY_ON}`);
}

/** Written beside its place and renamed, so that it is whole after a crash. */
export function writeMark(dataDir: string, mark: FolderMark): void {
  const path = join(dataDir, "folder.json");
  const file = openSync(`${path}.part`, "w", 0o600);
  try {
    writeFileSync(file, `${JSON.stringify({ version: VERSION, ...mark })}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.part`, path);
}

/** Before the journal is opened, which would create it again. Throws `store_damaged` where it is missing or empty and should not be. */
export function refuseLostJournal(dataDir: string, mark: FolderMark | undefined): void {
  const path = join(dataDir, "journal.sqlite");
  const sizeBytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const walBytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (sizeBytes > 0) return;
  const beside = FILE_FOLDERS.map((name) => [name, filesIn(join(dataDir, name))] as const);
  const counts = beside.filter(([, count]) => count > 0);
  if (mark === undefined && counts.length === 0 && walBytes === 0) return;
  const state = existsSync(path) ? "empty" : "missing";
  const left = counts.map(([name, count]) => `${count} in ${name}/`).join(", ");
  throw new PerigeeError(
    "store_damaged",
    `${path} is ${state}, but the folder was in use${left === "" ? "" : ` (files left: ${left})`}: put the journal back, or restore the whole folder from a backup (perigee restore); to start over, use another data folder`,
  );
}

/** Throws `store_damaged` when the journal, as it was before this start, is not the one that the folder's mark speaks of. */
export function refuseOtherJournal(
  dataDir: string,
  mark: FolderMark | undefined,
  journal: FolderMark | undefined,
): void {
  if (mark === undefined) return;
  const path = join(dataDir, "journal.sqlite");
  if (journal === undefined)
    throw new PerigeeError(
      "store_damaged",
      `${path} is empty, but folder.json was written for ${mark.id}; ${WAY_ON}`,
    );
  if (journal.id !== mark.id)
    throw new PerigeeError(
      "store_damaged",
      `${path} is the journal of another folder (${journal.id}; folder.json says ${mark.id}); ${WAY_ON}`,
    );
  if (journal.starts >= mark.starts && journal.tasks >= mark.tasks) return;
  throw new PerigeeError(
    "store_damaged",
    `${path} is older than the files beside it (start ${journal.starts} with ${journal.tasks} tasks; folder.json says start ${mark.starts} with ${mark.tasks}); ${WAY_ON}`,
  );
}

function parsed(text: string): (FolderMark & { readonly version: number }) | undefined {
  try {
    const { version, id, starts, tasks } = JSON.parse(text) as Partial<FolderMark & { version: number }>; // checked below
    if (typeof id !== "string") return undefined;
    const [isVersion, isStarts, isTasks] = [version, starts, tasks].map(Number.isInteger);
    if (isVersion !== true || isStarts !== true || isTasks !== true) return undefined;
    return { version: version as number, id, starts: starts as number, tasks: tasks as number };
  } catch {
    return undefined;
  }
}

function filesIn(folder: string): number {
  return existsSync(folder) ? readdirSync(folder).length : 0;
}
