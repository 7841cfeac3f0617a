/**
 * Bytes of segments that stay in memory after they were stored, those written last: most are read again soon, by who follows an output and
 * when they are gathered. 16 MiB for all files of a disk.
 */
import type { FileLayer } from "./file_extents.ts";

const KEPT_BYTES_MAX = 16 << 20;

export class KeptBytes {
  /** The oldest first. */
  readonly #layers: FileLayer[] = [];
  #bytes = 0;

  /** Its bytes are stored: they may go from memory. */
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
