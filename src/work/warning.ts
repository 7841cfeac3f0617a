/**
 * What a line's request is short of, or was changed in, although it was sent.
 *
 * Lines carry their warnings as JSON, made once for each different list: few lists are shared by all lines of a file.
 */

/** One warning. */
export type Warning =
  /** A setting that the model or provider does not take was left out; `setting` is its name as providers write it. */
  | { readonly code: "dropped"; readonly setting: string }
  /** Half surrogate pairs in some text became U+FFFD. */
  | { readonly code: "text_replaced" };

/** The warnings of a line as JSON; empty text without warnings. */
export function warningsJson(dropped: readonly string[], isTextReplaced: boolean): string {
  if (dropped.length === 0 && !isTextReplaced) return "";
  const warnings: Warning[] = dropped.map((setting) => ({ code: "dropped", setting }));
  if (isTextReplaced) warnings.push({ code: "text_replaced" });
  return JSON.stringify(warnings);
}

/** What `warningsJson` made, read back. */
export function warningsIn(json: string): readonly Warning[] {
  return JSON.parse(json) as Warning[];
}

/** Under which it is counted: `dropped:temperature`, `text_replaced`. */
export function countedAs(warning: Warning): string {
  return warning.code === "dropped" ? `dropped:${warning.setting}` : warning.code;
}
