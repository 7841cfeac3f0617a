/**
 * The name that was meant, among those that are known: for messages about a name that is not.
 *
 *   distance = letters added, left out or changed, and neighbours swapped, each counted as one (optimal string alignment)
 */

/** The most names to show if none is near. */
const LISTED_MAX = 12;
/** The shortest prefix, in letters, that counts as the name. */
const BEGUN_CHARS_MIN = 4;

/** Undefined when none is near: at most `lettersMax` letters differ, and fewer than half of them. */
export function nearest(name: string, known: Iterable<string>, lettersMax = 2): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.min(lettersMax + 1, Math.ceil(name.length / 2));
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= bestDistance) continue;
    const distance = distanceOf(name.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/**
 * What to do about a name that is not known, to follow a semicolon: the one that was meant, else those that there are
 * when they are few, else an empty text.
 */
export function suggestion(name: string, known: readonly string[]): string {
  const near = nearest(name, known) ?? begunBy(name, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length === 0 || known.length > LISTED_MAX ? "" : `expected ${oneOf(known)}`;
}

/** The name that is begun and not ended, such as `maxCost` of `maxCostUsd`. */
function begunBy(name: string, known: readonly string[]): string | undefined {
  if (name.length < BEGUN_CHARS_MIN) return undefined;
  return known.find((candidate) => candidate.toLowerCase().startsWith(name.toLowerCase()));
}

function oneOf(names: readonly string[]): string {
  return names.length === 1 ? `"${names[0]}"` : `one of ${names.join(", ")}`;
}

function distanceOf(one: string, other: string): number {
  let before: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 1; at <= one.length; at += 1) {
    const next = [at];
    for (let to = 1; to <= other.length; to += 1) {
      const isSame = one[at - 1] === other[to - 1];
      const isSwapped = one[at - 1] === other[to - 2] && one[at - 2] === other[to - 1];
      const changed = Math.min(
        (row[to] ?? 0) + 1,
        (next[to - 1] ?? 0) + 1,
        (row[to - 1] ?? 0) + (isSame ? 0 : 1),
      );
      next.push(at > 1 && to > 1 && isSwapped ? Math.min(changed, (before[to - 2] ?? 0) + 1) : changed);
    }
    before = row;
    row = next;
  }
  return row[other.length] ?? 0;
}
