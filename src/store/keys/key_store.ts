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
import { timingSafeEqual } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { openPrivately } from "../folder/data_dir.ts";
import { loadSqlite } from "../sqlite_database.ts";
import { isBusy, storeFailure } from "../sqlite_failure.ts";
import { hashApiKey, makeApiKey, randomBase62, shownPartOf } from "./api_key.ts";
import { KeyTable, type StoredKey } from "./key_table.ts";

/** How long a change by another process may go unseen. */
const LOOK_AGAIN_MS = 500;
/** How long days of last use are gathered before they are written. */
const WRITE_USES_MS = 600_000;
const ACTIVE_KEYS_MAX = 2;
const DAY_MS = 86_400_000;
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
  /** All keys, by their hash in hexadecimal. */
  #keys = new Map<string, StoredKey>();
  #byId = new Map<string, StoredKey>();
  #lookedMs: number;
  /** Days of last use that are not written yet, by id. */
  readonly #uses = new Map<string, number>();
  #usesWrittenMs: number;

  constructor(table: KeyTable, clock: Clock) {
    this.#table = table;
    this.#clock = clock;
    this.#lookedMs = clock.nowMs();
    this.#usesWrittenMs = clock.nowMs();
    this.#load(table.all());
  }

  /**
   * Makes a key, durable when it returns; `key` is known from nowhere else afterwards. Throws `usage` for a project or
   * name of another form, `conflict` when there are two active keys of that name.
   */
  create(wanted: NewKey): { readonly key: string; readonly stored: StoredKey } {
    checkName("project", wanted.project, PROJECT);
    if (wanted.project === VENDOR)
      throw new PerigeeError(
        "usage",
        `project ${VENDOR} is reserved: it is the namespace of perigee's satellites`,
      );
    checkName("name", wanted.name, NAME);
    const key = makeApiKey();
    const hash = hashApiKey(key);
    if (hash === undefined)
      throw new PerigeeError("internal_error", "a new key does not have the form of a key");
    const { project, name, isBeta, expiresWallMs } = wanted;
    const stored: StoredKey = {
      ...{
        id: `key_${randomBase62(16)}`,
        hash,
        shown: shownPartOf(key),
        project,
        name,
        isBeta,
        expiresWallMs,
      },
      scopes: [...wanted.scopes],
      createdWallMs: this.#clock.wallMs(),
      revokedWallMs: undefined,
      lastUsedDay: undefined,
    };
    this.#write("create a key", () => {
      const alike = this.#table.all().filter((other) => other.project === project && other.name === name);
      if (alike.filter((other) => this.#isActive(other)).length >= ACTIVE_KEYS_MAX)
        throw new PerigeeError(
          "conflict",
          `project ${project} has ${ACTIVE_KEYS_MAX} active keys named ${name}: revoke one, or choose another name`,
        );
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
    let found = nowMs - this.#lookedMs < LOOK_AGAIN_MS ? this.#activeKey(hash) : undefined;
    if (found === undefined) {
      this.#look(nowMs);
      found = this.#activeKey(hash);
    }
    if (found === undefined) return undefined;
    this.#noteUse(found);
    return found;
  }

  /** The key of an id while it is active, as new as `accept` knows it. Its use is not noted. */
  active(id: string): StoredKey | undefined {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#lookedMs >= LOOK_AGAIN_MS || !this.#byId.has(id)) this.#look(nowMs);
    const found = this.#byId.get(id);
    return found !== undefined && this.#isActive(found) ? found : undefined;
  }

  /** Writes the days of last use that are left. */
  close(): void {
    this.#writeUses();
    this.#table.close();
  }

  #isActive(key: StoredKey): boolean {
    return (
      key.revokedWallMs === undefined &&
      (key.expiresWallMs ?? Number.POSITIVE_INFINITY) > this.#clock.wallMs()
    );
  }

  #activeKey(hash: Uint8Array): StoredKey | undefined {
    const found = this.#keys.get(Buffer.from(hash).toString("hex"));
    const isEqual = timingSafeEqual(found?.hash ?? new Uint8Array(hash.byteLength), hash);
    return found !== undefined && isEqual && this.#isActive(found) ? found : undefined;
  }

  #look(nowMs: number): void {
    const changed = answering("cannot read the keys", () => this.#table.changed());
    if (changed !== undefined) this.#load(changed);
    this.#lookedMs = nowMs;
  }

  #load(keys: readonly StoredKey[]): void {
    this.#keys = new Map(keys.map((key) => [Buffer.from(key.hash).toString("hex"), key]));
    this.#byId = new Map(keys.map((key) => [key.id, key]));
  }

  #write<T>(doing: string, work: () => T): T {
    return answering(`cannot ${doing}`, () => {
      const result = this.#table.write(work);
      this.#load(this.#table.all());
      return result;
    });
  }

  #noteUse(key: StoredKey): void {
    const day = Math.floor(this.#clock.wallMs() / DAY_MS);
    if (key.lastUsedDay !== day) this.#uses.set(key.id, day);
    if (this.#uses.size > 0 && this.#clock.nowMs() - this.#usesWrittenMs >= WRITE_USES_MS) this.#writeUses();
  }

  /** Never waits and never fails: what could not be written is tried again later. */
  #writeUses(): void {
    this.#usesWrittenMs = this.#clock.nowMs();
    if (this.#uses.size === 0) return;
    try {
      this.#table.write(() => {
        for (const [id, day] of this.#uses) this.#table.use(id, day);
      }, false);
      this.#load(this.#table.all());
      this.#uses.clear();
    } catch {
      // The day of last use is for people who tidy up keys; no request may fail for it.
    }
  }
}

function checkName(what: string, given: string, form: RegExp): void {
  if (form.test(given)) return;
  throw new PerigeeError("usage", `${what} must match ${form.source}, got ${JSON.stringify(given)}`);
}

/** Turns errors of SQLite and of the file system into those with the store's codes. */
function answering<T>(doing: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw storeFailure(error, isBusy(error) ? `${doing}: another process is writing them` : doing);
  }
}
