/**
 * What is said of a provider that nobody has configured: one text for lines that are refused, items that are held, and
 * commands that end for it.
 */
import { nearest } from "../nearest.ts";
import { providerCapitals } from "./provider_capitals.ts";

/** What a configured provider may be called. */
const PROVIDER_NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
/** Characters of the name that are shown at most. */
const SHOWN_CHARS_MAX = 40;

/**
 * `provider "opnai" is not configured (line 12); did you mean "openai"?`, or which variable makes it known when no
 * configured name is near. `line` is of the input, from 1; absent if the message is shown with it.
 */
export function unknownProviderMessage(name: string, configured: Iterable<string>, line?: number): string {
  const place = line === undefined ? "" : ` (line ${line})`;
  const shown = name.length <= SHOWN_CHARS_MAX ? name : `${name.slice(0, SHOWN_CHARS_MAX)}...`;
  return `provider ${JSON.stringify(shown)} is not configured${place}; ${wayOn(name, configured)}`;
}

function wayOn(name: string, configured: Iterable<string>): string {
  const near = nearest(name, configured);
  if (near !== undefined) return `did you mean "${near}"?`;
  if (!PROVIDER_NAME.test(name)) return 'expected "<provider>:<name>" with the name of a configured provider';
  const variable = `PERIGEE_PROVIDER_${providerCapitals(name)}_BASE_URL`;
  return `set ${variable}, or providers.${name}.baseUrl in the configuration`;
}
