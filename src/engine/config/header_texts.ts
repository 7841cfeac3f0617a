/**
 * Keys and headers of a configuration, as HTTP can carry them: white space around them (the newline of a file) is left
 * out, and what holds another character is refused at the start, because no request with it could ever be sent.
 */
import { PerigeeError } from "../../errors.ts";

/** A text and the variable or setting that it was read from. */
export interface GivenText {
  readonly place: string;
  readonly text: string | undefined;
}

/** A key is of visible ASCII; a header's value may have what RFC 9110 (5.5) calls obs-text, and tabs. */
const NO_KEY = /[^\x20-\x7e]/u;
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/u;

/** The first that is set and not blank. Throws `invalid_config` naming its place, never the key. */
export function keyText(given: readonly GivenText[]): string | undefined {
  for (const { place, text } of given) {
    const key = text?.trim() ?? "";
    if (key !== "") return checked(key, place, NO_KEY);
  }
  return undefined;
}

/** A header's value. Throws `invalid_config` naming its place. */
export function headerText(value: string, place: string): string {
  return checked(value.trim(), place, NO_VALUE);
}

function checked(text: string, place: string, refused: RegExp): string {
  const index = text.search(refused);
  if (index < 0) return text;
  const code = (text.codePointAt(index) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  throw new PerigeeError(
    "invalid_config",
    `${place}: character ${index + 1} is U+${code}, which an HTTP header cannot carry; copy it again`,
  );
}
