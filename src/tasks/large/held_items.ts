/**
 * What holds items of tasks: what holds the runs of their lots, if it applies to the items' models, or that their lines are damaged.
 *
 * Lines are read for their models only while something is held, and only in a lot that tasks share.
 */
import type { EngineCore } from "../../engine/core.ts";
import type { Hold } from "../../engine/items/holds.ts";
import { concerns, objectHold } from "../../engine/items/object_holds.ts";
import type { ObjectHold } from "../../work/task.ts";
import type { Lot } from "../lots/lot.ts";
import type { TaskPart } from "../lots/task_record.ts";
import { LineTable } from "./line_table.ts";

/** Whether something holds lines of a lot. */
export function isHeld({ lost, run }: Lot): boolean {
  return lost !== undefined || (run?.holds.length ?? 0) > 0;
}

/** One for a store. */
export class HeldItems {
  readonly #providers: ReadonlySet<string>;
  readonly #table: LineTable;

  constructor(core: Pick<EngineCore, "storage" | "config" | "measurer">) {
    this.#providers = core.config.providerNames;
    this.#table = new LineTable(core.storage.disk, core.measurer);
  }

  /** The holds on the lines of one part; each with the number of lines that it holds. Usually resolves without a read. */
  async ofPart(lot: Lot, part: TaskPart): Promise<readonly Hold[]> {
    if (lot.lost !== undefined) {
      const items = part.items - lot.settledOf(part);
      return items > 0 ? [{ ...lot.lost, items }] : []; // all that is open, whatever its model
    }
    const holds = lot.run?.holds ?? [];
    if (holds.length === 0 || lot.record.taskId !== undefined) return holds;
    const items = new Map<Hold, number>();
    for (let line = part.firstLine; line < part.firstLine + part.lines; line += 1) {
      if (lot.index.statusOf(line) !== undefined) continue;
      const hold = await this.#holdOf(lot, line, holds);
      if (hold !== undefined) items.set(hold, (items.get(hold) ?? 0) + 1);
    }
    return [...items].map(([hold, count]) => ({ ...hold, items: count }));
  }

  /** The hold on a line that is not final; undefined if nothing holds it. */
  async ofLine(lot: Lot, line: number): Promise<ObjectHold | undefined> {
    if (lot.lost !== undefined) return objectHold(lot.lost);
    const holds = lot.run?.holds ?? [];
    const hold = holds.length === 0 ? undefined : await this.#holdOf(lot, line, holds);
    return hold === undefined ? undefined : objectHold(hold);
  }

  async #holdOf(lot: Lot, line: number, holds: readonly Hold[]): Promise<Hold | undefined> {
    const { lines, models } = await this.#table.rows(lot, this.#table.stepOf(lot, line));
    const model = models[lines.indexOf(line)] ?? "";
    return holds.find((hold) => concerns(this.#providers, hold, model));
  }
}
