/**
 * What is wrong with a declaration, gathered so that all of it is told at once.
 *
 * Limit: 100 issues; those beyond are left out.
 */
import type { ClusterIssue } from "./cluster.ts";

/** Steps from the top of a declaration. */
export type Path = readonly (string | number)[];

/** Where something stands in the text of a declaration. */
export interface Place {
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

const ISSUES_MAX = 100;

/** At most 100: what comes behind them is not kept. */
export class Issues {
  /** Where a path stands in the text; undefined when there is none. */
  readonly #placeOf: ((path: Path, isKey: boolean) => Place) | undefined;
  readonly #list: ClusterIssue[] = [];

  constructor(placeOf: ((path: Path, isKey: boolean) => Place) | undefined) {
    this.#placeOf = placeOf;
  }

  get isEmpty(): boolean {
    return this.#list.length === 0;
  }

  /** In the order of the text. */
  get list(): readonly ClusterIssue[] {
    return this.#list.toSorted(
      (one, two) => (one.line ?? 0) - (two.line ?? 0) || (one.column ?? 0) - (two.column ?? 0),
    );
  }

  /** At a value, or at the key before it. */
  add(path: Path, message: string, isKey = false): void {
    this.#push({ ...this.#placeOf?.(path, isKey), path: pathText(path), message });
  }

  /** Where only the place is known. */
  addAt(place: Place, message: string, path: Path = []): void {
    this.#push({ ...place, path: pathText(path), message });
  }

  #push(issue: ClusterIssue): void {
    if (this.#list.length < ISSUES_MAX) this.#list.push(issue);
  }
}

/** `cluster.satellites[2].input.files`; names of other characters stand in brackets and quotes. */
function pathText(path: Path): string {
  const text = path.map((step) => {
    if (typeof step === "number") return `[${step}]`;
    return /^[\w$-]+$/.test(step) ? `.${step}` : `[${JSON.stringify(step.slice(0, 64))}]`;
  });
  return text.join("").replace(/^\./, "");
}
