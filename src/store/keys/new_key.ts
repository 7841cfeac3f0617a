/**
 * What a new key must be: its names, its limits, and its text by chance.
 */
import { PerigeeError } from "../../errors.ts";
import { hashApiKey, makeApiKey, randomBase62, shownPartOf } from "./api_key.ts";
import type { StoredKey } from "./key_table.ts";

/** Of one project and name. */
export const ACTIVE_KEYS_MAX = 2;
const PROJECT = /^[a-z0-9][a-z0-9-]{0,62}$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
/** The namespace of perigee's satellites: a project of that name would own them. */
const VENDOR = "perigee";

export interface NewKey {
  /** `^[a-z0-9][a-z0-9-]{0,62}$`, and not `perigee`. */
  readonly project: string;
  /** What the key is for: letters, digits, `.`, `_` and `-`, at most 63. */
  readonly name: string;
  readonly scopes: readonly string[];
  readonly isBeta: boolean;
  readonly expiresWallMs?: number | undefined;
}

/** A key that was just made; `key` is its text, which is kept nowhere. */
export interface MadeKey {
  readonly key: string;
  readonly stored: StoredKey;
}

/** Throws `usage` for a project or name of another form. */
export function newKey(wanted: NewKey, createdWallMs: number): MadeKey {
  const { project, name, scopes, isBeta, expiresWallMs } = wanted;
  checkName("project", project, PROJECT);
  if (project === VENDOR)
    throw new PerigeeError(
      "usage",
      `project ${VENDOR} is reserved: it is the namespace of perigee's satellites`,
    );
  checkName("name", name, NAME);
  const key = makeApiKey();
  const hash = hashApiKey(key);
  if (hash === undefined)
    throw new PerigeeError("internal_error", "a new key does not have the form of a key");
  const stored = {
    ...{
      id: `key_${randomBase62(16)}`,
      hash: new Uint8Array(Buffer.from(hash, "hex")),
      shown: shownPartOf(key),
    },
    ...{ project, name, isBeta, expiresWallMs },
    ...{ scopes: [...scopes], createdWallMs, revokedWallMs: undefined, lastUsedDay: undefined },
  };
  return { key, stored };
}

/** When a project has as many active keys of the name as it may. */
export function tooManyKeys({ project, name }: Pick<StoredKey, "project" | "name">): PerigeeError {
  return new PerigeeError(
    "conflict",
    `project ${project} has ${ACTIVE_KEYS_MAX} active keys named ${name}: revoke one, or choose another name`,
  );
}

function checkName(what: string, given: string, form: RegExp): void {
  if (form.test(given)) return;
  throw new PerigeeError("usage", `${what} must match ${form.source}, got ${JSON.stringify(given)}`);
}
