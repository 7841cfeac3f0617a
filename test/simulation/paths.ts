/**
 * Where the files of simulated runs are.
 */
import type { RunBook } from "./run_book.ts";

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
