/**
 * What a run says of the batches that it leaves with providers.
 */
import { styleText } from "node:util";
import type { LeftBatch } from "../../engine/items/progress.ts";
import { commandLine } from "../command_line.ts";
import { count, duration } from "../numbers.ts";
import { table } from "../table.ts";

const SHOWN_MAX = 20;

/** Of a run that is detached: what is where, until when, and the command that collects it. */
export function detachedText(
  batches: readonly LeftBatch[],
  words: readonly string[],
  nowWallMs: number,
): string {
  const items = batches.reduce((sum, batch) => sum + batch.items, 0);
  const command = styleText("bold", commandLine(words.filter((word) => word !== "--detach")), {
    stream: process.stderr,
  });
  return `\n${count(items)} ${items === 1 ? "item is" : "items are"} with ${batchesText(batches)}${dueText(batches, nowWallMs)}; nothing has to run here meanwhile\n${rowsOf(batches)}to collect: ${command}\n`;
}

/** Of a run that has stopped with items left; empty without batches. */
export function stayText(batches: readonly LeftBatch[] = []): string {
  if (batches.length === 0) return "";
  const stay = batches.length === 1 ? "stays with its provider" : "stay with their providers";
  return `${batchesText(batches)} ${stay}, and nothing of that is cancelled (--cancel does)\n${rowsOf(batches)}`;
}

/** Of `--cancel`, while providers have not confirmed it: what is waited for, and how to stop waiting. */
export function cancellingText(batches: readonly Pick<LeftBatch, "id" | "provider">[]): string {
  const shown = batches.slice(0, SHOWN_MAX).map(({ id, provider }) => `${id ?? "a batch"} of ${provider}`);
  const more = batches.length > SHOWN_MAX ? ` and ${count(batches.length - SHOWN_MAX)} more` : "";
  return `waiting for ${shown.join(", ")}${more} to be cancelled, up to 15 min: what they have finished is kept. Ctrl-C twice stops waiting; the same command goes on`;
}

function batchesText({ length }: readonly LeftBatch[]): string {
  return length === 1 ? "1 batch" : `${count(length)} batches`;
}

/** All batches of a run have its deadline. */
function dueText([first]: readonly LeftBatch[], nowWallMs: number): string {
  const { deadline } = first ?? { deadline: null };
  if (deadline === null) return "";
  const leftMs = Date.parse(deadline) - nowWallMs;
  return leftMs > 0 ? `, due in ${duration(leftMs)}` : ", whose deadline has passed";
}

function rowsOf(batches: readonly LeftBatch[]): string {
  const shown = batches.slice(0, SHOWN_MAX);
  const rows = shown.map(({ id, model, items, state }) => [
    `  ${id ?? "(no id yet)"}`,
    model,
    `${count(items)} ${items === 1 ? "item" : "items"}`,
    state,
  ]);
  const more = batches.length > shown.length ? `  and ${count(batches.length - shown.length)} more\n` : "";
  return `${table(rows)}${more}`;
}
