/**
 * Where the files of simulated runs are.
 */
import { holdNotePath } from "../../src/engine/items/hold_note.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import type { RunBook } from "./run_book.ts";

/** The data folder. */
export const DATA = "/data";

export function inputOf(index: number): string {
  return `/in/input${index}.jsonl`;
}

export function outputOf({ run }: RunBook): string {
  return `/out/output${run.index}.jsonl`;
}

/** Whether answers are those of a run: ids are in their texts. */
export function isOf({ run }: RunBook, answers: string): boolean {
  const id = /answer to (\d+):/.exec(answers)?.[1];
  return id !== undefined && Math.floor(Number(id) / 10_000) === run.index;
}

/** What has held a finished run; it stays for traces. */
export function noteOf({ task_id }: Summary): string {
  return holdNotePath({ dataDir: DATA }, task_id);
}
