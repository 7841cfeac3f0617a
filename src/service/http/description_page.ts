/**
 * The description as a page: HTML without scripts, readable on a phone, in the colours the reader's system asks for.
 */

export const PAGE_STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 56rem; margin: 0 auto; padding: 1rem; }
h2 { margin-top: 2.5rem; font-size: 1.1rem; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.875rem; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; }
.method { text-transform: uppercase; font-weight: 700; margin-right: 0.5rem; }
`;

interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content?: Readonly<Record<string, { readonly schema?: unknown }>> };
  readonly responses?: Readonly<Record<string, Response>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
}

interface Response {
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly schema?: unknown }>>;
}

interface Description {
  readonly info?: { readonly title?: string; readonly version?: string; readonly description?: string };
  readonly paths?: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components?: { readonly schemas?: Readonly<Record<string, unknown>> };
}

/** `document` is an OpenAPI document of this service. */
export function descriptionPage(document: unknown): string {
  const { info, paths, components } = document as Description; // made by our own routes
  const operations = Object.entries(paths ?? {}).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationHtml(path, method, operation)),
  );
  const schemas = Object.entries(components?.schemas ?? {}).map(
    ([name, schema]) => `<h2 id="${escaped(name)}">${escaped(name)}</h2>${jsonHtml(schema)}`,
  );
  return [
    "<!doctype html>",
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${escaped(info?.title ?? "")}</title><style>${PAGE_STYLE}</style></head><body>`,
    `<h1>${escaped(info?.title ?? "")} ${escaped(info?.version ?? "")}</h1>`,
    `<p>${escaped(info?.description ?? "")} The same for programs: <a href="openapi.json">openapi.json</a>.</p>`,
    ...operations,
    "<h1>Schemas</h1>",
    ...schemas,
    "</body></html>",
  ].join("\n");
}

function operationHtml(path: string, method: string, operation: Operation): string {
  const { summary, description, parameters = [], requestBody, responses = {} } = operation;
  const body = Object.values(requestBody?.content ?? {})[0]?.schema;
  return [
    `<section><h2><code><span class="method">${escaped(method)}</span>${escaped(path)}</code></h2>`,
    ...[summary, description].map((text) => (text === undefined ? "" : `<p>${escaped(text)}</p>`)),
    parameters.length === 0 ? "" : table(["parameter", "in", "meaning"], parameters.map(parameterRow)),
    body === undefined ? "" : `<p>Body</p>${jsonHtml(body)}`,
    table(["status", "answer", "body"], Object.entries(responses).map(responseRow)),
    "</section>",
  ].join("\n");
}

function parameterRow({ name, in: place, required, description }: Parameter): readonly string[] {
  const need = required === true ? "" : "optional. ";
  return [`<code>${escaped(name)}</code>`, escaped(place), escaped(need + (description ?? ""))];
}

function responseRow([status, { description, content }]: [string, Response]): readonly string[] {
  return [escaped(status), escaped(description ?? ""), schemaLink(Object.values(content ?? {})[0]?.schema)];
}

function schemaLink(schema: unknown): string {
  const reference = JSON.stringify(schema ?? "").match(/#\/components\/schemas\/(\w+)/)?.[1];
  return reference === undefined ? "" : `<a href="#${escaped(reference)}">${escaped(reference)}</a>`;
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const head = heads.map((text) => `<th>${text}</th>`).join("");
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("\n");
  return `<table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
}

function jsonHtml(value: unknown): string {
  return `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string);
}
