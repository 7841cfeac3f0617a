/**
 * Who waits for whom: members by what they refer to, by `needs`, and by `if`.
 *
 * A member that runs on failure or always, and names nobody, waits for all that run on success and wait for
 * none of this sort: an alert at the end of a list needs no list of names.
 */

import { nearest } from "../../nearest.ts";
import type { Issues, Path } from "./issues.ts";
import { type Declaration, type DeclaredMember, MEMBERS } from "./shape.ts";
import { referencesOf } from "./template.ts";

/** Roots of references that are not identifiers. */
const ROOTS: readonly string[] = ["input", "secrets", "each", "cluster"];

/** Whom each member waits for, by references and by `needs`. */
export interface Graph {
  /** By identifier: whom it waits for, each once, in the order of the declaration. */
  readonly needs: ReadonlyMap<string, readonly string[]>;
}

/** Adds issues for names that are not members and for a circle; the graph is usable only without issues. */
export function graphOf(declaration: Declaration, issues: Issues): Graph {
  const { members } = declaration;
  const places = new Map(members.map(({ identifier, index }) => [identifier, index]));
  const needs = new Map(members.map((member) => [member.identifier, namedBy(member, places, issues)]));
  const circle = circleIn(needs);
  if (circle !== undefined) {
    const first = places.get(circle[0] ?? "") ?? 0;
    issues.add([...MEMBERS, first, "identifier"], `waits for itself: ${circle.join(" -> ")}`);
  } else addImplied(members, needs);
  for (const [identifier, names] of needs)
    needs.set(
      identifier,
      [...new Set(names)].sort((one, two) => (places.get(one) ?? 0) - (places.get(two) ?? 0)),
    );
  return { needs };
}

function namedBy(
  member: DeclaredMember,
  places: ReadonlyMap<string, number>,
  issues: Issues,
): readonly string[] {
  const path: Path = [...MEMBERS, member.index];
  const names: string[] = [];
  const known = (name: string, at: Path): void => {
    if (places.has(name)) names.push(name);
    else issues.add(at, unknown(name, [...places.keys()]));
  };
  for (const [index, name] of member.needs.entries()) known(name, [...path, "needs", index]);
  for (const key of ["each", "input", "config"] as const) {
    const value = member[key];
    if (value === undefined) continue;
    for (const { path: at, reference } of referencesOf(value, [...path, key]))
      if (!ROOTS.includes(reference.root)) known(reference.root, at);
  }
  return names;
}

function unknown(name: string, known: readonly string[]): string {
  const near = nearest(name, [...known, ...ROOTS]);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return `no satellite has the identifier ${JSON.stringify(name.slice(0, 64))}${hint}`;
}

/** One circle, its first member at both ends. */
function circleIn(needs: ReadonlyMap<string, readonly string[]>): readonly string[] | undefined {
  const done = new Set<string>();
  for (const start of needs.keys()) {
    const trail: { readonly name: string; next: number }[] = [{ name: start, next: 0 }];
    const onTrail = new Set([start]);
    while (trail.length > 0) {
      const top = trail.at(-1) as { readonly name: string; next: number }; // not empty
      const next = done.has(top.name) ? undefined : needs.get(top.name)?.[top.next];
      top.next += 1;
      if (next === undefined) {
        done.add(top.name);
        onTrail.delete(top.name);
        trail.pop();
      } else if (onTrail.has(next)) {
        const names = trail.map(({ name }) => name);
        return [...names.slice(names.indexOf(next)), next];
      } else {
        trail.push({ name: next, next: 0 });
        onTrail.add(next);
      }
    }
  }
  return undefined;
}

function addImplied(members: readonly DeclaredMember[], needs: Map<string, readonly string[]>): void {
  const afterAll = members.filter(
    ({ identifier, condition }) => condition !== "success" && needs.get(identifier)?.length === 0,
  );
  const waitingFor = new Map<string, string[]>();
  for (const [identifier, names] of needs)
    for (const name of names) waitingFor.set(name, [...(waitingFor.get(name) ?? []), identifier]);
  const behind = reachable(
    afterAll.map(({ identifier }) => identifier),
    waitingFor,
  );
  const others = members
    .map(({ identifier }) => identifier)
    .filter((identifier, index) => members[index]?.condition === "success" && !behind.has(identifier));
  for (const { identifier } of afterAll) needs.set(identifier, others);
}

/** With those that it starts at. */
function reachable(
  starts: readonly string[],
  next: ReadonlyMap<string, readonly string[]>,
): ReadonlySet<string> {
  const seen = new Set(starts);
  for (const name of seen) for (const further of next.get(name) ?? []) seen.add(further);
  return seen;
}
