/**
 * The classes of a source file and their fields, read from its text without comments and literals. Fields are counted where
 * one line has the name and its type or value: `readonly #a: Map<string, number>`, `b = 1`.
 */

/** A class of a file, and how many fields it has. */
export interface ClassFields {
  readonly name: string;
  readonly fields: number;
}

/** Above it, a class is named in docs/decisions/0027-large-classes.md with its reason. */
export const FIELDS_MAX = 10;

/** `code`: what `codeOf` returns. */
export function classesIn(code: string): ClassFields[] {
  return [...code.matchAll(/^(?:export )?(?:abstract )?class (\w+)[^{]*\{/gm)].map((match) => {
    const body = blockAt(code, match.index + match[0].length - 1);
    const field = /^\s*(?:declare )?(?:readonly )?(?:#\w+|\w+)[?!]?(?:: [^(]*| = .*|;)/;
    return { name: match[1] ?? "", fields: membersOf(body, field) };
  });
}

/** Lines of a block at its own level that are members of a kind. */
export function membersOf(block: string, member: RegExp): number {
  let depth = 0;
  let count = 0;
  for (const line of block.split("\n")) {
    if (depth === 0 && member.test(line)) count += 1;
    for (const sign of line) {
      if ("{([".includes(sign)) depth += 1;
      else if ("})]".includes(sign)) depth -= 1;
    }
  }
  return count;
}

/** The inside of the braces that open at an index. */
export function blockAt(code: string, open: number): string {
  let depth = 0;
  for (let at = open; at < code.length; at += 1) {
    if (code[at] === "{") depth += 1;
    else if (code[at] === "}" && --depth === 0) return code.slice(open + 1, at);
  }
  return code.slice(open + 1);
}

/** Without comments and the insides of literals, whose braces and words are not code. */
export function codeOf(text: string): string {
  const blank = (found: string): string => found.replace(/[^\n]/g, " ");
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\[\s\S])*`/g, blank);
}
