/**
 * What is wrong with a declaration, gathered so that all of it is reported at once.
 *
 * Errors keep a declaration from being run, warnings do not. Limit: 100 of each; those beyond are left out.
 */
import type { ClusterIssue } from "../cluster.ts";

/** Steps from the top of a declaration. */
export type Path = readonly (string | number)[];

/** A place in the text of a declaration. */
export interface TextPosition {
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

const ISSUES_MAX = 100;

/** At most 100 errors and 100 warnings: what follows is not kept. */
export class Issues {
  /** The place of a path in the text; undefined without one. */
  readonly #placeOf: ((path: Path, isKey: boolean) => TextPosition) | undefined;
  readonly #errors: ClusterIssue[] = [];
  readonly #warnings: ClusterIssue[] = [];

  constructor(placeOf: ((path: Path, isKey: boolean) => TextPosition) | undefined) {
    this.#placeOf = placeOf;
  }

  /** No error; there may be warnings. */
  get isEmpty(): boolean {
    return this.#errors.length === 0;
  }

  /** In the order of the text. */
  get list(): readonly ClusterIssue[] {
    return [...this.#errors, ...this.#warnings].toSorted(
      (one, two) => (one.line ?? 0) - (two.line ?? 0) || (one.column ?? 0) - (two.column ?? 0),
    );
  }

  /** At a value, or at the key before it. */
  add(path: Path, message: string, isKey = false): void {
    keep(this.#errors, { ...this.#placeOf?.(path, isKey), path: pathText(path), message });
  }

  /** Where only the place is known. */
  addAt(place: TextPosition, message: string, path: Path = []): void {
    keep(this.#errors, { ...place, path: pathText(path), message });
  }

  /** What can be run, and will probably not do what was meant. */
  warn(path: Path, message: string): void {
    const place = this.#placeOf?.(path, false);
    keep(this.#warnings, { ...place, path: pathText(path), message, severity: "warning" });
  }
}

function keep(list: ClusterIssue[], issue: ClusterIssue): void {
  if (list.length < ISSUES_MAX) list.push(issue);
}

/** `cluster.satellites[2].input.files`; names of other characters are in brackets and quotes. */
function pathText(path: Path): string {
  const text = path.map((step) => {
    if (typeof step === "number") return `[${step}]`;
    return /^[\w$-]+$/.test(step) ? `.${step}` : `[${JSON.stringify(step.slice(0, 64))}]`;
  });
  return text.join("").replace(/^\./, "");
}
