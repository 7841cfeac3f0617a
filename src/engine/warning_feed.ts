/**
 * Tells what a run leaves out of requests, once for each model and warning, as soon as the first line with it is read.
 */
import type { MeasuredBlock } from "../shard/measured.ts";
import { countedAs, type Warning, warningsIn } from "../work/warning.ts";

/** A warning that lines of one model have. */
export interface RunWarning {
  readonly warning: Warning;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** The first line that has it, from 1. */
  readonly line: number;
}

/** Called at most once for each model and warning. What it throws ends the run. */
export type WarningListener = (warning: RunWarning) => void;

/** One for a run that is listened to. */
export class WarningFeed {
  readonly #listener: WarningListener;
  readonly #seenLists = new Set<string>();
  readonly #told = new Set<string>();

  constructor(listener: WarningListener) {
    this.#listener = listener;
  }

  /** Tells what is new in a block. Costs nothing for a block without warnings. */
  see({ count, lines, groupOf, groups, warnings, warningLists }: MeasuredBlock): void {
    if (warningLists.length === 0) return;
    for (let item = 0; item < count; item += 1) {
      const list = warningLists[(warnings[item] ?? 0) - 1];
      if (list === undefined) continue;
      const model = groups[groupOf[item] ?? 0]?.model ?? "";
      const seen = `${model} ${list}`;
      if (this.#seenLists.has(seen)) continue;
      this.#seenLists.add(seen);
      for (const warning of warningsIn(list)) this.#tell({ warning, model, line: lines[item] ?? 0 });
    }
  }

  #tell(warning: RunWarning): void {
    const name = `${warning.model} ${countedAs(warning.warning)}`;
    if (this.#told.has(name)) return;
    this.#told.add(name);
    this.#listener(warning);
  }
}
