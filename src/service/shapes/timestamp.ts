/**
 * Times as answers and messages have them: RFC 3339, UTC, milliseconds.
 */

/** Of Unix time in milliseconds. */
export function timestamp(wallMs: number): string {
  return new Date(wallMs).toISOString();
}

/** Null for what has not happened, or has no such time. */
export function timestampOrNull(wallMs: number | undefined): string | null {
  return wallMs === undefined ? null : timestamp(wallMs);
}
