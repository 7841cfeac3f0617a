/** docs/reference/providers.md and docs/guide/errors.md: what each status of an answer means, row by row, against what the codec says. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createProvider } from "../../src/providers/index.ts";

const text = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

const provider = createProvider({ name: "mine", protocol: "openai", baseUrl: "http://mine.test/v1" });

function meaningOf(status: number) {
  const decoded = provider.decode({ status, headers: {}, body: new TextEncoder().encode("{}"), wallMs: 0 });
  if (decoded.class === "success") throw new Error(`${status} is a success`);
  return decoded;
}

/** The statuses of a cell, those of other rows left out: `504` of "504 (a code)", 500 and 502 of "other 5xx". */
function statusesOf(cell: string): number[] {
  const plain = cell.replace(/\([^)]*\)|`[^`]*`/g, "").replace(/other 5xx/, "500 502 520");
  return [...plain.matchAll(/\b[45]\d\d\b/g)].map(([found]) => Number(found));
}

/** Rows of a page with a status in the cell `index`. */
function rowsOf(page: string, index: number): string[][] {
  const rows = [...text(page).matchAll(/^\| (.*) \|$/gm)].map(([, row = ""]) => row.split(" | "));
  return rows.filter((cells) => statusesOf(cells[index] ?? "").length > 0);
}

/** The part of a cell that belongs to the part `index` of the first cell. */
function part(cell: string | undefined, index: number): string {
  const parts = (cell ?? "").split("; ");
  return parts[Math.min(index, parts.length - 1)] ?? "";
}

const cases = rowsOf("docs/reference/providers.md", 0).flatMap(([first = "", kind, code, reach]) =>
  first
    .split("; ")
    .flatMap((cell, index) =>
      statusesOf(cell).map(
        (status) => [status, part(kind, index), part(code, index), part(reach, index)] as const,
      ),
    ),
);

describe("the table of answers", () => {
  it("has a row for each status that has a meaning of its own", () => {
    const named = cases.map(([status]) => status);
    const own = [400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 422, 424, 425, 429, 498, 499];
    for (const status of [...own, 500, 502, 503, 504, 529]) expect(named).toContain(status);
    expect(new Set(named).size).toBe(named.length);
  });

  it.each(cases)("says of %i what the codec says: %s, %s, %s", (status, kind, code, reach) => {
    const decoded = meaningOf(status);
    expect(kind.split(",")[0]).toBe(decoded.class);
    expect(code).toContain(`\`${decoded.code}\``);
    expect(reach).toBe(decoded.scope);
  });

  it("agrees with the classes of the guide", () => {
    const guide = rowsOf("docs/guide/errors.md", 1);
    expect(guide.map(([kind]) => kind)).toEqual(["refused", "ambiguous", "permanent"]);
    for (const [kind, examples = ""] of guide)
      for (const status of statusesOf(examples)) expect(meaningOf(status).class, `${status}`).toBe(kind);
  });
});
