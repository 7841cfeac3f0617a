/**
 * The OpenAPI document as it is served, from what the plugin makes of the routes.
 *
 * HEAD is left out, since it answers as GET does. Errors are JSON, also on routes with other answers. The plugin has each schema
 * twice, as input and as output; here each that is used is listed once, and twice only where its two sides differ and both are used.
 */
const COMPONENTS = "#/components/schemas/";
const INPUT = /Input$/;

/** An OpenAPI document as far as this file looks into it. */
interface OpenApiDocument {
  paths?: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, unknown> };
}

interface Operation {
  responses?: Record<string, { content?: Record<string, unknown> }>;
}

/** `made` stays as it is. */
export function servedDocument(made: object): object {
  const document = JSON.parse(JSON.stringify(made)) as OpenApiDocument; // made by our own routes
  for (const methods of Object.values(document.paths ?? {})) {
    delete methods["head"];
    for (const operation of Object.values(methods)) answerErrorsInJson(operation);
  }
  return withEachSchemaOnce(document);
}

function answerErrorsInJson({ responses = {} }: Operation): void {
  for (const [status, response] of Object.entries(responses)) {
    const [content] = Object.values(response.content ?? {});
    if (Number(status) >= 400 && content !== undefined) response.content = { "application/json": content };
  }
}

function withEachSchemaOnce(document: OpenApiDocument): object {
  const { components = {}, ...rest } = document;
  const schemas = components.schemas ?? {};
  const used = usedSchemas(rest, schemas);
  const nameOf = (name: string): string => {
    const plain = name.replace(INPUT, "");
    if (plain === name || schemas[plain] === undefined) return name;
    return used.has(plain) && !isSame(schemas[plain], schemas[name]) ? name : plain;
  };
  const kept = Object.fromEntries([...used].map((name) => [nameOf(name), schemas[name]]));
  const whole = { ...rest, components: { ...components, schemas: kept } };
  const renamed = JSON.stringify(whole, (key, value: unknown) =>
    key === "$ref" && isReference(value) ? COMPONENTS + nameOf(value.slice(COMPONENTS.length)) : value,
  );
  return JSON.parse(renamed) as object;
}

/** Names of all that paths refer to, and what that refers to. */
function usedSchemas(paths: object, schemas: Readonly<Record<string, unknown>>): ReadonlySet<string> {
  const used = new Set<string>();
  const look = (value: unknown): void => {
    JSON.stringify(value, (key, one: unknown) => {
      const name = key === "$ref" && isReference(one) ? one.slice(COMPONENTS.length) : undefined;
      if (name !== undefined && !used.has(name)) {
        used.add(name);
        look(schemas[name]);
      }
      return one;
    });
  };
  look(paths);
  return used;
}

function isReference(value: unknown): value is string {
  return typeof value === "string" && value.startsWith(COMPONENTS);
}

/** But for the names of schemas that they refer to. */
function isSame(one: unknown, other: unknown): boolean {
  const plain = (value: unknown): string => JSON.stringify(value).replaceAll(/Input"/g, '"');
  return plain(one) === plain(other);
}
