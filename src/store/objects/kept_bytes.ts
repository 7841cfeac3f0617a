/**
 * Bytes of the segments that were stored last stay in memory: most are read again soon, by readers that follow an output and by gathering.
 * Limit: 16 MiB for all files of a disk.
 */
import type { FileLayer } from "./file_extents.ts";

const KEPT_BYTES_MAX = 16 << 20;

export class KeptBytes {
  /** The oldest first. */
  readonly #layers: FileLayer[] = [];
  #bytes = 0;

  /** Keeps the bytes of a layer that was stored, and drops those of the oldest layers beyond the limit. */
  add(layer: FileLayer): void {
    this.#layers.push(layer);
    this.#bytes += layer.storedBytes;
    while (this.#bytes > KEPT_BYTES_MAX) {
      const oldest = this.#layers.shift();
      if (oldest === undefined) return;
      this.#bytes -= oldest.storedBytes;
      oldest.bytes = undefined;
    }
  }
}
