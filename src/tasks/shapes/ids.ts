/**
 * Ids of tasks and files, and where the numbers of a task's objects (`work/object_id.ts`) lead to.
 */
import { PerigeeError } from "../../errors.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether the text has the form of our ids: a UUID in small letters. */
export function isId(text: string): boolean {
  return UUID.test(text);
}

/** Lines of one part of a task at most; with 128 parts at most, numbers stay below 2^32. */
const PART_LINES_MAX = 2 ** 25;

/** What the numbers of a part's objects count from: the object on its line n has the number base + n. */
export function baseOf(part: number): number {
  return part * PART_LINES_MAX;
}

/** Which part an object's number belongs to, and on which of its lines it stands. */
export function placeOf(number: number): { readonly part: number; readonly line: number } {
  return { part: Math.floor(number / PART_LINES_MAX), line: number % PART_LINES_MAX };
}

/** The same for ids of others and ids that are none. */
export function notFound(what: "task" | "object" | "file", id: string): PerigeeError {
  return new PerigeeError("not_found", `no ${what} ${JSON.stringify(id.slice(0, 64))}`);
}
