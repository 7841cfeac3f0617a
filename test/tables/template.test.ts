/**
 * Templates: what is a placeholder, what is text, and what is said of a column that a table does not have.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { columnIndexes, readTemplate } from "../../src/tables/template.ts";

const TABLE = { name: "rows.csv", columns: [{ name: "id" }, { name: "Review" }] };

describe("a template", () => {
  it("puts the texts of columns in place of their names, as often as they occur", () => {
    const read = readTemplate("{{a}} and {{ b c }}, {{a}}", "p.md");
    expect(read.columns).toEqual(["a", "b c"]);
    expect(read.fill((index) => ["1", "2"][index] ?? "")).toBe("1 and 2, 1");
  });

  it("does not read again what is put in", () => {
    expect(readTemplate("x{{a}}y", "p.md").fill(() => "{{a}} \\{{")).toBe("x{{a}} \\{{y");
  });

  it("leaves any text with escaped openings as it is", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("a", "{", "}", "\n", "$&") }), (text) => {
        const escaped = text.replaceAll("{{", "\\{{");
        expect(readTemplate(escaped, "p.md").fill(() => "cell")).toBe(text);
      }),
    );
  });

  it("takes single braces and a closing pair as text, as in JSON", () => {
    const text = '{"a": {"b": 1}}';
    expect(readTemplate(text, "p.md").fill(() => "cell")).toBe(text);
  });

  it.each(["one\n{{", "one\n{{ }}", "one\n{{a\nb}}"])("refuses an opening without a column (%j)", (text) => {
    expect(() => readTemplate(text, "p.md")).toThrow(
      /^p\.md: line 2 has \{\{ without a column.*write \\\{\{$/,
    );
  });

  it("names a column that the table does not have, and the one that was meant", () => {
    const read = readTemplate("{{review}}", "p.md");
    expect(() => columnIndexes(read, TABLE, "p.md")).toThrow(
      'p.md: "review" is not a column of rows.csv; did you mean "Review"?',
    );
  });

  it("lists the columns where none is near", () => {
    expect(() => columnIndexes(readTemplate("{{text}}", "p.md"), TABLE, "p.md")).toThrow(
      'its columns are "id", "Review"',
    );
  });
});
