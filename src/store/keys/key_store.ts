/**
 * API keys of projects, in `keys.sqlite` of the data folder; several processes may have it open.
 *
 *   active -> revoked (`revoke`)
 *          -> expired (by the wall clock)
 *
 * The key itself is shown to its creator once and stored as its SHA-256. All keys are held in memory: whether another
 * process has changed them is checked when a key is looked up, every 500 ms, and for each key that is not active as far
 * as is known. So a key is accepted as soon as it was made elsewhere, and refused half a second after it was revoked.
 * While another process commits, what is in memory is still the truth.
 *
 * Limits: two active keys for each project and name, so that one can be replaced by the next without a gap.
 */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { openPrivately } from "../folder/data_dir.ts";
import { loadSqlite } from "../sqlite_database.ts";
import { isBusy, storeFailure } from "../sqlite_failure.ts";
import { hashApiKey } from "./api_key.ts";
import { HeldKeys } from "./held_keys.ts";
import { KeyTable, type StoredKey } from "./key_table.ts";
import { ACTIVE_KEYS_MAX, type NewKey, newKey, tooManyKeys } from "./new_key.ts";

/** How long a change by another process may go unseen. */
const LOOK_AGAIN_MS = 500;
/** How long days of last use are gathered before they are written. */
const WRITE_USES_MS = 600_000;

export interface KeyStoreOptions {
  /** Made when it does not exist. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** Throws `not_found` where no keys were made. Default false: makes an empty file for them. */
  readonly mustExist?: boolean;
}

/** Opens or makes the keys of a data folder. Throws `data_dir_newer`, `data_dir_older`, `store_damaged`, `disk_full`, `store_failed`. */
export async function openKeyStore({ dataDir, clock, mustExist }: KeyStoreOptions): Promise<KeyStore> {
  if (mustExist === true && !existsSync(join(dataDir, "keys.sqlite")))
    throw new PerigeeError("not_found", `no keys were made in ${dataDir}`);
  const open = await loadSqlite();
  return answering(`cannot open the keys in ${dataDir}`, () => {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const database = openPrivately(open, join(dataDir, "keys.sqlite"));
    try {
      return new KeyStore(new KeyTable(database), clock);
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/** Synchronous. Throws `store_damaged`, `store_failed` or `disk_full` when the file cannot be read or written. */
export class KeyStore {
  readonly #table: KeyTable;
  readonly #clock: Clock;
  readonly #held: HeldKeys;
  #lookedMs: number;
  #usesWrittenMs: number;

  constructor(table: KeyTable, clock: Clock) {
    this.#table = table;
    this.#clock = clock;
    this.#held = new HeldKeys(clock);
    this.#lookedMs = clock.nowMs();
    this.#usesWrittenMs = clock.nowMs();
    this.#held.load(table.all());
  }

  /**
   * Makes a key, durable when it returns; `key` is known from nowhere else afterwards. Throws `usage` for a project or
   * name of another form, `conflict` when there are two active keys of that name.
   */
  create(wanted: NewKey): { readonly key: string; readonly stored: StoredKey } {
    const { key, stored } = newKey(wanted, this.#clock.wallMs());
    this.#write("create a key", () => {
      const alike = this.#table
        .all()
        .filter(({ project, name }) => project === stored.project && name === stored.name);
      if (alike.filter((other) => this.#held.isActive(other)).length >= ACTIVE_KEYS_MAX)
        throw tooManyKeys(stored);
      this.#table.insert(stored);
    });
    return { key, stored };
  }

  /** In order of creation, the revoked and expired ones as well; only of one project if it is named. */
  list(project?: string): readonly StoredKey[] {
    const keys = answering("cannot read the keys", () => this.#table.all());
    return project === undefined ? keys : keys.filter((key) => key.project === project);
  }

  /** From now on in this process, and within half a second in others. A repeat is not an error. Throws `not_found`. */
  revoke(id: string): StoredKey {
    return this.#write("revoke a key", () => {
      const found = this.#table.all().find((key) => key.id === id);
      if (found === undefined) throw new PerigeeError("not_found", `there is no key ${JSON.stringify(id)}`);
      if (found.revokedWallMs !== undefined) return found;
      const revokedWallMs = this.#clock.wallMs();
      this.#table.revoke(found, revokedWallMs);
      return { ...found, revokedWallMs };
    });
  }

  /** The project and rights of an active key, and notes that it was used today. Anything else is undefined alike. */
  accept(text: string): StoredKey | undefined {
    const hash = hashApiKey(text);
    if (hash === undefined) return undefined;
    const nowMs = this.#clock.nowMs();
    let found = nowMs - this.#lookedMs < LOOK_AGAIN_MS ? this.#held.byHash(hash) : undefined;
    if (found === undefined) {
      this.#look(nowMs);
      found = this.#held.byHash(hash);
    }
    if (found === undefined) return undefined;
    this.#noteUse(found);
    return found;
  }

  /** The key of an id while it is active, as new as `accept` knows it. Its use is not noted. */
  active(id: string): StoredKey | undefined {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#lookedMs >= LOOK_AGAIN_MS || !this.#held.has(id)) this.#look(nowMs);
    return this.#held.active(id);
  }

  /** Writes the days of last use that are left. */
  close(): void {
    this.#writeUses();
    this.#table.close();
  }

  #look(nowMs: number): void {
    const changed = answering("cannot read the keys", () => this.#table.changed());
    if (changed !== undefined) this.#held.load(changed);
    this.#lookedMs = nowMs;
  }

  #write<T>(doing: string, work: () => T): T {
    return answering(`cannot ${doing}`, () => {
      const result = this.#table.write(work);
      this.#held.load(this.#table.all());
      return result;
    });
  }

  #noteUse(key: StoredKey): void {
    this.#held.noteUse(key);
    if (this.#held.uses.size > 0 && this.#clock.nowMs() - this.#usesWrittenMs >= WRITE_USES_MS)
      this.#writeUses();
  }

  /** Never waits and never fails: what could not be written is tried again later. */
  #writeUses(): void {
    this.#usesWrittenMs = this.#clock.nowMs();
    if (this.#held.uses.size === 0) return;
    try {
      this.#table.write(() => {
        for (const [id, day] of this.#held.uses) this.#table.use(id, day);
      }, false);
      this.#held.load(this.#table.all());
      this.#held.uses.clear();
    } catch {
      // The day of last use is for people who tidy up keys; no request may fail for it.
    }
  }
}

/** Turns errors of SQLite and of the file system into those with the store's codes. */
function answering<T>(doing: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw storeFailure(error, isBusy(error) ? `${doing}: another process is writing them` : doing);
  }
}
