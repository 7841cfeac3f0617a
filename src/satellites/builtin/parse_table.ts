/**
 * Rows of Markdown's tables.
 */

export function tableRow(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replace(/\|/g, "\\|").replace(/\s*\r?\n\s*/g, " ")).join(" | ")} |`;
}
