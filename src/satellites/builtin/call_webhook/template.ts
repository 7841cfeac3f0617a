/**
 * Templates without logic: `{{name.path}}` is replaced by a value of the input, and nothing else means anything.
 *
 * A path walks own properties, and elements of lists by their number, to a text, a number or a boolean. What is not there
 * is an error, so that no request is sent with a hole in it: inherited properties, `__proto__`, objects, calls, blocks and
 * partials do not exist. Values are put in once; what they hold is not read as a template. Nothing is evaluated.
 *
 * Limit: values add 4 Mi characters to a template; a template may name one value thousands of times.
 */
import type { Json, JsonObject } from "../../../work/json.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";

const PLACEHOLDER = /\{\{([^{}]*)\}\}/g;
const WHOLE = /^\{\{([^{}]*)\}\}$/;
const PATH = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

const FILLED_CHARACTERS_MAX = 4 * 1024 * 1024;

/** Whether filling it in may change it. */
export function hasPlaceholder(text: string): boolean {
  return text.search(PLACEHOLDER) >= 0;
}

/** With the values as text, each through `encode`. Throws `missing_value` and `too_large`. */
export function fillText(template: string, values: JsonObject, encode: (text: string) => string): string {
  return new Filling(values).text(template, encode);
}

/**
 * Fills in every text of a JSON value. A text that is one placeholder and nothing else becomes the value as it is; within a
 * longer text it becomes text. So a value can never be more than its placeholder allows. Names of members are not changed.
 * Throws `missing_value` and `too_large`.
 */
export function fillJson(template: Json, values: JsonObject): Json {
  return new Filling(values).json(template);
}

/** One use of templates, with what it has room for. */
class Filling {
  readonly #values: JsonObject;
  #left = FILLED_CHARACTERS_MAX;

  constructor(values: JsonObject) {
    this.#values = values;
  }

  text(template: string, encode: (text: string) => string): string {
    return template.replace(PLACEHOLDER, (_, inner: string) => {
      const value = valueAt(inner, this.#values);
      return value === null ? missing(inner) : this.#taken(encode(String(value)));
    });
  }

  json(template: Json): Json {
    if (typeof template === "string") {
      const whole = WHOLE.exec(template);
      if (whole === null) return this.text(template, (text) => text);
      const value = valueAt(whole[1] ?? "", this.#values);
      this.#taken(String(value));
      return value;
    }
    if (Array.isArray(template)) return template.map((element) => this.json(element));
    if (typeof template !== "object" || template === null) return template;
    return Object.fromEntries(Object.entries(template).map(([name, member]) => [name, this.json(member)]));
  }

  #taken(text: string): string {
    this.#left -= text.length;
    if (this.#left >= 0) return text;
    throw new SatelliteError(
      "permanent",
      "too_large",
      `a template is filled in with more than ${FILLED_CHARACTERS_MAX} characters`,
    );
  }
}

type Scalar = string | number | boolean | null;

function valueAt(inner: string, values: JsonObject): Scalar {
  const path = inner.trim();
  if (!PATH.test(path)) return missing(path);
  let value: Json = values;
  for (const name of path.split(".")) {
    const next: Json | undefined = memberOf(value, name);
    if (next === undefined) return missing(path);
    value = next;
  }
  return typeof value === "object" && value !== null ? missing(path) : value;
}

function memberOf(value: Json, name: string): Json | undefined {
  if (typeof value !== "object" || value === null || name === "__proto__") return undefined;
  // A list has a length of its own, which nobody wrote there.
  if (Array.isArray(value) && !/^\d+$/.test(name)) return undefined;
  return Object.hasOwn(value, name) ? (value as JsonObject)[name] : undefined;
}

function missing(path: string): never {
  const shown = JSON.stringify(path.trim().slice(0, 100));
  throw new SatelliteError(
    "permanent",
    "missing_value",
    `the input has no text, number or boolean at ${shown}, which a template asks for`,
  );
}
