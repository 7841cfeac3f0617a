/**
 * The versions of what is stored: each is checked both ways when it is read, and refused in the same words.
 *
 *   above the newest that this version knows -> `data_dir_newer`       below the oldest -> `data_dir_older`
 *
 * In a data folder: schema of `journal.sqlite`, tasks and steps in it, schema of `keys.sqlite`, `folder.json`; besides, the
 * manifest of a backup. `learnt.json` and notes of holds are of use alone: those of other versions are left unread.
 */
import { PerigeeError } from "../errors.ts";

/** The versions that can be read, both included. */
export interface KnownVersions {
  readonly oldest: number;
  readonly newest: number;
}

/** Throws `data_dir_newer` or `data_dir_older`; `what` is followed by the version, as in `keys.sqlite has schema`. */
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
