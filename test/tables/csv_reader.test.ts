/**
 * Records of CSV: as csv-parse reads them, wherever the text is cut; and what is refused, with the number of the line.
 */
import { parse } from "csv-parse/sync";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CsvReader, type CsvRecord } from "../../src/tables/csv_reader.ts";

describe("a CSV reader", () => {
  it("reads what csv-parse reads, wherever the text is cut into pieces", () => {
    const field = fc.string({
      unit: fc.constantFrom("a", "é", '"', ",", "\n", "\r\n", " ", "😀"),
      maxLength: 6,
    });
    const ends = fc.constantFrom("\n", "\r\n", "\r");
    const rows = fc.array(fc.array(field, { minLength: 2, maxLength: 4 }), { maxLength: 6 });
    fc.assert(
      fc.property(rows, ends, fc.boolean(), fc.array(fc.nat(40)), (table, end, hasEnd, cuts) => {
        const text = table.map((row) => row.map(quoted).join(",")).join(end);
        const whole = hasEnd && text !== "" ? `${text}${end}` : text;
        const found = read(whole, cuts, end === "\r" ? end : "\n");
        expect(found.map(({ fields }) => fields)).toEqual(table);
        expect(found.map(({ fields }) => fields)).toEqual(
          parse(whole, {
            relax_column_count: true,
            skip_empty_lines: true,
            record_delimiter: end === "\r" ? end : ["\n", "\r\n"],
          }),
        );
      }),
      { numRuns: 500 },
    );
  });

  it("numbers the line that each record begins with, and skips blank lines", () => {
    const found = read('a,b\n\n"1\n2",x\r\n\n3,4', [5, 3]);
    expect(found).toEqual([
      { fields: ["a", "b"], line: 1 },
      { fields: ["1\n2", "x"], line: 3 },
      { fields: ["3", "4"], line: 6 },
    ]);
  });

  it("takes a quote within a field that begins with no quote as a character of it", () => {
    expect(read('5" pipe,b', []).map(({ fields }) => fields)).toEqual([['5" pipe', "b"]]);
  });

  it("refuses text after a closing quote, with its line and field", () => {
    expect(() => read('a,b\n1,"x" y\n', [])).toThrow(
      "t.csv: line 2 has text after a closing quote, in field 2",
    );
  });

  it("refuses a quote that is never closed, with the line that opens it", () => {
    expect(() => read('a,b\n1,"x\ny\n', [4])).toThrow("t.csv: line 2 opens a quote that is never closed");
  });
});

/** In quotes where it has to be, and where it is empty: a row of one empty field would be a blank line. */
function quoted(field: string): string {
  return /["\n\r,]/.test(field) || field === "" ? `"${field.replaceAll('"', '""')}"` : field;
}

function read(text: string, cuts: readonly number[], lineEnd?: "\n" | "\r"): CsvRecord[] {
  const reader = new CsvReader({ delimiter: ",", name: "t.csv", lineEnd });
  const records: CsvRecord[] = [];
  let at = 0;
  for (const cut of cuts) {
    records.push(...reader.take(text.slice(at, at + cut)));
    at += cut;
  }
  return [...records, ...reader.take(text.slice(at)), ...reader.end()];
}
