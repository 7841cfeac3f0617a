/**
 * Which layer shows at each byte of a file: later layers hide earlier ones. Only what shows is kept.
 *
 * Hot: an append adds to the end of an array; a read finds its place by binary search.
 */

/** Bytes of a file that were written or gathered together; once stored, a segment. */
export interface FileLayer {
  /** The sequence of its segment; undefined until it is written down. */
  sequence: number | undefined;
  /** Its first byte in the file. */
  readonly start: number;
  readonly storedBytes: number;
  /** Checksums of its stored bytes; empty until it is written down. */
  sums: Uint8Array;
  /** The object that holds its bytes; undefined: they are in its row, or not stored yet. */
  object: string | undefined;
  /** Its bytes while they are in memory. */
  bytes: Uint8Array | undefined;
  /** How many of its bytes show. */
  shownBytes: number;
}

/** A range of a file, from `start` up to `end`, and the layer that shows there. */
export interface Extent {
  readonly start: number;
  readonly end: number;
  readonly layer: FileLayer;
}

export class FileExtents {
  /** In order, without overlaps. */
  readonly #extents: Extent[] = [];

  /**
   * Shows a layer from `start` to `end`, except where another one shows that it does not `replace`. Returns the layers of which nothing shows
   * any more, each once.
   */
  put(
    start: number,
    end: number,
    layer: FileLayer,
    replaces: (other: FileLayer) => boolean = () => true,
  ): FileLayer[] {
    const first = this.#endingAfter(start);
    const pieces: Extent[] = [];
    const hidden = new Set<FileLayer>();
    let at = start;
    let last = first;
    let tail: Extent | undefined;
    for (
      let other = this.#extents[last];
      other !== undefined && other.start < end;
      other = this.#extents[last]
    ) {
      last += 1;
      if (other.start < start) pieces.push({ ...other, end: start });
      if (other.end > end) tail = { ...other, start: end };
      const from = Math.max(other.start, start);
      const to = Math.min(other.end, end);
      if (replaces(other.layer)) {
        other.layer.shownBytes -= to - from;
        hidden.add(other.layer);
        continue;
      }
      if (at < from) pieces.push({ start: at, end: from, layer });
      pieces.push({ start: from, end: to, layer: other.layer });
      at = to;
    }
    if (at < end) pieces.push({ start: at, end, layer });
    for (const piece of pieces) if (piece.layer === layer) layer.shownBytes += piece.end - piece.start;
    this.#extents.splice(first, last - first, ...pieces, ...(tail === undefined ? [] : [tail]));
    return [...hidden].filter(({ shownBytes }) => shownBytes === 0);
  }

  /** Removes what shows from `size` on. Returns as `put` does. */
  cut(size: number): FileLayer[] {
    const first = this.#endingAfter(size);
    const hidden = new Set<FileLayer>();
    for (const { start, end, layer } of this.#extents.splice(first)) {
      layer.shownBytes -= end - Math.max(start, size);
      hidden.add(layer);
      if (start < size) this.#extents.push({ start, end: size, layer });
    }
    return [...hidden].filter(({ shownBytes }) => shownBytes === 0);
  }

  /** The extents that overlap `start` to `end`, in order. The first and the last one may reach beyond it. */
  within(start: number, end: number): Extent[] {
    const found: Extent[] = [];
    for (let index = this.#endingAfter(start); ; index += 1) {
      const extent = this.#extents[index];
      if (extent === undefined || extent.start >= end) return found;
      found.push(extent);
    }
  }

  /** All extents, in order. */
  get all(): readonly Extent[] {
    return this.#extents;
  }

  /** Index of the first extent that ends after `place`. */
  #endingAfter(place: number): number {
    let low = 0;
    let high = this.#extents.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#extents[middle]?.end ?? 0) > place) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
