/**
 * The content of one file of `MemoryDisk`: what readers see, what a power cut would keep, and the changes in between.
 */

/** One change of a file's content. A change owns its bytes. */
export type Change =
  | { readonly kind: "write"; readonly position: number; readonly bytes: Uint8Array }
  | { readonly kind: "truncate"; readonly sizeBytes: number };

interface PendingChange {
  readonly change: Change;
  /** True once a sync failed over it: no later sync makes it durable. */
  isLost: boolean;
}

export class MemoryFile {
  readonly inode: number;
  modifiedMs: number;
  /** How often its content has changed, power cuts included. */
  changes = 0;
  #visible = new GrowingBytes();
  readonly #durable = new GrowingBytes();
  #pending: PendingChange[] = [];

  constructor(inode: number, modifiedMs: number) {
    this.inode = inode;
    this.modifiedMs = modifiedMs;
  }

  get sizeBytes(): number {
    return this.#visible.sizeBytes;
  }

  content(): Uint8Array {
    return this.#visible.copy();
  }

  /** Bytes read; 0 at or after the end. */
  read(into: Uint8Array, position: number): number {
    return this.#visible.read(into, position);
  }

  change(change: Change, wallMs: number): void {
    this.#visible.apply(change);
    this.changes += 1;
    this.#pending.push({ change, isLost: false });
    this.modifiedMs = wallMs;
  }

  sync(): void {
    for (const { change, isLost } of this.#pending) if (!isLost) this.#durable.apply(change);
    this.#pending = this.#pending.filter((pending) => pending.isLost);
  }

  failSync(): void {
    for (const pending of this.#pending) pending.isLost = true;
  }

  /** What a power cut does: of each change that was not synced, all is kept, nothing, or the first part. */
  loseUnsynced(random: () => number): void {
    for (const { change, isLost } of this.#pending) {
      const fate = random();
      if (isLost || fate < 1 / 3) continue;
      const isTorn = fate < 2 / 3 && change.kind === "write";
      this.#durable.apply(
        isTorn
          ? { ...change, bytes: change.bytes.subarray(0, Math.floor(random() * change.bytes.byteLength)) }
          : change,
      );
    }
    this.#pending = [];
    this.#visible = this.#durable.clone();
    this.changes += 1;
  }
}

/** The size of a file of this size after a change. */
export function sizeAfter(sizeBytes: number, change: Change): number {
  if (change.kind === "truncate") return change.sizeBytes;
  return change.bytes.byteLength === 0
    ? sizeBytes
    : Math.max(sizeBytes, change.position + change.bytes.byteLength);
}

/** Bytes whose room doubles when it runs out; holes read as zeros. */
class GrowingBytes {
  #bytes = new Uint8Array(64);
  sizeBytes = 0;

  apply(change: Change): void {
    const sizeBytes = sizeAfter(this.sizeBytes, change);
    if (sizeBytes > this.#bytes.byteLength) {
      const larger = new Uint8Array(Math.max(sizeBytes, this.#bytes.byteLength * 2));
      larger.set(this.#bytes.subarray(0, this.sizeBytes));
      this.#bytes = larger;
    }
    if (sizeBytes < this.sizeBytes) this.#bytes.fill(0, sizeBytes, this.sizeBytes);
    if (change.kind === "write" && change.bytes.byteLength > 0)
      this.#bytes.set(change.bytes, change.position);
    this.sizeBytes = sizeBytes;
  }

  read(into: Uint8Array, position: number): number {
    const found = this.#bytes.subarray(
      Math.min(position, this.sizeBytes),
      Math.min(position + into.byteLength, this.sizeBytes),
    );
    into.set(found);
    return found.byteLength;
  }

  copy(): Uint8Array {
    return this.#bytes.slice(0, this.sizeBytes);
  }

  clone(): GrowingBytes {
    const clone = new GrowingBytes();
    clone.apply({ kind: "write", position: 0, bytes: this.copy() });
    return clone;
  }
}
