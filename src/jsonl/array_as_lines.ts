/**
 * An array as lines: its elements, one a line, line n being element n.
 */
import { arrayLines } from "./array.ts";
import { LINE_BYTES_MAX } from "./read.ts";
import { DEPTH_MAX } from "./record.ts";

/** Lines that fail as the element would: its text was not kept. */
const REFUSED_ELEMENTS = {
  line_too_long: () => JSON.stringify("x".repeat(LINE_BYTES_MAX)),
  too_deep: () => "[".repeat(DEPTH_MAX + 1) + "]".repeat(DEPTH_MAX + 1),
} as const;

/** Yields the elements as soon as they have arrived. Throws `invalid_array`; errors of `chunks` pass through. */
export async function* arrayAsLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const elements of arrayLines(chunks)) {
    let text = "";
    for (const element of elements)
      text += `${element.kind === "line" ? element.text : REFUSED_ELEMENTS[element.code]()}\n`;
    yield Buffer.from(text);
  }
}
