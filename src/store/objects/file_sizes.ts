/** The limits, in bytes unless it says rows, that decide whether parts of a file are stored as rows or as objects. */
export interface FileSizes {
  /** The most bytes of a row. */
  readonly row: number;
  /** Bytes that were written end to end become objects from this many on; a smaller rest becomes rows. */
  readonly largeMin: number;
  /** The most bytes of an object. As many unwritten bytes of a file are written down without a sync. */
  readonly object: number;
  /** The rows of a file are gathered when they have this many bytes, or when there are `gatheredRows`. */
  readonly gathered: number;
  readonly gatheredRows: number;
  /** Rows that lie end to end become an object when they have this many bytes, or are a quarter of `gatheredRows`; smaller runs stay rows. */
  readonly runMin: number;
}

/** The defaults. */
export const FILE_SIZES: FileSizes = {
  row: 256 << 10,
  largeMin: 4 << 20,
  object: 8 << 20,
  gathered: 8 << 20,
  gatheredRows: 1_024,
  runMin: 1 << 20,
};
