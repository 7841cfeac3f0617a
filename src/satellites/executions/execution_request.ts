/**
 * A request, checked before it becomes an execution: form, size, sla, and the satellite's own schemas.
 *
 * Every fault is an issue with its path, such as `input.files[2].url`; they are refused together. Texts in which `secret://name`
 * is expanded (`secret_fields.ts`) are never a fault by the schema: they are checked again when they are filled in.
 *
 * Limits: input and config 1 MiB of JSON together and 64 levels, sla 1 s to 30 d.
 */
import { PerigeeError } from "../../errors.ts";
import { isObject, type JsonObject } from "../../work/json.ts";
import { parseDurationMs } from "../../work/sla.ts";
import type { ResolvedSatellite } from "../sdk/catalogue.ts";
import type { ExecutionRequest } from "../sdk/execution.ts";
import { copyJson } from "../sdk/json_copy.ts";
import type { Satellite, SatelliteArguments, Schema } from "../sdk/satellite.ts";
import { isExpanded, type MarkedSatellite } from "../secrets/secret_fields.ts";
import { pointerOf, secretNames, secretPointers, textAt } from "../secrets/secret_texts.ts";
import type { ExecutionFacts, GivenInput } from "./execution_record.ts";

const INPUT_BYTES_MAX = 1 << 20;
const SLA_MS_MAX = 30 * 86_400_000;
const ISSUES_MAX = 20;
const DESTINATION_CHARS_MAX = 256;
const DESTINATION_CONCURRENCY = 16;

/** Where a request is wrong. */
export interface RequestIssue {
  readonly path: string;
  readonly message: string;
}

/** A request of the right form and size. */
export interface GivenRequest {
  readonly given: GivenInput;
  /** `given` as it is stored. */
  readonly payload: Uint8Array;
  readonly slaMs: number;
}

/** For the satellite that is to run. Throws `invalid_request` (`details.issues`) and `too_large`. */
export function checkRequest(request: ExecutionRequest, satellite: MarkedSatellite): GivenRequest {
  const slaMs = parseDurationMs(request.sla) ?? 0;
  const issues: RequestIssue[] = [];
  if (!(slaMs > 0 && slaMs <= SLA_MS_MAX))
    issues.push({
      path: "sla",
      message: 'must be a duration from 1 second to 30 days, such as "90s", "30m", "24h" or "7d"',
    });
  const input = jsonObject(request.input, "input", issues);
  const config = jsonObject(request.config, "config", issues);
  refuse(issues);
  const wanted = request.secretPaths === undefined ? undefined : new Set(request.secretPaths);
  const secrets = secretPointers({ input, config }).filter(
    (pointer) => (wanted?.has(pointer) ?? true) && isExpanded(satellite, pointer),
  );
  const given = { input, config, secrets };
  const payload = new TextEncoder().encode(JSON.stringify(given));
  if (payload.byteLength > INPUT_BYTES_MAX)
    throw new PerigeeError("too_large", `input and config have more than ${INPUT_BYTES_MAX} bytes`);
  return { given, payload, slaMs };
}

/** What the satellite will see. */
export interface CheckedArguments {
  readonly value: SatelliteArguments<JsonObject, JsonObject>;
  /** Nothing is to be filled in, and nothing of it is the satellite's owner's: an attempt may run with it. */
  readonly isWhole: boolean;
}

/** What the satellite will see, as far as its schemas can check it before secrets are filled in. Throws `invalid_request`. */
export async function checkArguments(
  { satellite, fixedConfig }: ResolvedSatellite,
  { input, config, secrets }: GivenInput,
): Promise<CheckedArguments> {
  const merged = { ...config, ...fixedConfig };
  const fixed = secretPointers({ config: fixedConfig }).filter((pointer) => isExpanded(satellite, pointer));
  const pointers = [...secrets, ...fixed];
  const checked = await checkSchemas(satellite, { input, config: merged });
  const isWhole = pointers.length === 0 && Object.keys(fixedConfig).length === 0;
  if (checked.ok) return { value: checked.value, isWhole };
  const named = new Set(pointers);
  const around = pointersUpFrom(pointers);
  refuse(
    checked.issues.filter(({ pointer, isUnion }) => !(isUnion ? around : named).has(pointer)).map(shown),
  );
  return { value: { input, config: merged }, isWhole: false };
}

