/**
 * A Standard Schema, as far as answers are checked with it (https://standardschema.dev): zod, valibot, ArkType and others make them.
 */

/** What a schema says of a value. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

/** One thing that does not fit, and where. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What is used of a schema. */
export interface StandardSchema<Output = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** Whether a value is one; ArkType's are functions. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  const standard: unknown = "~standard" in value ? value["~standard"] : undefined;
  return (
    typeof standard === "object" &&
    standard !== null &&
    "validate" in standard &&
    typeof standard.validate === "function"
  );
}

/** What does not fit, with places as JSON pointers. */
export function issueText(issues: readonly StandardIssue[]): string {
  return issues
    .map(({ message, path = [] }) => {
      const place = path.map((step) => `/${String(typeof step === "object" ? step.key : step)}`).join("");
      return `${place === "" ? "/" : place}: ${message}`;
    })
    .join("; ")
    .slice(0, TEXT_CHARS_MAX);
}

const TEXT_CHARS_MAX = 2_000;
