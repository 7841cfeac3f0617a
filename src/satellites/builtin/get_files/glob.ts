/**
 * Patterns of paths: `*` and `?` within a name, `**` for any folders, `[a-z]`, `[!a]`, `{pdf,docx}`, and `\` before a sign that
 * means itself. Names that begin with a dot are like others.
 *
 * Matching takes steps of path length x pattern length at most. Packages that translate patterns to regular expressions
 * (picomatch) take the length to the power of the stars: `*a*a*a*a*a*b` on a name of 255 letters never ends, and both come
 * from users. The tests compare with picomatch.
 *
 * Limits: 512 characters, 64 alternatives once braces are written out.
 */

/** Whether a path, without a slash before it, is meant. */
export type Matches = (path: string) => boolean;

const PATTERN_LENGTH_MAX = 512;
const ALTERNATIVES_MAX = 64;

/** Undefined for an invalid pattern. */
export function parseGlob(pattern: string): Matches | undefined {
  if (pattern === "" || pattern.length > PATTERN_LENGTH_MAX) return undefined;
  const alternatives = expand(pattern);
  if (alternatives === undefined) return undefined;
  const parsed = alternatives.map(parsePath);
  if (parsed.includes(undefined)) return undefined;
  const paths = parsed as Segment[][]; // every one is defined
  return (path) => {
    const names = path.split("/").map((name) => [...name]);
    return paths.some((segments) => hasMatch(segments, names));
  };
}

/** Undefined: any number of folders. */
type Segment = readonly Token[] | undefined;
type Token = { readonly star: true } | { readonly star: false; readonly fits: (sign: string) => boolean };

/** Writes braces out; undefined for ones that do not close, and for too many. */
function expand(pattern: string): string[] | undefined {
  const open = findBrace(pattern);
  if (open === -1) return [pattern];
  const parts: string[] = [];
  let depth = 0;
  let start = open + 1;
  for (let index = open; index < pattern.length; index += 1) {
    const sign = pattern[index];
    if (sign === "\\") index += 1;
    else if (sign === "{") depth += 1;
    else if (sign === "," && depth === 1) {
      parts.push(pattern.slice(start, index));
      start = index + 1;
    } else if (sign === "}") {
      depth -= 1;
      if (depth > 0) continue;
      parts.push(pattern.slice(start, index));
      return expandEach(pattern.slice(0, open), parts, pattern.slice(index + 1));
    }
  }
  return undefined;
}

function expandEach(before: string, parts: readonly string[], after: string): string[] | undefined {
  const all: string[] = [];
  for (const part of parts) {
    const written = expand(`${before}${part}${after}`);
    if (written === undefined || all.length + written.length > ALTERNATIVES_MAX) return undefined;
    all.push(...written);
  }
  return all;
}

function findBrace(pattern: string): number {
  for (let index = 0; index < pattern.length; index += 1) {
    if (pattern[index] === "\\") index += 1;
    else if (pattern[index] === "{") return index;
  }
  return -1;
}

function parsePath(pattern: string): Segment[] | undefined {
  const segments: Segment[] = [];
  for (const text of pattern.split("/")) {
    const tokens = text === "**" ? undefined : parseName(text);
    if (text !== "**" && tokens === undefined) return undefined;
    segments.push(tokens);
  }
  return segments;
}

function parseName(text: string): Token[] | undefined {
  const signs = [...text];
  const tokens: Token[] = [];
  for (let index = 0; index < signs.length; index += 1) {
    const sign = signs[index] ?? "";
    if (sign === "*") {
      if (tokens.at(-1)?.star !== true) tokens.push({ star: true });
    } else if (sign === "?") tokens.push({ star: false, fits: () => true });
    else if (sign === "[") {
      const end = signs.indexOf("]", index + 2);
      if (end === -1) return undefined;
      tokens.push({ star: false, fits: classOf(signs.slice(index + 1, end)) });
      index = end;
    } else {
      if (sign === "\\") index += 1;
      const meant = signs[index];
      if (meant === undefined) return undefined;
      tokens.push({ star: false, fits: (given) => given === meant });
    }
  }
  return tokens;
}

function classOf(signs: readonly string[]): (sign: string) => boolean {
  const isNegated = signs[0] === "!" || signs[0] === "^";
  const ranges: (readonly [number, number])[] = [];
  for (let index = isNegated ? 1 : 0; index < signs.length; index += 1) {
    const from = signs[index]?.codePointAt(0) ?? 0;
    const isRange = signs[index + 1] === "-" && index + 2 < signs.length;
    ranges.push([from, isRange ? (signs[index + 2]?.codePointAt(0) ?? 0) : from]);
    if (isRange) index += 2;
  }
  return (sign) => {
    const point = sign.codePointAt(0) ?? 0;
    return ranges.some(([from, to]) => from <= point && point <= to) !== isNegated;
  };
}

/** Whether the names match from the first to the last: the search returns only to the last `**`. */
function hasMatch(segments: readonly Segment[], names: readonly (readonly string[])[]): boolean {
  return hasRun(
    segments.map((segment) => ({ isAny: segment === undefined, segment })),
    names,
    ({ segment }, name) => hasRun((segment ?? []).map(tokenStep), name, fits),
  );
}

interface Step {
  /** Matches any number of the others, also 0. */
  readonly isAny: boolean;
}

const tokenStep = (token: Token): Step & { readonly token: Token } => ({ isAny: token.star, token });
const fits = ({ token }: { readonly token: Token }, sign: string): boolean => !token.star && token.fits(sign);

function hasRun<S extends Step, T>(
  steps: readonly S[],
  given: readonly T[],
  fits: (step: S, one: T) => boolean,
): boolean {
  let step = 0;
  let at = 0;
  let anyStep = -1;
  let anyAt = 0;
  while (at < given.length) {
    const current = steps[step];
    if (current?.isAny === true) {
      anyStep = step;
      anyAt = at;
      step += 1;
    } else if (current !== undefined && fits(current, given[at] as T)) {
      step += 1;
      at += 1;
    } else if (anyStep >= 0) {
      anyAt += 1;
      at = anyAt;
      step = anyStep + 1;
    } else return false;
  }
  return steps.slice(step).every(({ isAny }) => isAny);
}
