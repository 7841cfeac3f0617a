/**
 * `perigee keys`: makes, lists and revokes the API keys of a data folder, also while `perigee serve` owns it.
 *
 * The key itself is printed once, by `create`, and is written nowhere else. What was made and revoked is in the audit log.
 */
import { systemClock } from "../clock.ts";
import { PerigeeError } from "../errors.ts";
import { SCOPES, type Scope } from "../service/http/caller.ts";
import { timestamp, timestampOrNull } from "../service/shapes/timestamp.ts";
import type { AuditEvent } from "../store/audit/audit_line.ts";
import { type KeyStore, openKeyStore } from "../store/keys/key_store.ts";
import type { StoredKey } from "../store/keys/key_table.ts";
import type { PgKeyStore } from "../store/keys/pg_key_store.ts";
import { errorJson } from "./exit.ts";
import { record } from "./service_folder.ts";
import { table } from "./table.ts";

const DEFAULT_SCOPES: readonly Scope[] = SCOPES.filter((scope) => scope !== "admin");
const DAY_MS = 86_400_000;

/** What all three have. */
interface KeysArguments {
  readonly data: string;
  /** Of a fleet, instead of a data folder. */
  readonly store?: string;
  readonly json?: boolean;
}

interface CreateArguments extends KeysArguments {
  readonly project: string;
  readonly name: string;
  readonly scopes?: readonly string[];
  readonly beta?: boolean;
  readonly admin?: boolean;
  /** Milliseconds. */
  readonly expires?: number;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. As the other two. */
export function createKey(options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as CreateArguments; // commander's own shape, declared in main.ts
  return answer(given, false, async (keys) => {
    const { key, stored } = await keys.create({
      project: given.project,
      name: given.name,
      scopes: scopesOf(given),
      isBeta: given.beta === true,
      expiresWallMs: given.expires === undefined ? undefined : systemClock.wallMs() + given.expires,
    });
    const { id, project, name, scopes, expiresWallMs } = stored;
    const rows: readonly (readonly string[])[] = [
      ["key", key],
      ["id", id],
      ["project", project],
      ["name", name],
      ["scopes", scopes.join(" ")],
      ["expires", expiresWallMs === undefined ? "never" : timestamp(expiresWallMs)],
    ];
    return {
      json: { id, key, project, scopes },
      text: `${table(rows)}\nKeep the key now: it is stored as a hash, and nobody can show it again.\n`,
      event: { kind: "key.created", project, keyId: id },
    };
  });
}

export function listKeys(options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as KeysArguments & { readonly project?: string }; // as above
  return answer(given, true, async (keys) => {
    const found = await keys.list(given.project);
    const head = ["id", "key", "project", "name", "state", "created", "last used", "scopes"];
    return {
      json: { keys: found.map(keyJson) },
      text: found.length === 0 ? "no keys\n" : table([head, ...found.map(keyRow)]),
    };
  });
}

export function revokeKey(id: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as KeysArguments; // as above
  return answer(given, true, async (keys) => {
    const revoked = await keys.revoke(id);
    return {
      json: keyJson(revoked),
      text: `${revoked.id} of project ${revoked.project} is revoked; a running service refuses it within a second\n`,
      event: { kind: "key.revoked", project: revoked.project, keyId: revoked.id },
    };
  });
}

interface Answer {
  readonly json: object;
  readonly text: string;
  readonly event?: AuditEvent;
}

/** Of a folder they answer at once, of a fleet later. */
type Keys = Pick<KeyStore | PgKeyStore, "create" | "list" | "revoke">;

interface KeyBook {
  readonly keys: Keys;
  /** Durable when it resolves. */
  note(event: AuditEvent): Promise<void>;
  close(): unknown;
}

async function folderKeys(dataDir: string, mustExist: boolean): Promise<KeyBook> {
  const keys = await openKeyStore({ dataDir, clock: systemClock, mustExist });
  return { keys, note: (event) => record(dataDir, event), close: () => keys.close() };
}

async function fleetKeys(store: string): Promise<KeyBook> {
  const { openFleetKeys } = await import("../fleet/fleet_keys.ts");
  return openFleetKeys(store, systemClock);
}

async function answer(
  given: KeysArguments,
  mustExist: boolean,
  ask: (keys: Keys) => Promise<Answer>,
): Promise<number> {
  try {
    const book =
      given.store === undefined ? await folderKeys(given.data, mustExist) : await fleetKeys(given.store);
    try {
      const { json, text, event } = await ask(book.keys);
      process.stdout.write(given.json === true ? `${JSON.stringify(json)}\n` : text);
      if (event !== undefined) await book.note(event);
    } finally {
      await book.close();
    }
    return 0;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

function scopesOf(given: CreateArguments): string[] {
  const wanted = given.scopes ?? DEFAULT_SCOPES;
  for (const scope of wanted)
    if (!SCOPES.some((known) => known === scope))
      throw new PerigeeError("usage", `--scopes takes ${SCOPES.join(",")}, got ${JSON.stringify(scope)}`);
  return [...new Set([...wanted, ...(given.admin === true ? ["admin"] : [])])];
}

function keyJson(key: StoredKey): object {
  return {
    id: key.id,
    project: key.project,
    name: key.name,
    prefix: `pgk_live_${key.shown}`,
    scopes: key.scopes,
    beta: key.isBeta,
    state: stateOf(key),
    created_at: timestamp(key.createdWallMs),
    expires_at: timestampOrNull(key.expiresWallMs),
    revoked_at: timestampOrNull(key.revokedWallMs),
    last_used_on: key.lastUsedDay === undefined ? null : dateOf(key.lastUsedDay * DAY_MS),
  };
}

function keyRow(key: StoredKey): string[] {
  const lastUsed = key.lastUsedDay === undefined ? "-" : dateOf(key.lastUsedDay * DAY_MS);
  const scopes = `${key.scopes.join(" ")}${key.isBeta ? " (beta)" : ""}`;
  const times = [dateOf(key.createdWallMs), lastUsed];
  return [key.id, `pgk_live_${key.shown}...`, key.project, key.name, stateOf(key), ...times, scopes];
}

function stateOf({ revokedWallMs, expiresWallMs }: StoredKey): "active" | "revoked" | "expired" {
  if (revokedWallMs !== undefined) return "revoked";
  return expiresWallMs !== undefined && expiresWallMs <= systemClock.wallMs() ? "expired" : "active";
}

function dateOf(wallMs: number): string {
  return timestamp(wallMs).slice(0, 10);
}
