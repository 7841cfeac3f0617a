/**
 * Checks requests against the schemas of their routes: parameters, bodies, and query parameters, also of routes
 * that take none of them.
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

/** Refuses what a route would ignore: query parameters if it declares none, and a body with members if it takes none. */
export function refuseUnread(app: FastifyInstance): void {
  app.addHook("preValidation", (request, _, done) => {
    const { config, schema } = request.routeOptions;
    if (request.is404) return done();
    if (schema?.querystring === undefined && config.takesAnyQuery !== true) {
      const unknown = unknownQuery(request.query);
      if (unknown !== undefined) return done(unknown);
    }
    if (schema?.body === undefined && config.form === undefined && saysSomething(request.body))
      return done(new PerigeeError("usage", NO_BODY, { details: { param: "body" } }));
    done();
  });
}

const NO_BODY = "body: this address takes no body; leave it out";

/** Whether a body has content: clients without any send nothing, null, or an empty object. */
function saysSomething(body: unknown): boolean {
  if (body === undefined || body === null) return false;
  return typeof body !== "object" || Array.isArray(body) || Object.keys(body).length > 0;
}

/** The refusal of the first query parameter, for an address that takes none; undefined without parameters. */
export function unknownQuery(query: unknown): PerigeeError | undefined {
  const [name] = Object.keys(query as object);
  if (name === undefined) return undefined;
  const isName = /^[\w.-]{1,64}$/.test(name);
  return new PerigeeError(
    "usage",
    `querystring: ${isName ? `"${name}"` : "a name that"} is not known; this address takes no query parameters`,
    { details: { param: isName ? name : "querystring" } },
  );
}
