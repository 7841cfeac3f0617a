import fc from "fast-check";
import picomatch from "picomatch";
import { describe, expect, it } from "vitest";
import { parseGlob } from "../../../src/satellites/builtin/get_files/glob.ts";
import { userMsSince } from "../../cpu_time.ts";

const matches = (pattern: string, path: string) => parseGlob(pattern)?.(path);

describe("a pattern of paths", () => {
  it.each([
    ["*.pdf", "a.pdf", true],
    ["*.pdf", "a/b.pdf", false],
    ["**/*.pdf", "b.pdf", true],
    ["**/*.pdf", "a/b/c.pdf", true],
    ["a/**", "a/b/c", true],
    ["a/**/c", "a/c", true],
    ["a/**/c", "a/b/b/c", true],
    ["a/**/c/**/d", "a/x/c/y/c/z/d", true],
    ["a/**/c", "a/b/cc", false],
    ["*", ".hidden", true],
    ["?.txt", "ü.txt", true],
    ["?.txt", "😀.txt", true],
    ["?.txt", "ab.txt", false],
    ["[a-c]x", "bx", true],
    ["[!a-c]x", "bx", false],
    ["[]]x", "]x", true],
    ["*.{pdf,docx}", "a.docx", true],
    ["{a,b/{c,d}}/*.md", "b/d/x.md", true],
    ["\\*.md", "*.md", true],
    ["\\*.md", "a.md", false],
    ["**", "a/b", true],
    ["a.b", "aXb", false],
    ["(a|b)+", "(a|b)+", true],
  ])("%s on %s", (pattern, path, expected) => {
    expect(matches(pattern, path)).toBe(expected);
  });

  it.each(["", "{a", "{a,{b}", "[a", "a\\", "x".repeat(513), "{a,b}".repeat(7)])(
    "is not valid: %s",
    (pattern) => {
      expect(parseGlob(pattern)).toBeUndefined();
    },
  );

  it("agrees with picomatch", () => {
    const piece = fc.constantFrom("a", "b", "*", "?", "ab", "[ab]");
    const name = fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join(""));
    const pattern = fc
      .array(fc.oneof({ weight: 3, arbitrary: name }, fc.constant("**")), { minLength: 1, maxLength: 4 })
      .map((names) => names.join("/"))
      // Its own ways: `**` within a name, and at the end behind a name with stars.
      .filter((text) => !/\*\*[^/]|[^/]\*\*|.\/\*\*$/.test(text));
    const path = fc
      .array(fc.stringMatching(/^[abc]{1,4}$/), { minLength: 1, maxLength: 4 })
      .map((names) => names.join("/"));
    fc.assert(
      fc.property(pattern, path, (one, other) => {
        expect([one, other, matches(one, other)]).toEqual([one, other, picomatch(one, { dot: true })(other)]);
      }),
      { numRuns: 2_000 },
    );
  });

  it("takes no time on what would keep a regular expression busy for ever", () => {
    const before = process.cpuUsage();
    expect(matches(`${"*a".repeat(250)}*b`, "a".repeat(1_000))).toBe(false);
    expect(matches(`${"**/a/".repeat(100)}b`, "a/".repeat(500))).toBe(false);
    expect(userMsSince(before)).toBeLessThan(500);
  });
});
