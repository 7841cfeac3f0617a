/**
 * Checks the versions of stored data. Each is checked when it is read, in both directions, and refused in the same words.
 *
 *   above the newest that this version knows -> `data_dir_newer`       below the oldest -> `data_dir_older`
 *
 * Checked in a data folder: the schema of `journal.sqlite`, tasks and steps in it, the schema of `keys.sqlite`, `folder.json`;
 * also the manifest of a backup. `learnt.json` and notes of holds are only useful, not needed: other versions are not read.
 */
import { PerigeeError } from "../../errors.ts";

/** The versions that can be read, both included. */
export interface KnownVersions {
  readonly oldest: number;
  readonly newest: number;
}

/** Throws `data_dir_newer` or `data_dir_older`. `what` is the start of the message, before the version: `keys.sqlite has schema`. */
export function checkVersion(what: string, found: number, { oldest, newest }: KnownVersions): void {
  const details = { found, supported: newest };
  if (found > newest)
    throw new PerigeeError(
      "data_dir_newer",
      `${what} ${found}, this version of perigee reads up to ${newest}: use a newer one`,
      { details },
    );
  if (found >= oldest) return;
  const readable = oldest === newest ? `${newest} only` : `${oldest} to ${newest}`;
  throw new PerigeeError(
    "data_dir_older",
    `${what} ${found}, which an older perigee wrote; this version reads ${readable}: open it with a version in between first`,
    { details },
  );
}
