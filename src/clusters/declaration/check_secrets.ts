/**
 * Secrets that are named where they are not filled in: the text would be passed on as it is written (`secret_fields.ts`).
 */

import type { ResolvedSatellite } from "../../satellites/sdk/catalogue.ts";
import { isExpanded } from "../../satellites/secrets/secret_fields.ts";
import { pointerOf } from "../../satellites/secrets/secret_texts.ts";
import { isObject, type Json } from "../../work/json.ts";
import { namesSecret } from "./fill.ts";
import type { Issues, Path } from "./issues.ts";
import { type DeclaredMember, MEMBERS } from "./shape.ts";
import { partsOf } from "./template.ts";

const WARNING =
  "the secret is not inserted here, its reference is passed on as text: references are replaced only in config, and in input fields that the satellite's schema marks with x-secret";

/** Adds a warning for each text of the member that names a secret in vain. */
export function warnOfPlainSecrets(
  { index, input, config }: DeclaredMember,
  { satellite }: ResolvedSatellite,
  issues: Issues,
): void {
  const member: Path = [...MEMBERS, index];
  for (const place of secretPlaces({ input, config }))
    if (!isExpanded(satellite, pointerOf(place))) issues.warn([...member, ...place], WARNING);
}

function* secretPlaces(value: Json, place: Path = []): Generator<Path, void, undefined> {
  if (typeof value === "string") {
    const parts = partsOf(value);
    if (!("fault" in parts) && namesSecret(parts)) yield place;
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* secretPlaces(item, [...place, index]);
  } else if (isObject(value)) {
    for (const [name, member] of Object.entries(value)) yield* secretPlaces(member, [...place, name]);
  }
}
