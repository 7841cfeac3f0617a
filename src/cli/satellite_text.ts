/**
 * Satellites as text for people.
 */
import { table } from "./table.ts";

/** As the service shows one. */
export interface ShownSatellite {
  readonly satellite: string;
  readonly kind: string;
  readonly state: string;
  readonly description: string;
  readonly input_schema: ShownSchema;
  readonly config_schema: ShownSchema;
  readonly base: { readonly satellite: string; readonly fixed_config: readonly string[] } | null;
  readonly url: string | null;
  /** In the answer that made it. */
  readonly secret?: string;
}

/** JSON Schema of an object, of which properties are shown. */
interface ShownSchema {
  readonly properties?: Readonly<Record<string, ShownProperty | boolean>>;
  readonly required?: readonly string[];
}

interface ShownProperty {
  readonly type?: string | readonly string[];
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
    one.base === null ? [] : [`stands on ${one.base.satellite}; fixed: ${one.base.fixed_config.join(", ")}`];
  const url = one.url === null ? [] : [`hosted at ${one.url}`];
  const fields = [...fieldsText("input", one.input_schema), ...fieldsText("config", one.config_schema)];
  return `${[...head, ...base, ...url, ...fields].join("\n")}\n`;
}

function fieldsText(what: string, { properties = {}, required = [] }: ShownSchema): string[] {
  const rows = Object.entries(properties).map(([name, given]) => {
    const property = typeof given === "object" ? given : {};
    return [
      `  ${name}`,
      typeText(property),
      required.includes(name) ? "required" : defaultText(property),
      property.description ?? "",
    ];
  });
  return [
    "",
    `${what}:${rows.length === 0 ? " nothing" : ""}`,
    ...(rows.length === 0 ? [] : [table(rows).trimEnd()]),
  ];
}

function typeText({ type, enum: known }: ShownProperty): string {
  if (known !== undefined) return known.map((one) => JSON.stringify(one)).join(" | ");
  return type === undefined ? "any" : [type].flat().join(" | ");
}

function defaultText(property: ShownProperty): string {
  return property.default === undefined ? "" : `default ${JSON.stringify(property.default)}`;
}
