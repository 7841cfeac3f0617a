/**
 * Blocks: what a reader passes on. A block is a run of whole lines, with its place in the input.
 */

/** Whole lines. `bytes` owns its whole ArrayBuffer, so that it can be transferred to a thread. */
export interface Block {
  /** The lines with their line ends; the last one may lack it at the end of the input. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Byte offset of `bytes[0]` in the input. */
  readonly offset: number;
  /** Number of the first line in the block, from 1. */
  readonly firstLine: number;
  /** Lines in the block, blank ones included. */
  readonly lineCount: number;
}

/** A line that the reader refused without keeping it (`line_too_long`). */
export interface RefusedLine {
  readonly line: number;
  readonly offset: number;
  readonly lengthBytes: number;
}

/** What a reader yields, in the order of the input. */
export type ReaderEvent =
  | { readonly kind: "block"; readonly block: Block }
  | { readonly kind: "refused"; readonly refused: RefusedLine };

/** The last line that an event includes. */
export function lastLineOf(event: ReaderEvent): number {
  return event.kind === "block" ? event.block.firstLine + event.block.lineCount - 1 : event.refused.line;
}
