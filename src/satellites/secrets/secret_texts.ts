/**
 * References to secrets in texts, `secret://name`: finds them and puts in their values.
 *
 * Places are JSON pointers (RFC 6901). Values are put in once: what they hold is not read again. Names of members are
 * no texts.
 */
import type { Json, JsonObject } from "../../work/json.ts";
import { NAME } from "../sdk/reference.ts";

/** What is read as a name; which of them are valid is checked when they are filled in. */
const REFERENCE = /secret:\/\/([A-Za-z0-9_-]*)/g;
const SCHEME = "secret://";

/** The texts with references, by pointer. */
export function secretPointers(root: Json): string[] {
  const found: string[] = [];
  const visit = (value: Json, path: readonly string[]): void => {
    if (typeof value === "string") {
      if (value.includes(SCHEME)) found.push(pointerOf(path));
    } else if (typeof value === "object" && value !== null) {
      for (const [name, member] of Object.entries(value) as [string, Json][]) visit(member, [...path, name]);
    }
  };
  visit(root, []);
  return found;
}

/** `/a/b~1c` of `["a", "b/c"]`. */
export function pointerOf(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** The text at a pointer; undefined when the value there is not a text. */
export function textAt(root: Json, pointer: string): string | undefined {
  const holder = holderOf(root, pointer);
  const text = holder?.members[holder.name];
  return typeof text === "string" ? text : undefined;
}

/** Names of the secrets in a text. */
export function secretNames(text: string): string[] {
  return Array.from(text.matchAll(REFERENCE), ([, name = ""]) => name);
}

/** Whether a secret can have the name. */
export function isSecretName(name: string): boolean {
  return NAME.test(name);
}

/** Puts values in the place of references, in `root` itself. `valueFor` must know each name. */
export function fillSecrets(
  root: Json,
  pointers: Iterable<string>,
  valueFor: (name: string) => string,
): void {
  for (const pointer of pointers) {
    const holder = holderOf(root, pointer);
    const text = holder?.members[holder.name];
    if (holder === undefined || typeof text !== "string") continue;
    holder.members[holder.name] = text.replace(REFERENCE, (_whole, name: string) => valueFor(name));
  }
}

interface Holder {
  readonly members: Record<string, Json>;
  readonly name: string;
}

/** Only through own members. */
function holderOf(root: Json, pointer: string): Holder | undefined {
  const names = pointer.split("/").slice(1).map(unescaped);
  const last = names.pop();
  if (!pointer.startsWith("/") || last === undefined) return undefined;
  let value: Json | undefined = root;
  for (const name of names) value = memberOf(value, name);
  if (memberOf(value, last) === undefined) return undefined;
  return { members: value as Record<string, Json>, name: last }; // it has a member
}

function memberOf(value: Json | undefined, name: string): Json | undefined {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as JsonObject)[name]; // arrays have their indexes as names
}

function unescaped(part: string): string {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}
