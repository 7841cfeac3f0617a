/**
 * Whether references are valid: their places, and the fields that they name.
 *
 * A text with a secret holds nothing that another member could write: a text beside it could name another secret.
 */
import { NAME } from "../../satellites/sdk/reference.ts";
import { isSecret, namesSecret } from "./fill.ts";
import type { Issues, Path } from "./issues.ts";
import { type DeclaredMember, MEMBERS } from "./shape.ts";
import { EVERY, type FoundText, type Part, type Reference, textsOf } from "./template.ts";

/** Fields of members that others may refer to. */
const FIELDS: readonly (string | number | symbol | undefined)[] = ["output", "error", "status"];

/** Adds an issue for each text that is wrong; whether the field exists is checked elsewhere (`check_fit.ts`). */
export function checkReferences(member: DeclaredMember, issues: Issues): void {
  const path: Path = [...MEMBERS, member.index];
  for (const key of ["each", "input", "config"] as const) {
    const value = member[key];
    if (value === undefined) continue;
    for (const found of textsOf(value, [...path, key])) {
      const fault = "fault" in found.parts ? found.parts.fault : faultOf(found.parts, member, key);
      if (fault !== undefined) issues.add(found.path, fault, isKey(found));
    }
  }
}

/** A text that is the name of a member of an object. */
function isKey({ path, text }: FoundText): boolean {
  return path.at(-1) === text;
}

function faultOf(parts: readonly Part[], member: DeclaredMember, key: string): string | undefined {
  if (namesSecret(parts)) {
    if (key === "each") return "each takes no secrets: refer to them in input or config";
    const fault = secretFault(parts);
    if (fault !== undefined) return fault;
  }
  for (const part of parts) {
    const fault = typeof part === "string" ? undefined : referenceFault(part, member, key);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** A name ends with its last letter, so a letter right after a reference would name another secret. */
function secretFault(parts: readonly Part[]): string | undefined {
  for (const [index, part] of parts.entries()) {
    if (typeof part === "string") continue;
    if (!isSecret(part))
      return `a text with a secret takes no other references: put ${part.text} in a separate field`;
    const next = parts[index + 1];
    if (typeof next === "string" && /^[A-Za-z0-9_-]/.test(next))
      return `${part.text} must not be followed by ${JSON.stringify(next.slice(0, 1))}`;
    if (next !== undefined && typeof next !== "string")
      return `${part.text} must not be followed by another reference`;
  }
  return undefined;
}

function referenceFault(reference: Reference, member: DeclaredMember, key: string): string | undefined {
  const { root, steps, text } = reference;
  const [field] = steps;
  switch (root) {
    case "input":
      return undefined;
    case "secrets":
      return steps.length === 1 && typeof field === "string" && NAME.test(field)
        ? undefined
        : `${text}: write secrets.name, of a-z, 0-9 and "-"`;
    case "each":
      if (member.each === undefined) return `${text}: this satellite has no each`;
      if (key === "each") return `${text}: each cannot refer to its own elements`;
      if (field === "index" ? steps.length === 1 : field === "item") return undefined;
      return `${text}: write each.item or each.index`;
    case "cluster":
      return steps.length === 1 && field === "id" ? undefined : `${text}: a cluster has only its id`;
    default:
      if (field === undefined || !FIELDS.includes(field) || field === EVERY)
        return `${text}: a satellite has output, error and status`;
      return field === "status" && steps.length > 1 ? `${text}: status is a text` : undefined;
  }
}
