/** Compares what was sent with what a vendor documents: `test/fixtures/wire/<receiver>/<name>.json`, with its source. */
import { readFileSync } from "node:fs";

export interface Documented {
  /** Where it is documented. */
  readonly source: string;
  /** An example with every documented member; `*` means any name, and null there for any value. */
  readonly request: unknown;
  readonly response: unknown;
}

export function documented(path: string): Documented {
  const url = new URL(`../../fixtures/wire/${path}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8")) as Documented;
}

/** Members that the documents do not have, and those of another type. Of a list, each element must be like one of theirs. */
export function undocumented(sent: unknown, example: unknown, path = "$"): string[] {
  if (typeOf(sent) !== typeOf(example)) return [`${path}: ${typeOf(sent)}, documented as ${typeOf(example)}`];
  if (Array.isArray(sent) && Array.isArray(example))
    return sent.flatMap((element, index) => {
      const found = example.map((one) => undocumented(element, one, `${path}[${index}]`));
      return found.some((list) => list.length === 0) ? [] : (found[0] ?? []);
    });
  if (typeof sent !== "object" || sent === null) return [];
  const names = example as Readonly<Record<string, unknown>>;
  return Object.entries(sent).flatMap(([name, value]) => {
    if (Object.hasOwn(names, name)) return undocumented(value, names[name], `${path}.${name}`);
    if (!Object.hasOwn(names, "*")) return [`${path}.${name}: not documented`];
    return names["*"] === null ? [] : undocumented(value, names["*"], `${path}.${name}`);
  });
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return "list";
  return value === null ? "null" : typeof value;
}
