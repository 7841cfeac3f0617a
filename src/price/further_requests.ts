/**
 * Requests for answers that do not fit their schema, beyond the first of each item: what a quote says of them.
 */

/** Of the items of one row that are checked. */
export interface FurtherRequests {
  readonly expected: number;
  readonly most: number;
  /** Whether answers of the model were checked before; else the share is assumed. */
  readonly isLearnt: boolean;
}

export interface QuoteFurtherRequests {
  readonly expected: number;
  /** If no answer fits. */
  readonly most: number;
  readonly basis: "learnt" | "assumed";
}

/** As a quote has it; nothing where no item is checked. */
export function shownFurther(rows: readonly { readonly further?: FurtherRequests | undefined }[]): {
  readonly further_requests?: QuoteFurtherRequests;
} {
  const all = rows.flatMap(({ further }) => further ?? []);
  if (all.length === 0) return {};
  const expected = all.reduce((sum, row) => sum + row.expected, 0);
  const most = all.reduce((sum, row) => sum + row.most, 0);
  const basis = all.every(({ isLearnt }) => isLearnt) ? "learnt" : "assumed";
  return { further_requests: { expected: Math.round(expected), most, basis } };
}
