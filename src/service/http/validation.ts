/**
 * Checks requests against the schemas of their routes: parameters, bodies, and query parameters, also of routes
 * that do not take any.
 */
import type { IncomingHttpHeaders } from "node:http";
import { PerigeeError } from "../../errors.ts";
import { issuesOf, namedErrors, z } from "../../schema.ts";
import type { FastifyInstance } from "./fastify.ts";
import { queryWords } from "./query_words.ts";

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
  httpPart,
}: {
  readonly schema: unknown;
  readonly httpPart?: string | undefined;
}): (data: unknown) => { readonly value: unknown } | { readonly error: Fault[] } {
  const known = schema as z.ZodType; // routes have no others
  const shape = httpPart === "querystring" && known instanceof z.ZodObject ? known.shape : undefined;
  return (data) => {
    const lost = httpPart === "body" ? lostMember(data, "") : undefined;
    if (lost !== undefined) return { error: [lost] };
    const parsed = known.safeParse(data, namedErrors);
    if (parsed.success) return { value: parsed.data };
    const faults = issuesOf(parsed.error).map(({ path, code = "custom", message }) => ({
      keyword: code,
      instancePath: `/${path.join("/")}`,
      schemaPath: `#/${path.join("/")}/${code}`,
      message: shape === undefined ? message : (wordsOf(shape, data, path, code) ?? message),
      params: {},
    }));
    return { error: faults };
  };
}

/** A member that schemas leave out of what they read, whatever they say of others. The depth of bodies is bounded. */
function lostMember(value: unknown, path: string): Fault | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    const place = `${path}/${name}`;
    if (name === "__proto__")
      return {
        ...{ keyword: "custom", instancePath: place, schemaPath: `#${place}/custom`, params: {} },
        message: "a member of this name is not accepted; leave it out",
      };
    const lost = lostMember(inner, place);
    if (lost !== undefined) return lost;
  }
  return undefined;
}

function wordsOf(
  shape: Readonly<Record<string, unknown>>,
  query: unknown,
  [name]: readonly PropertyKey[],
  code: string,
): string | undefined {
  const parameter = String(name ?? "");
  return queryWords(shape[parameter], (query as Readonly<Record<string, unknown>>)[parameter], code);
}

/** Refuses what a route would ignore: query parameters that it does not declare, and a body with members if it does not take one. */
export function refuseUnread(app: FastifyInstance): void {
  app.addHook("preValidation", (request, _, done) => {
    const { config, schema } = request.routeOptions;
    if (request.is404) return done();
    if (schema?.querystring === undefined && config.takesAnyQuery !== true) {
      const unknown = unknownQuery(request.query);
      if (unknown !== undefined) return done(unknown);
    }
    const hasBody = saysSomething(request.body) || (isRead(request.method) && hasBytes(request.headers));
    if (schema?.body === undefined && config.form === undefined && hasBody) return done(bodyRefusal());
    done();
  });
}

/** The refusal of a body that nobody reads, by the headers of a GET or HEAD; undefined without one. */
export function unreadBody(headers: IncomingHttpHeaders): PerigeeError | undefined {
  return hasBytes(headers) ? bodyRefusal() : undefined;
}

function bodyRefusal(): PerigeeError {
  return new PerigeeError("usage", "body: this address takes no body; leave it out", {
    details: { param: "body" },
  });
}

/** Fastify reads no body of these. */
function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

/** Whether a body that nobody reads has content: two bytes are an empty object. */
function hasBytes(headers: IncomingHttpHeaders): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > "{}".length;
}

/** Whether a body has content: clients without any send nothing, null, or an empty object. */
function saysSomething(body: unknown): boolean {
  if (body === undefined || body === null) return false;
  return typeof body !== "object" || Array.isArray(body) || Object.keys(body).length > 0;
}

/** The refusal of the first query parameter, for an address that does not take any; undefined without parameters. */
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
