/**
 * Keys in memory: found by their hash and by their id, and the days of last use that are not written yet.
 */
import { timingSafeEqual } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { StoredKey } from "./key_table.ts";

const DAY_MS = 86_400_000;

export class HeldKeys {
  readonly #clock: Pick<Clock, "wallMs">;
  /** By their hash in hexadecimal. */
  #keys = new Map<string, StoredKey>();
  #byId = new Map<string, StoredKey>();
  /** Days of last use that are not written yet, by id. */
  readonly uses: Map<string, number> = new Map<string, number>();

  constructor(clock: Pick<Clock, "wallMs">) {
    this.#clock = clock;
  }

  /** Replaces all keys. */
  load(keys: readonly StoredKey[]): void {
    this.#keys = new Map(keys.map((key) => [Buffer.from(key.hash).toString("hex"), key]));
    this.#byId = new Map(keys.map((key) => [key.id, key]));
  }

  has(id: string): boolean {
    return this.#byId.has(id);
  }

  /** While it is active. */
  active(id: string): StoredKey | undefined {
    const found = this.#byId.get(id);
    return found !== undefined && this.isActive(found) ? found : undefined;
  }

  /** While it is active. `hash` in hexadecimal. */
  byHash(hash: string): StoredKey | undefined {
    const found = this.#keys.get(hash);
    const isEqual = found !== undefined && timingSafeEqual(found.hash, Buffer.from(hash, "hex"));
    return isEqual && this.isActive(found) ? found : undefined;
  }

  /** Neither revoked nor expired, by the wall clock. */
  isActive(key: StoredKey): boolean {
    return (
      key.revokedWallMs === undefined &&
      (key.expiresWallMs ?? Number.POSITIVE_INFINITY) > this.#clock.wallMs()
    );
  }

  /** It was used today. */
  noteUse(key: StoredKey): void {
    const day = Math.floor(this.#clock.wallMs() / DAY_MS);
    if (key.lastUsedDay !== day) this.uses.set(key.id, day);
  }
}
