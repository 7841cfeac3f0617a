/**
 * What an update of a run did, as lines of text for its end.
 */
import type { UpdateCounts } from "../../engine/reopening/update.ts";
import { count } from "../numbers.ts";

/** What an update made of the lines; its counts are the items of the summary. */
export function updateText(counts: UpdateCounts | undefined): string {
  if (counts === undefined) return "";
  const { kept, changed, added, gone, pruned } = counts;
  const parts = [
    `${count(kept)} kept`,
    `${count(changed)} changed`,
    `${count(added)} new or without a line before`,
  ];
  if (gone > 0) parts.push(`${count(gone)} no longer in the input`);
  const removed = pruned === 0 ? "" : `; ${count(pruned)} removed, no longer in the input`;
  return `update: ${parts.join(", ")}${removed}\n`;
}

/** After an update: how many keys are no longer in the input, and how to remove their lines. */
export function keptText(keptLines: number, isUpdate: boolean | undefined): string {
  if (isUpdate !== true || keptLines === 0) return "";
  const lines = keptLines === 1 ? "1 key is" : `${count(keptLines)} keys are`;
  const kept = keptLines === 1 ? "its line is" : "their lines are";
  return `${lines} no longer in the input; ${kept} kept (to remove: --update --prune)\n`;
}

/** Of a table: how many rows were answered that this command does not ask, such as those of another --limit. */
export function keptRowsText(keptRows: number): string {
  if (keptRows === 0) return "";
  const rows = keptRows === 1 ? "1 row is" : `${count(keptRows)} rows are`;
  return `${rows} counted above that this command does not ask: kept from an earlier one, and not in the output (to remove: --update --prune)\n`;
}
