/**
 * How much of a table is read at once: a page ends with the first row that reaches either bound.
 */

const PAGE_BYTES_MAX = 1 << 20;
export const PAGE_ROWS_MAX = 256;

/** How many of these rows fit a page; one that is larger than a page makes a page of its own. */
export function countWithin(rows: readonly { readonly size: number }[]): number {
  let bytes = 0;
  let count = 0;
  for (const { size } of rows) {
    if (count === PAGE_ROWS_MAX || (count > 0 && bytes + size > PAGE_BYTES_MAX)) break;
    bytes += size;
    count += 1;
  }
  return count;
}
