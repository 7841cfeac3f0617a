/**
 * The only import of zod: schemas of what comes from outside. Loaded only where there is something to check.
 *
 * To leave: any library with Standard Schema and a JSON Schema of it; `service/` uses the latter for its description.
 */
import { z } from "zod";
import { suggestion } from "./nearest.ts";

export { z };

/** Other names are not repeated in messages: they may be a text, and have any length. */
const NAME = /^[\w.-]{1,64}$/;

/**
 * Options of a parse that make the message for an unknown name suggest a known one. zod has a global setting
 * for that, which would change the messages of programs that share it with this library.
 */
export const namedErrors: { readonly error: (issue: z.core.$ZodRawIssue) => string | undefined } = {
  error: (issue) => {
    if (issue.code !== "unrecognized_keys") return undefined;
    return unknownName(issue.keys[0] ?? "", namesOf(issue.inst));
  },
};

/**
 * What a parse found, unknown names first: a name that is misspelt is also missing where it should be, and only the misspelt
 * one says what to do.
 */
export function issuesOf({ issues }: z.ZodError): readonly z.core.$ZodIssue[] {
  const isName = ({ code }: z.core.$ZodIssue): boolean => code === "unrecognized_keys";
  return [...issues.filter(isName), ...issues.filter((issue) => !isName(issue))];
}

/** What is said of a name that is not one of `known`. */
export function unknownName(name: string, known: readonly string[]): string {
  if (!NAME.test(name)) return "one of its names is not known";
  const hint = suggestion(name, known);
  return `"${name}" is not a known name${hint === "" ? "" : `; ${hint}`}`;
}

/** The names that an object schema knows. */
function namesOf(schema: unknown): readonly string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

/**
 * What an answer must be that fits a schema of zod, as JSON Schema; `schema` may be one of another copy of zod 4. What has no JSON Schema
 * is left to the check. Objects allow no other members, which providers demand for exact answers.
 */
export function answerJsonSchema(schema: unknown): unknown {
  const made = z.toJSONSchema(schema as z.ZodType, {
    io: "input",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      if (jsonSchema.type === "object" && jsonSchema.properties !== undefined)
        jsonSchema.additionalProperties ??= false;
    },
  });
  return made;
}
