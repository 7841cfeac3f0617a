/**
 * API keys of a fleet, in `perigee_keys`: those of `key_store.ts`, over a database instead of a file.
 *
 * All keys are held in memory. A change raises `keys_version`; each process compares it every 500 ms, and when a caller asks for a key that
 * it does not know (`look`). So a key is accepted as soon as it was made elsewhere, and refused within a second after it was revoked. While
 * the database is away, what is in memory is all that is known.
 */
import type { Clock, Timer } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { PgQuery } from "../postgres/pg_session.ts";
import { hashApiKey } from "./api_key.ts";
import { HeldKeys } from "./held_keys.ts";
import { type KeyRow, keyChecksumOf, readKeyRow, type StoredKey } from "./key_table.ts";
import { ACTIVE_KEYS_MAX, type MadeKey, type NewKey, newKey, tooManyKeys } from "./new_key.ts";

/** How long a change by another process may go unseen. */
const LOOK_AGAIN_MS = 500;
/** How long days of last use are gathered before they are written. */
const WRITE_USES_MS = 600_000;
const COLUMNS =
  "id, hash, shown, project, name, scopes, is_beta::int AS is_beta, created_ms, expires_ms, revoked_ms, last_used_day, crc";
/** With which a change of keys begins. */
const CHANGED = "WITH changed AS (UPDATE perigee_fleet SET keys_version = keys_version + 1 RETURNING 1)";

export class PgKeyStore {
  readonly #query: PgQuery;
  readonly #clock: Clock;
  readonly #held: HeldKeys;
  #version: number | undefined;
  /** The look that is under way, and the one that begins after it. */
  #looks: { readonly now: Promise<void>; next?: Promise<void> } | undefined;
  #timer: Timer | undefined;
  #isClosed = false;
  #usesWrittenMs: number;

  constructor(query: PgQuery, clock: Clock) {
    this.#query = query;
    this.#clock = clock;
    this.#held = new HeldKeys(clock);
    this.#usesWrittenMs = clock.nowMs();
  }

  /** Reads all keys, and from then on every 500 ms what was changed. */
  async follow(): Promise<void> {
    await this.look();
    this.#followLater();
  }

  /** Resolves when every key is known that was made before the call. */
  look(): Promise<void> {
    const looks = this.#looks;
    if (looks === undefined) {
      const now = this.#look().finally(() => {
        this.#looks = undefined;
      });
      this.#looks = { now };
      return now;
    }
    looks.next ??= looks.now.catch(() => undefined).then(() => this.look());
    return looks.next;
  }

  /** As `KeyStore.create`. */
  async create(wanted: NewKey): Promise<MadeKey> {
    const nowMs = this.#clock.wallMs();
    const made = newKey(wanted, nowMs);
    const { id, hash, shown, project, name, scopes, isBeta, createdWallMs, expiresWallMs } = made.stored;
    await this.#query(
      `${CHANGED} INSERT INTO perigee_keys (id, hash, shown, project, name, scopes, is_beta, created_ms, expires_ms, crc)
       SELECT $1, $2::bytea, $3, $4, $5, $6, $7::boolean, $8::bigint, $9::bigint, $10::bigint FROM changed
       WHERE (SELECT count(*) FROM perigee_keys WHERE project = $4 AND name = $5 AND revoked_ms IS NULL
              AND (expires_ms IS NULL OR expires_ms > $11)) < $12
       ON CONFLICT DO NOTHING`,
      ...[id, hash, shown, project, name, scopes.join(" "), isBeta, createdWallMs, expiresWallMs ?? null],
      ...[keyChecksumOf(made.stored), nowMs, ACTIVE_KEYS_MAX],
    );
    // It may be done twice when the session is lost: what counts is whether it is there.
    const { count } = await this.#query("SELECT 1 FROM perigee_keys WHERE id = $1", id);
    if (count === 0) throw tooManyKeys(made.stored);
    return made;
  }

  /** As `KeyStore.list`. */
  async list(project?: string): Promise<readonly StoredKey[]> {
    const keys = await this.#all();
    return project === undefined ? keys : keys.filter((key) => key.project === project);
  }

  /** From now on here, and within a second in others. A repeat is not an error. Throws `not_found`. */
  async revoke(id: string): Promise<StoredKey> {
    const found = (await this.#all()).find((key) => key.id === id);
    if (found === undefined) throw new PerigeeError("not_found", `there is no key ${JSON.stringify(id)}`);
    if (found.revokedWallMs !== undefined) return found;
    const revoked = { ...found, revokedWallMs: this.#clock.wallMs() };
    await this.#query(
      `${CHANGED} UPDATE perigee_keys SET revoked_ms = $2, crc = $3 FROM changed WHERE id = $1 AND revoked_ms IS NULL`,
      ...[id, revoked.revokedWallMs, keyChecksumOf(revoked)],
    );
    return revoked;
  }

  /** As `KeyStore.accept`, from memory. */
  accept(text: string): StoredKey | undefined {
    const hash = hashApiKey(text);
    const found = hash === undefined ? undefined : this.#held.byHash(hash);
    if (found !== undefined) this.#held.noteUse(found);
    return found;
  }

  /** As `KeyStore.active`, from memory. */
  active(id: string): StoredKey | undefined {
    return this.#held.active(id);
  }

  /** Writes the days of last use that are left. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#writeUses().catch(() => undefined); // for people who tidy up keys
  }

  #followLater(): void {
    if (this.#isClosed) return;
    const follow = (): void => {
      void this.look()
        .catch(() => undefined) // the next one tries again
        .then(() => this.#followLater());
    };
    this.#timer = this.#clock.timer(LOOK_AGAIN_MS, follow, { keepsAlive: false });
  }

  async #look(): Promise<void> {
    const { rows } = await this.#query("SELECT keys_version AS version FROM perigee_fleet");
    const [{ version }] = rows as [{ readonly version: number }]; // there is one row
    if (version !== this.#version) this.#held.load(await this.#all());
    this.#version = version; // read before the keys: what was changed in between is found again
    if (this.#clock.nowMs() - this.#usesWrittenMs >= WRITE_USES_MS) await this.#writeUses();
  }

  async #all(): Promise<StoredKey[]> {
    const { rows } = await this.#query(`SELECT ${COLUMNS} FROM perigee_keys ORDER BY row`);
    return (rows as KeyRow[]).map(readKeyRow); // as selected
  }

  async #writeUses(): Promise<void> {
    this.#usesWrittenMs = this.#clock.nowMs();
    const uses = [...this.#held.uses];
    if (uses.length === 0) return;
    await this.#query(
      `${CHANGED} UPDATE perigee_keys k SET last_used_day = u.day FROM changed, unnest($1::text[], $2::int[]) AS u (id, day)
       WHERE k.id = u.id`,
      ...[uses.map(([id]) => id), uses.map(([, day]) => day)],
    );
    this.#held.uses.clear();
  }
}
