/**
 * What is answered for a body that its schema refuses, where a handler checks it: 422 as for what routes check.
 */
import { PerigeeError } from "../../errors.ts";
import { issuesOf, type z } from "../../schema.ts";

/** Names the first place that is wrong. */
export function bodyFault(error: z.ZodError): PerigeeError {
  const { message, param } = firstOf(error);
  return new PerigeeError("usage", message, { details: { param } });
}

/** The same with all places in `details.issues`. */
export function bodyIssues(error: z.ZodError): PerigeeError {
  const { message, param } = firstOf(error);
  const issues = issuesOf(error).map((issue) => ({ path: pathOf(issue), message: issue.message }));
  return new PerigeeError("usage", message, { details: { param, issues } });
}

/** An `invalid_request` with issues as 422, which is what other routes answer for fields. */
export function asUnprocessable(error: unknown): unknown {
  const hasIssues =
    error instanceof PerigeeError &&
    error.code === "invalid_request" &&
    Array.isArray(error.details["issues"]);
  if (!hasIssues) return error;
  return new PerigeeError("usage", error.message, { cause: error, details: error.details });
}

function firstOf(error: z.ZodError): { readonly message: string; readonly param: string } {
  const [first] = issuesOf(error);
  const param = first === undefined ? "body" : pathOf(first);
  return { message: `${param}: ${first?.message ?? "not as documented"}`, param };
}

function pathOf({ path }: { readonly path: readonly PropertyKey[] }): string {
  return path.join(".") || "body";
}
