/** Lists in the docs against the lists in the code: a code, a reason or an option without its row is a gap. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { RUN_OPTIONS } from "../../src/engine/call_schemas.ts";
import { HOLD_REASONS } from "../../src/engine/items/holds.ts";

const text = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

/** The words in backquotes of the first cells of all tables. */
function rows(page: string): Set<string> {
  const cells = [...text(page).matchAll(/^\| (.*?) \|/gm)].map(([, cell]) => cell ?? "");
  return new Set(cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word]) => word ?? "")));
}

/** The members of a union of strings in the source. */
function unionOf(path: string, name: string): string[] {
  const [, body = ""] = new RegExp(`export type ${name} =([^;]*);`).exec(text(path)) ?? [];
  return [...body.replace(/\/\/.*$/gm, "").matchAll(/\| "([a-z_]+)"/g)].map(([, word]) => word ?? "");
}

function missing(words: readonly string[], page: string): string[] {
  const known = rows(page);
  expect(words.length).toBeGreaterThan(5);
  return words.filter((word) => !known.has(word));
}

describe("the docs have a row for", () => {
  it("every code of an error of a call and of an item", () => {
    expect(missing(unionOf("src/errors.ts", "ErrorCode"), "docs/reference/errors.md")).toEqual([]);
    expect(missing(unionOf("src/errors.ts", "FailureCode"), "docs/reference/errors.md")).toEqual([]);
  });

  it("every reason of a hold", () => {
    expect(missing(HOLD_REASONS, "docs/guide/holds.md")).toEqual([]);
  });

  it("every option of a run that callers of the library have", () => {
    expect(missing(Object.keys(RUN_OPTIONS), "docs/reference/library.md")).toEqual([]);
  });

  it("every name of the configuration", () => {
    const source = text("src/engine/config/config_options.ts");
    const [, body = ""] = /export interface ConfigOptions \{([\s\S]*?)\n\}/.exec(source) ?? [];
    const names = [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name]) => name ?? "");
    expect(names.length).toBeGreaterThan(10);
    const known = [...rows("docs/reference/config.md")];
    expect(names.filter((name) => !known.some((row) => row === name || row.startsWith(`${name}.`)))).toEqual(
      [],
    );
  });

  it("every flag of the command line, in its reference", () => {
    const commands = readdirSync(new URL("../../src/cli/", import.meta.url), {
      recursive: true,
      encoding: "utf8",
    });
    const flags = commands
      .filter((path) => path.endsWith(".ts"))
      .flatMap((path) => [...text(`src/cli/${path}`).matchAll(/ption\(\s*"(?:-\w, )?(--[a-z-]+)/g)])
      .map(([, flag]) => flag ?? "");
    const page = text("docs/reference/cli.md");
    expect(flags.length).toBeGreaterThan(60);
    expect([...new Set(flags)].filter((flag) => !new RegExp(`${flag}(?![a-z-])`).test(page))).toEqual([]);
  });
});
