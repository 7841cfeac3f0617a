/**
 * Texts cut to what a receiver takes, with a mark where they were cut; never within a character or an escape.
 */

const MARK = " … (cut)";

/** At most `lengthMax` UTF-16 units after `encode`, which sees one character at a time. `lengthMax` is at least 16. */
export function cutText(
  text: string,
  lengthMax: number,
  encode: (character: string) => string = (character) => character,
): string {
  let whole = "";
  let kept = "";
  for (const character of text) {
    const next = encode(character);
    if (whole.length + next.length <= lengthMax - MARK.length) kept = whole + next;
    whole += next;
    if (whole.length > lengthMax) return `${kept}${MARK}`;
  }
  return whole;
}

/** At most `bytesMax` bytes of UTF-8, at least 32. */
export function cutBytes(text: string, bytesMax: number): string {
  if (text.length * 3 <= bytesMax || Buffer.byteLength(text) <= bytesMax) return text;
  const kept = Buffer.from(text).subarray(0, bytesMax - Buffer.byteLength(MARK));
  // A stream's decoder keeps the half of a character to itself.
  return `${new TextDecoder().decode(kept, { stream: true })}${MARK}`;
}
