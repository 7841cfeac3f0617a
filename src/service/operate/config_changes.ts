/**
 * Which settings differ from those of the service's last start, for the audit log.
 *
 * A record keeps the SHA-256 of each setting, never its value: some are keys of providers.
 */
import { createHash } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { Audit } from "../../store/audit/audit_log.ts";
import type { Store } from "../../store/store.ts";

const COLLECTION = "config";
const ID = "last";
/** Variables that perigee reads, those of the providers' own SDKs included. */
const VARIABLE = /^PERIGEE_|_API_KEY$|_BASE_URL$/;

/** By name; values that are functions or objects of classes count by what JSON makes of them. */
export type Settings = Readonly<Record<string, unknown>>;

/** Notes each setting that is new, removed or different. The first start of a folder has nothing to compare with. */
export async function noteConfigChanges(
  store: Store,
  clock: Pick<Clock, "wallMs">,
  audit: Audit,
  settings: Settings,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const variables = Object.entries(env).filter(([name]) => VARIABLE.test(name));
  const now = new Map(
    [...Object.entries(settings), ...variables]
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, hashOf(value)]),
  );
  const found = await store.record("", COLLECTION, ID);
  const before = found === undefined ? now : new Map(Object.entries(readHashes(found.body)));
  const changed = [...new Set([...before.keys(), ...now.keys()])].filter(
    (name) => before.get(name) !== now.get(name),
  );
  if (found !== undefined && changed.length === 0) return;
  for (const setting of changed) audit.note({ kind: "config.changed", setting });
  const body = JSON.stringify(Object.fromEntries(now));
  const record = {
    collection: COLLECTION,
    id: ID,
    project: "",
    parent: "",
    createdWallMs: clock.wallMs(),
    body,
  };
  await store.change([{ kind: "put", record }]);
}

function readHashes(body: string): Record<string, string> {
  return JSON.parse(body) as Record<string, string>; // our own, checked by the store
}

function hashOf(value: unknown): string {
  return createHash("sha256")
    .update(JSON.stringify(value) ?? "")
    .digest("hex");
}