/** Its destination; of an input that was not checked because of its secrets, as far as the satellite knows it. */
export function destinationOf(
  { reference, satellite }: ResolvedSatellite,
  project: string,
  { value }: CheckedArguments,
  { input, config, secrets }: GivenInput,
): ExecutionFacts["destination"] {
  let destination: string | undefined;
  try {
    destination = satellite.destination?.(value)?.slice(0, DESTINATION_CHARS_MAX);
  } catch {
    return undefined; // it reads what is not filled in yet
  }
  if (destination === undefined) return undefined;
  const named = destination;
  const names = secrets.flatMap((pointer) => secretNames(textAt({ input, config }, pointer) ?? ""));
  // The same name of another project's secret leads elsewhere.
  const owner = names.some((name) => name !== "" && named.includes(name)) ? [project] : [];
  const name = JSON.stringify([reference.namespace, reference.name, destination, ...owner]);
  return { name, concurrency: Math.max(1, satellite.destinationConcurrency ?? DESTINATION_CONCURRENCY) };
}

/** An issue of a schema, with its path as pointer and as it is shown. */
interface SchemaIssue {
  readonly pointer: string;
  readonly path: string;
  readonly message: string;
  /** Whether it is that nothing of a union fits, whose members may be at fault below it. */
  readonly isUnion: boolean;
}

type Checked =
  | { readonly ok: true; readonly value: SatelliteArguments<JsonObject, JsonObject> }
  | { readonly ok: false; readonly issues: readonly SchemaIssue[] };

/** Input and config as the satellite's schemas return them. A schema that throws is a fault of the satellite's. */
export async function checkSchemas(
  satellite: Pick<Satellite, "input" | "config">,
  given: SatelliteArguments<JsonObject, JsonObject>,
): Promise<Checked> {
  const input = await validated(satellite.input, given.input, "input");
  const config = await validated(satellite.config, given.config, "config");
  if (input.ok && config.ok) return { ok: true, value: { input: input.value, config: config.value } };
  return { ok: false, issues: [...(input.ok ? [] : input.issues), ...(config.ok ? [] : config.issues)] };
}

async function validated(
  schema: Schema<JsonObject>,
  value: JsonObject,
  name: "input" | "config",
): Promise<
  | { readonly ok: true; readonly value: JsonObject }
  | { readonly ok: false; readonly issues: readonly SchemaIssue[] }
> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return { ok: true, value: result.value };
  const issues = result.issues.map((issue) => {
    const parts = (issue.path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    return {
      pointer: pointerOf([name, ...parts]),
      path: name + parts.map(shownPart).join(""),
      message: issue.message,
      isUnion: Object.hasOwn(issue, "errors"), // zod's `invalid_union`
    };
  });
  return { ok: false, issues };
}

function shownPart(part: PropertyKey): string {
  return typeof part === "number" ? `[${part}]` : `.${String(part)}`;
}

function shown({ path, message }: SchemaIssue): RequestIssue {
  return { path, message };
}

/** These, and those of everything that they are in: looked up, since there may be as many as there are issues. */
function pointersUpFrom(pointers: readonly string[]): ReadonlySet<string> {
  const all = new Set<string>();
  for (const pointer of pointers)
    for (let at = pointer; at !== "" && !all.has(at); at = at.slice(0, at.lastIndexOf("/"))) all.add(at);
  return all;
}

function jsonObject(value: unknown, path: string, issues: RequestIssue[]): JsonObject {
  const copied = copyJson(value);
  if (copied.ok && isObject(copied.value)) return copied.value;
  issues.push({ path, message: copied.ok ? "must be an object" : `must be JSON: ${copied.reason}` });
  return {};
}

function refuse(issues: readonly RequestIssue[]): void {
  const [first] = issues;
  if (first === undefined) return;
  throw new PerigeeError("invalid_request", `${first.path}: ${first.message}`, {
    details: { param: first.path, issues: issues.slice(0, ISSUES_MAX) },
  });
}
