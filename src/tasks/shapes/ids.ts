/**
 * Ids of tasks and files, and how the numbers of a task's objects (`work/object_id.ts`) map to lines.
 */
import { PerigeeError } from "../../errors.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether the text is a valid id: a UUID in lower case. */
export function isId(text: string): boolean {
  return UUID.test(text);
}

/** The most lines of one part of a task; with at most 128 parts, numbers stay below 2^32. */
const PART_LINES_MAX = 2 ** 25;

/** The base of the numbers of a part's objects: the object on its line n has the number base + n. */
export function baseOf(part: number): number {
  return part * PART_LINES_MAX;
}

/** The part of an object's number, and its line in that part. */
export function placeOf(number: number): { readonly part: number; readonly line: number } {
  return { part: Math.floor(number / PART_LINES_MAX), line: number % PART_LINES_MAX };
}

/** The same error for ids of other projects and unknown ids. */
export function notFound(what: "task" | "object" | "file", id: string): PerigeeError {
  return new PerigeeError("not_found", `no ${what} ${JSON.stringify(id.slice(0, 64))}`);
}
