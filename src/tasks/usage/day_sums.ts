/**
 * Sums of usage by project and day, including what a write adds.
 */
import type { RecordChange } from "../../store/records.ts";
import { addUsage, NO_PROJECT_USAGE, type ProjectUsage } from "./project_usage.ts";

/** The days of one project in one month, as stored. */
export type UsageMonth = Map<string, ProjectUsage>;

/** One for a write. */
export class DaySums {
  readonly #monthOf: (project: string, month: string) => Promise<UsageMonth>;
  readonly #sums = new Map<
    string,
    { readonly project: string; readonly day: string; readonly month: UsageMonth; usage: ProjectUsage }
  >();

  constructor(monthOf: (project: string, month: string) => Promise<UsageMonth>) {
    this.#monthOf = monthOf;
  }

  async add(project: string, day: string, usage: ProjectUsage): Promise<void> {
    const id = `${day} ${project}`;
    const month = await this.#monthOf(project, day.slice(0, 7));
    const sum = this.#sums.get(id) ?? { project, day, month, usage: month.get(day) ?? NO_PROJECT_USAGE };
    sum.usage = addUsage(sum.usage, usage);
    this.#sums.set(id, sum);
  }

  changes(createdWallMs: number): RecordChange[] {
    return [...this.#sums].map(([id, { project, day, usage }]) => {
      const parent = day.slice(0, 7);
      const body = JSON.stringify(usage);
      return { kind: "put", record: { collection: "usage", id, project, parent, createdWallMs, body } };
    });
  }

  written(): void {
    for (const { month, day, usage } of this.#sums.values()) month.set(day, usage);
  }
}
