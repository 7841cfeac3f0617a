/** From how many bytes and rows on a file of a partition is stored in another way. */
export interface FileSizes {
  /** Of a row, at most. */
  readonly row: number;
  /** What is written end to end becomes an object from here on, and a smaller rest rows. */
  readonly largeMin: number;
  /** Of an object, at most; as many unwritten bytes are written down without a sync. */
  readonly object: number;
  /** Rows of a file are gathered when they have so many bytes, or are so many. */
  readonly gathered: number;
  readonly gatheredRows: number;
  /** Rows that lie end to end become an object when they have so many bytes, or are a quarter of `gatheredRows`; smaller runs stay. */
  readonly runMin: number;
}

/** Bytes; an object of 8 MiB is read and written in some tens of milliseconds. */
export const FILE_SIZES: FileSizes = {
  row: 256 << 10,
  largeMin: 4 << 20,
  object: 8 << 20,
  gathered: 8 << 20,
  gatheredRows: 1_024,
  runMin: 1 << 20,
};
