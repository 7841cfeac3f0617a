/**
 * As much of a terminal as the display uses: rows that break at its width and are broken anew when it changes (as tmux, iTerm and
 * Windows Terminal do), line feeds, carriage returns, cursor up, and erasing from the cursor on. It does not scroll.
 */
import { cells } from "../../../src/cli/display/terminal.ts";

/** A row and whether it is continued in the next. */
interface Row {
  text: string;
  isBroken: boolean;
}

export class TerminalGrid {
  #columns: number;
  #rows: Row[] = [{ text: "", isBroken: false }];
  #row = 0;
  #column = 0;

  constructor(columns: number) {
    this.#columns = columns;
  }

  /** Breaks all rows anew. The cursor stays at its place in the text. */
  resize(columns: number): void {
    const lines: string[] = [];
    let [line, cursorLine, cursorAt] = ["", 0, 0];
    for (const [index, { text, isBroken }] of this.#rows.entries()) {
      if (index === this.#row) [cursorLine, cursorAt] = [lines.length, line.length + this.#column];
      line += text;
      if (isBroken) continue;
      lines.push(line);
      line = "";
    }
    this.#columns = columns;
    this.#rows = [];
    for (const [index, text] of lines.entries()) {
      const first = this.#rows.length;
      const parts = text === "" ? [""] : (text.match(new RegExp(`.{1,${columns}}`, "gu")) ?? []);
      for (const [at, part] of parts.entries())
        this.#rows.push({ text: part, isBroken: at < parts.length - 1 });
      if (index === cursorLine) {
        this.#row = first + Math.min(parts.length - 1, Math.floor(cursorAt / columns));
        this.#column = cursorAt - (this.#row - first) * columns;
      }
    }
  }

  /** Rows that are not empty at the end, without the blanks at their ends. */
  write(text: string): string[] {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is read
    for (const [token] of text.matchAll(/\x1b\[(\d*)([A-Za-z])|[^\x1b]/gu)) this.#take(token);
    const rows = this.#rows.map((row) => row.text.trimEnd());
    while (rows.at(-1) === "") rows.pop();
    return rows;
  }

  #take(token: string): void {
    if (token.startsWith("\x1b")) this.#command(token.at(-1) ?? "", Number(token.slice(2, -1) || "1"));
    else if (token === "\r") this.#column = 0;
    else if (token === "\n") this.#feed(false);
    else this.#put(token);
  }

  #command(name: string, count: number): void {
    if (name === "A") {
      if (count > this.#row) throw new Error("above the first row");
      this.#row -= count;
    } else if (name === "J") {
      const row = this.#rows[this.#row] as Row;
      this.#rows = [
        ...this.#rows.slice(0, this.#row),
        { text: row.text.slice(0, this.#column), isBroken: false },
      ];
    } else if (name !== "m") throw new Error(`unexpected ${name}`);
  }

  /** A line feed also returns to the first column, as terminals are set. */
  #feed(isBroken: boolean): void {
    (this.#rows[this.#row] as Row).isBroken = isBroken;
    this.#row += 1;
    this.#column = 0;
    this.#rows[this.#row] ??= { text: "", isBroken: false };
  }

  #put(character: string): void {
    if (this.#column + cells(character) > this.#columns) this.#feed(true);
    const row = this.#rows[this.#row] as Row;
    row.text =
      row.text.slice(0, this.#column).padEnd(this.#column) + character + row.text.slice(this.#column + 1);
    this.#column += character.length;
  }
}
