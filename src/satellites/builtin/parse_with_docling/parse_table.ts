/**
 * Rows of Markdown's tables.
 */

/** One line; bars are escaped, line ends become blanks. */
export function tableRow(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replace(/\|/g, "\\|").replace(/\s*\r?\n\s*/g, " ")).join(" | ")} |`;
}
