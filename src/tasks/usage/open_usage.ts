/**
 * What open work has taken so far, in memory: part of its project's usage until the end of the work is in the sums.
 *
 *   open -> more with each item that ends -> ended (its usage is noted)
 */
import { roundedMoney } from "../../price/money.ts";
import { addUsage, NO_PROJECT_USAGE, type ProjectUsage, takenUsd, usageSince } from "./project_usage.ts";

interface OpenSource {
  readonly project: string;
  readonly usage: ProjectUsage;
}

/** One for a store. A source is the number of a posted task, or the id of a lot. */
export class OpenUsage {
  readonly #sources = new Map<string | number, OpenSource>();
  readonly #projects = new Map<string, { sources: number; usage: ProjectUsage }>();

  #add(source: string | number, project: string, used: ProjectUsage): void {
    const sum = this.#projects.get(project) ?? { sources: 0, usage: NO_PROJECT_USAGE };
    this.#projects.set(project, sum);
    sum.usage = addUsage(sum.usage, used);
    sum.sources += 1;
    this.#sources.set(source, { project, usage: used });
  }

  /** Sets the total use of a source; returns the increase in USD. */
  set(source: string | number, project: string, usage: ProjectUsage): number {
    const beforeUsd = takenUsd(this.by(source));
    this.end(source);
    this.#add(source, project, usage);
    return takenUsd(usage) - beforeUsd;
  }

  /** The use of a source is in the sums; a second call changes nothing. */
  end(source: string | number): void {
    const known = this.#sources.get(source);
    if (known === undefined) return;
    this.#sources.delete(source);
    const sum = this.#projects.get(known.project);
    if (sum === undefined) return;
    sum.sources -= 1;
    sum.usage = usageSince(sum.usage, known.usage);
    if (sum.sources === 0) this.#projects.delete(known.project); // no rounding error remains
  }

  by(source: string | number): ProjectUsage {
    return this.#sources.get(source)?.usage ?? NO_PROJECT_USAGE;
  }

  /** Undefined if nothing was used. Without models and refunds, which are known when the work is in the sums. */
  of(project: string): ProjectUsage | undefined {
    const usage = this.#projects.get(project)?.usage;
    if (usage === undefined) return undefined;
    const { items, inputTokens, outputTokens } = usage;
    return { items, inputTokens, outputTokens, ...roundedMoney(usage) };
  }

  /** Those with open work that used something. */
  projects(): IterableIterator<string> {
    return this.#projects.keys();
  }
}
