/**
 * Checks requests against the schemas of their routes: parameters, bodies, and query parameters, also of routes without any.
 */
import { PerigeeError } from "../errors.ts";
import { issuesOf, namedErrors, type z } from "../schema.ts";
import type { FastifyInstance } from "./fastify.ts";

/** The error that Fastify expects. */
interface Fault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly schemaPath: string;
  readonly message: string;
  readonly params: Record<string, never>;
}

/** A validator for Fastify; the message for an unknown name suggests a known one. */
export function validatorCompiler({
  schema,
}: {
  readonly schema: unknown;
}): (data: unknown) => { readonly value: unknown } | { readonly error: Fault[] } {
  const known = schema as z.ZodType; // routes have no others
  return (data) => {
    const parsed = known.safeParse(data, namedErrors);
    if (parsed.success) return { value: parsed.data };
    const faults = issuesOf(parsed.error).map(({ path, code = "custom", message }) => ({
      keyword: code,
      instancePath: `/${path.join("/")}`,
      schemaPath: `#/${path.join("/")}/${code}`,
      message,
      params: {},
    }));
    return { error: faults };
  };
}

/** Refuses query parameters of routes that declare none and need a key. */
export function refuseQueries(app: FastifyInstance): void {
  app.addHook("preValidation", (request, _, done) => {
    const { config, schema } = request.routeOptions;
    if (config.scope === undefined || schema?.querystring !== undefined) return done();
    for (const name in request.query as object) return done(unknownParameter(name));
    done();
  });
}

function unknownParameter(name: string): PerigeeError {
  const isName = /^[\w.-]{1,64}$/.test(name);
  return new PerigeeError(
    "usage",
    `querystring: ${isName ? `"${name}"` : "a name that"} is not known; this address takes no query parameters`,
    { details: { param: isName ? name : "querystring" } },
  );
}
