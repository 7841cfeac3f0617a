/**
 * Satellites as text for people.
 */
import { choicesOf, propertiesOf } from "../../satellites/sdk/json_schema.ts";
import type { JsonObject } from "../../work/json.ts";
import { table } from "../table.ts";

/** As the service shows one. */
export interface ShownSatellite {
  readonly satellite: string;
  readonly kind: string;
  readonly state: string;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly config_schema: JsonObject;
  readonly base: { readonly satellite: string; readonly fixed_config: readonly string[] } | null;
  readonly url: string | null;
  /** In the answer that made it. */
  readonly secret?: string;
}

interface ShownProperty {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly description?: string;
  readonly default?: unknown;
}

const DESCRIPTION_CHARACTERS_MAX = 60;

export function listText(satellites: readonly ShownSatellite[]): string {
  if (satellites.length === 0) return "no satellites\n";
  const rows = satellites.map(({ satellite, kind, state, description }) => [
    satellite,
    kind,
    state,
    description.length > DESCRIPTION_CHARACTERS_MAX
      ? `${description.slice(0, DESCRIPTION_CHARACTERS_MAX - 3)}...`
      : description,
  ]);
  return table([["satellite", "kind", "state", "description"], ...rows]);
}

export function describeText(one: ShownSatellite): string {
  const head = [
    `${one.satellite} (${one.kind}, ${one.state})`,
    ...(one.description === "" ? [] : [one.description]),
  ];
  const base =
    one.base === null ? [] : [`based on ${one.base.satellite}; fixed: ${one.base.fixed_config.join(", ")}`];
  const url = one.url === null ? [] : [`hosted at ${one.url}`];
  const fields = [...fieldsText("input", one.input_schema), ...fieldsText("config", one.config_schema)];
  return `${[...head, ...base, ...url, ...fields].join("\n")}\n`;
}

/** Properties of all choices of a schema, since most take one of several forms by what one of them says. */
function fieldsText(what: string, schema: JsonObject): string[] {
  const { properties, isOpen } = propertiesOf(schema);
  const { description = "" } = schema as { readonly description?: string }; // as JSON Schema has it
  const rows = [...properties.keys()].flatMap((name) => {
    const forms = formsOf(schema, name);
    const needs = isRequired(schema, name) ? "required" : defaultText(forms[0] ?? {});
    return forms.map((form, index) => [
      `  ${index === 0 ? name : ""}`,
      typeText(form),
      index === 0 ? needs : "",
      form.description ?? "",
    ]);
  });
  if (rows.length > 0) return ["", `${what}:`, table(rows).trimEnd()];
  return ["", isOpen ? `${what}: any fields. ${description}`.trimEnd() : `${what}: nothing`];
}

/** What a property is in each choice, if a constant in it distinguishes the choices; else what it is in the first. */
function formsOf(schema: JsonObject, name: string): readonly ShownProperty[] {
  const forms = new Map<unknown, ShownProperty>();
  const visit = (choice: JsonObject): void => {
    const { properties = {} } = choice as { readonly properties?: Readonly<Record<string, ShownProperty>> };
    const form = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (form !== undefined && !forms.has(form.const)) forms.set(form.const, form);
    for (const one of choicesOf(choice)) visit(one);
  };
  visit(schema);
  const constants = [...forms.values()].filter((form) => form.const !== undefined);
  if (constants.length === 0) return [...forms.values()].slice(0, 1);
  if (constants.some((form) => form.description !== undefined)) return constants;
  return [{ enum: constants.map((form) => form.const) }];
}

/** By the schema itself, or by all of its choices. */
function isRequired(schema: JsonObject, name: string): boolean {
  const { required = [] } = schema as { readonly required?: readonly string[] }; // as JSON Schema has it
  const choices = choicesOf(schema);
  return required.includes(name) || (choices.length > 0 && choices.every((one) => isRequired(one, name)));
}

function typeText({ type, const: one, enum: known }: ShownProperty): string {
  if (one !== undefined) return JSON.stringify(one);
  if (known !== undefined) return known.map((one) => JSON.stringify(one)).join(" | ");
  return type === undefined ? "any" : [type].flat().join(" | ");
}

function defaultText(property: ShownProperty): string {
  return property.default === undefined ? "" : `default ${JSON.stringify(property.default)}`;
}
