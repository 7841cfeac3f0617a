/**
 * Ids of objects: an object's id is its task's with the object's number folded into the last four bytes, so that a
 * million objects need no row each and neither order nor size shows.
 *
 *   task id             123e4567-e89b-42d3-a456-426614174000
 *   its stem            the first 24 hex digits, which its objects share
 *   object of number n  last four bytes xor n; n counts from 1
 */

/** What a task and its objects are found by; the id has the form of a UUID. */
export function stemOf(id: string): string {
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

function lastBytes(id: string): number {
  return Number.parseInt(id.slice(-8), 16);
}
