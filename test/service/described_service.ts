/**
 * A service beside its description: sends, and checks that status and body are as documented.
 */
import { expect } from "vitest";
import { z } from "zod";
import type { Conformance } from "./conformance_files.ts";
import type { Whole, WholeAnswer, WholeCall } from "./whole.ts";

const UNKNOWN = "00000000-0000-4000-8000-000000000000";

export interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly security?: readonly object[];
  readonly requestBody?: { readonly content: Readonly<Record<string, unknown>> };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { schema: object }>> }>
  >;
}

interface Description {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

type Place = readonly [path: string, method: string, operation: Operation];

export class DescribedService implements Conformance {
  readonly whole: Whole;
  readonly description: Description;
  /** What was answered, as `METHOD path status`. */
  readonly seen: Set<string> = new Set();
  readonly #validators = new Map<object, z.ZodType>();

  private constructor(whole: Whole, description: Description) {
    this.whole = whole;
    this.description = description;
  }

  /** Reads the description of a service. */
  static async of(whole: Whole): Promise<DescribedService> {
    const { text } = await whole.call("GET", "/openapi.json", { key: "" });
    return new DescribedService(whole, JSON.parse(text) as Description);
  }

  documented(): Place[] {
    return Object.entries(this.description.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]): Place => [path, method.toUpperCase(), operation]),
    );
  }

  /** Without those that are proven by a signature or a token instead of a key: provider_events.test.ts answers for them. */
  operations(): Place[] {
    return this.documented().filter(([path]) => !path.startsWith("/v0/provider-events/"));
  }

  readonly check: Conformance["check"] = async (
    path: string,
    method: string,
    values: Record<string, string>,
    call: WholeCall & { query?: string } = {},
  ): Promise<WholeAnswer> => {
    const url = path.replace(/\{(\w+)\}/g, (_match, name: string) => values[name] ?? UNKNOWN);
    const answer = await this.whole.call(method, url + (call.query ?? ""), call);
    const documented = this.description.paths[path]?.[method.toLowerCase()]?.responses ?? {};
    const place = `${method} ${path} ${answer.status}`;
    expect([place, Object.keys(documented)]).toEqual([
      place,
      expect.arrayContaining([String(answer.status)]),
    ]);
    this.seen.add(place);
    const schema = documented[String(answer.status)]?.content?.["application/json"]?.schema;
    const isJson = answer.headers.get("content-type")?.startsWith("application/json") === true;
    if (schema !== undefined && isJson) {
      const parsed = this.#validator(schema).safeParse(JSON.parse(answer.text));
      expect([place, parsed.error?.issues ?? []]).toEqual([place, []]);
    }
    return answer;
  };

  #validator(schema: object): z.ZodType {
    const known = this.#validators.get(schema);
    if (known !== undefined) return known;
    const text = JSON.stringify({ ...schema, $defs: this.description.components.schemas });
    const made = z.fromJSONSchema(JSON.parse(text.replaceAll("#/components/schemas/", "#/$defs/")) as never);
    this.#validators.set(schema, made);
    return made;
  }
}
