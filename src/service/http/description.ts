/**
 * The description of all routes: OpenAPI 3.1 from their schemas, and a page that shows it.
 */
import { z } from "../../schema.ts";
import { servedDocument } from "./description_document.ts";
import { registerDescriptionPage } from "./description_page.ts";
import { type FastifyInstance, fastify, loadSwagger, type RouteOptions } from "./fastify.ts";

/** An error, of any status. */
const errorBody = z
  .looseObject({
    error: z.looseObject({
      message: z.string(),
      type: z.string(),
      code: z.string(),
      param: z.string().nullable().describe("The field at fault, such as 0.sla."),
    }),
    request_id: z.string(),
  })
  .meta({ id: "Error" });

const REASONS: Readonly<Record<number, string>> = {
  400: "The body or the address is not well formed.",
  401: "No key, or one that is not accepted.",
  402: "The spending cap of the project leaves no money for it.",
  403: "The key lacks the scope.",
  404: "Nothing with this id is in the project.",
  408: "The answer is not ready yet.",
  409: "It cannot be done in this state.",
  410: "Its bytes in the data folder are not what was accepted.",
  413: "The body is too large.",
  415: "The content type or encoding is not taken.",
  416: "The range is after the end.",
  422: "A field is not as documented; `param` names it.",
  429: "Too many requests, or an sla that cannot be met.",
  502: "The provider failed, or refused the service's own key.",
  503: "Not available now.",
  504: "The provider did not answer in time, or the deadline has passed.",
};

/** Headers of requests beside `Authorization`. */
const HEADERS = {
  "Idempotency-Key": z
    .string()
    .min(1)
    .max(255)
    .optional()
    .describe("A request that is repeated with it within 24 hours gets what the first one made."),
  "x-perigee-cache": z
    .string()
    .optional()
    .describe(
      "How old an answer from the service's cache may be, such as 1h; 422 where the operator has none.",
    ),
  "x-perigee-sla": z
    .string()
    .optional()
    .describe("A duration from 1m to 30d in whole minutes: the call has a deadline, and may cost less."),
  "x-perigee-schema": z
    .string()
    .optional()
    .describe("JSON Schema that the answers must fit, where items have none of their own."),
  "Output-Format": z.literal("jsonl").optional().describe("Answers output_url instead of objects."),
};

/** Documented errors of a route, for `schema.response`. */
export function failures(...statuses: readonly number[]): Record<number, z.ZodType> {
  return Object.fromEntries(
    statuses.map((status) => [status, errorBody.describe(REASONS[status] ?? "An error.")]),
  );
}

/**
 * Before the routes: from then on each is taken in. The returned function makes the document, and loads what makes it: other
 * starts of a service do without.
 */
export function registerDescription(app: FastifyInstance, version: string): () => Promise<string> {
  const routes: RouteOptions[] = [];
  app.addHook("onRoute", (route) => {
    if (route.method !== "HEAD") routes.push(route);
  });
  let document: Promise<string> | undefined;
  return () => (document ??= documentOf(routes, version));
}

/** The plugin describes a server's routes, so they are put into one that is never called. */
async function documentOf(routes: readonly RouteOptions[], version: string): Promise<string> {
  const { swagger, createJsonSchemaTransform, createJsonSchemaTransformObject } = await loadSwagger();
  const transform = createJsonSchemaTransform({});
  const described = fastify({ exposeHeadRoutes: false });
  described.setValidatorCompiler(() => () => true);
  described.setSerializerCompiler(() => JSON.stringify);
  await described.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "perigee",
        description: "Bulk LLM inference: items in, exactly one answer for each out.",
        version,
      },
      components: {
        securitySchemes: {
          key: { type: "http", scheme: "bearer" },
          bareKey: {
            type: "apiKey",
            in: "header",
            name: "Authorization",
            description: "Only the key, with no scheme word.",
          },
        },
      },
    },
    transform: (given) => {
      const { schema, route } = given;
      if (schema?.hide === true) return transform(given as never);
      const { scope, area, headers, form, isProvenByRequest } = route.config ?? {};
      const response = {
        ...failures(
          ...(isProvenByRequest === true ? [422] : failuresOf(schema, scope !== undefined, route.method)),
        ),
        ...(schema?.response as object),
      };
      const security =
        scope === undefined ? {} : { security: [area === "v1" ? { bareKey: [] } : { key: [] }] };
      const body = form === undefined ? {} : { body: form };
      const full = { ...schema, ...body, ...security, ...headersOf(headers), response };
      return transform({ ...given, schema: full } as never); // the types of two versions of one plugin
    },
    transformObject: createJsonSchemaTransformObject({}),
  });
  for (const { method, url, schema, config } of routes)
    described.route({ method, url, ...(schema && { schema }), ...(config && { config }), handler: unused });
  await described.ready();
  return JSON.stringify(servedDocument(described.swagger()));
}

function unused(): void {}

function headersOf(names: readonly (keyof typeof HEADERS)[] | undefined): { readonly headers?: z.ZodType } {
  if (names === undefined) return {};
  return { headers: z.object(Object.fromEntries(names.map((name) => [name, HEADERS[name]]))) };
}

/** Methods whose bodies are ignored, because HTTP gives them no meaning. */
const READING: ReadonlySet<string> = new Set(["GET", "HEAD", "GET,HEAD"]);

/** What every route with a key, an id, a query or a body may answer. */
function failuresOf(
  schema: DescribedRoute | undefined,
  hasScope: boolean,
  method: string | readonly string[],
): number[] {
  return [
    422, // a query parameter that is not known
    ...(hasScope ? [401, 403, 429] : []),
    ...(schema?.params === undefined || method === "PUT" ? [] : [404]),
    ...(isPaged(schema?.querystring) ? [404] : []), // the id of after= is not found
    ...(READING.has(String(method)) ? [] : [400, 413, 415]), // a body, also on routes that do not take one
  ];
}

function isPaged(query: unknown): boolean {
  return query instanceof z.ZodObject && "after" in query.shape;
}

interface DescribedRoute {
  readonly params?: unknown;
  readonly querystring?: unknown;
  readonly body?: unknown;
  readonly consumes?: unknown;
}

/** After the routes; `document` as `registerDescription` returns it. */
export function registerDescriptionRoutes(app: FastifyInstance, document: () => Promise<string>): void {
  app.get("/openapi.json", {
    schema: { hide: true },
    handler: async (_request, reply) => {
      const json = await document();
      return reply.header("content-type", "application/json; charset=utf-8").send(json);
    },
  });
  registerDescriptionPage(app);
}
