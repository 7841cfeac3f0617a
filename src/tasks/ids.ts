/**
 * Ids of tasks and their objects: an object's id is its task's with the object's number folded into the last four
 * bytes, so that a million objects need no row each and neither order nor size shows.
 *
 *   task id            123e4567-e89b-42d3-a456-426614174000
 *   record id          the first 24 hex digits, which its objects share
 *   object of number n last four bytes xor n; n counts from 1
 */
import { PerigeeError } from "../errors.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether the text has the form of our ids: a UUID in small letters. */
export function isId(text: string): boolean {
  return UUID.test(text);
}

/** Under which the record of a task, or of an object's task, is found; both ids have the form of a UUID. */
export function recordIdOf(id: string): string {
  return id.replaceAll("-", "").slice(0, 24);
}

/** `number` is whole, from 1 to 2^32 - 1. */
export function objectId(taskId: string, number: number): string {
  return taskId.slice(0, -8) + ((lastBytes(taskId) ^ number) >>> 0).toString(16).padStart(8, "0");
}

/** The number of an object in its task; 0 for the task's own id. */
export function objectNumber(taskId: string, id: string): number {
  return (lastBytes(taskId) ^ lastBytes(id)) >>> 0;
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

function lastBytes(id: string): number {
  return Number.parseInt(id.slice(-8), 16);
}
