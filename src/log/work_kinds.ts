/**
 * What tasks of the work log are: each kind belongs to one module, and only that module reads its rows.
 */

/** Never reuse a number: rows hold them. */
export const WORK_KINDS = { execution: 1, delivery: 2, posted: 3, list: 4 } as const;

export type WorkKind = (typeof WORK_KINDS)[keyof typeof WORK_KINDS];
