/**
 * What one attempt needs, gathered right before it: the satellite as it may be run now, the input and config, and secrets.
 *
 *   stored input -> satellite resolved again -> secrets filled in -> schemas -> arguments
 *        \-> not_found, forbidden, secret_missing, too_large or invalid_input: the execution ends with that
 *
 * The only place where values of secrets are put beside what users gave; they live as long as the attempt.
 *
 * Limits: 32 secrets of 128 Ki characters in all, on either side; 1 Mi characters once they are filled in wherever they are named.
 */
import { PerigeeError } from "../../errors.ts";
import type { JobRetries } from "../../jobs/job.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import type { ResolvedSatellite, SatelliteResolver } from "../sdk/catalogue.ts";
import type { ExecutionError } from "../sdk/execution.ts";
import type { Satellite, SatelliteArguments } from "../sdk/satellite.ts";
import { createRedactor, type Redactor } from "../secrets/redaction.ts";
import { isExpanded } from "../secrets/secret_fields.ts";
import { fillSecrets, isSecretName, secretNames, secretPointers, textAt } from "../secrets/secret_texts.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { ExecutionFacts, GivenInput } from "./execution_record.ts";
import { checkSchemas } from "./execution_request.ts";

const SECRETS_MAX = 32;
const VALUES_CHARACTERS_MAX = 128 * 1024;
const FILLED_CHARACTERS_MAX = 1024 * 1024;

const ATTEMPTS_MAX = 8;

/** Where satellites, schemas and secrets are looked up, again for each attempt. */
export interface Lookups {
  readonly resolver: SatelliteResolver;
  readonly secrets: Pick<Secrets, "reveal">;
}

/** An attempt that can be made. */
export interface PreparedAttempt {
  readonly satellite: Satellite;
  /** As its schemas return them, with secrets. */
  readonly given: SatelliteArguments<JsonObject, JsonObject>;
  /** Of secrets, as they were filled in. */
  readonly secretValues: readonly string[];
  readonly redaction: Redactor;
  readonly retries: JobRetries;
}

/** Rejects with what is the process's own trouble: then it is tried again later. */
export async function prepareAttempt(
  lookups: Lookups,
  facts: ExecutionFacts,
  given: GivenInput,
): Promise<
  | { readonly ok: true; readonly prepared: PreparedAttempt }
  | { readonly ok: false; readonly error: ExecutionError }
> {
  const resolved = await resolve(lookups.resolver, facts);
  if ("code" in resolved) return { ok: false, error: resolved };
  const filled = await fill(lookups.secrets, facts, given, resolved);
  if ("code" in filled) return { ok: false, error: filled };
  const checked = await checkSchemas(resolved.satellite, filled);
  if (checked.ok)
    return { ok: true, prepared: preparedAttempt(resolved.satellite, checked.value, filled.values) };
  const [first] = checked.issues;
  const shown = `${first?.path ?? "input"}: ${first?.message ?? "is not as documented"}`;
  const message = createRedactor(filled.values).redact(shown);
  return { ok: false, error: { code: "invalid_input", message, retryable: false } };
}

/** What has passed the schemas and names no secret but `secretValues`. */
export function preparedAttempt(
  satellite: Satellite,
  given: SatelliteArguments<JsonObject, JsonObject>,
  secretValues: readonly string[],
): PreparedAttempt {
  const retries = {
    attemptsMax: Math.max(1, satellite.attemptsMax ?? ATTEMPTS_MAX),
    isRepeatable: isRepeatable(satellite, given),
  };
  return { satellite, given, secretValues, redaction: createRedactor(secretValues), retries };
}

async function resolve(
  resolver: SatelliteResolver,
  { project, keyId, isBeta, satellite }: ExecutionFacts,
): Promise<ResolvedSatellite | ExecutionError> {
  try {
    return await resolver.resolve({ project, keyId, isBeta }, satellite);
  } catch (error) {
    const code = error instanceof PerigeeError ? error.code : undefined;
    if (code === "not_found")
      return {
        code,
        message: "the satellite is not there any more, or not for this project",
        retryable: false,
      };
    if (code === "forbidden")
      return { code, message: "the key may not run this satellite", retryable: false };
    throw error;
  }
}

interface Filled extends SatelliteArguments<JsonObject, JsonObject> {
  readonly values: readonly string[];
}

/**
 * References in what the satellite's owner has fixed are the owner's secrets. The satellite of today decides where they are expanded:
 * what another version stored, or for another schema, does not allow filling in a prompt.
 */
async function fill(
  secrets: Pick<Secrets, "reveal">,
  { project }: ExecutionFacts,
  { input, config, secrets: pointers }: GivenInput,
  { fixedConfig, reference, satellite }: ResolvedSatellite,
): Promise<Filled | ExecutionError> {
  const own = { input, config }; // parsed only for this attempt
  const fixed = structuredClone({ config: fixedConfig }) as { readonly config: JsonObject };
  const expanded = (found: readonly string[]): readonly string[] =>
    found.filter((pointer) => isExpanded(satellite, pointer));
  const ownValues = await reveal(secrets, project, own, expanded(pointers));
  if ("code" in ownValues) return ownValues;
  const fixedValues = await reveal(secrets, reference.namespace, fixed, expanded(secretPointers(fixed)));
  if ("code" in fixedValues) return fixedValues;
  return {
    input: own.input,
    config: { ...own.config, ...fixed.config },
    values: [...ownValues.values(), ...fixedValues.values()],
  };
}

/** Fills them into `root` itself; returns those that were. */
async function reveal(
  secrets: Pick<Secrets, "reveal">,
  project: string,
  root: Json,
  pointers: readonly string[],
): Promise<ReadonlyMap<string, string> | ExecutionError> {
  const named = pointers.flatMap((pointer) => secretNames(textAt(root, pointer) ?? ""));
  const names = new Set(named);
  if (names.size > SECRETS_MAX) return tooMany(`it names more than ${SECRETS_MAX} secrets`);
  const values = new Map<string, string>();
  for (const name of names) {
    const value = isSecretName(name) ? await secrets.reveal(project, name) : undefined;
    if (value === undefined) return missing(name);
    values.set(name, value);
  }
  const lengthOf = (name: string): number => values.get(name)?.length ?? 0;
  if (sum([...names], lengthOf) > VALUES_CHARACTERS_MAX || sum(named, lengthOf) > FILLED_CHARACTERS_MAX)
    return tooMany("its secrets are too long, or named too often");
  fillSecrets(root, pointers, (name) => values.get(name) ?? "");
  return values;
}

function sum(names: readonly string[], lengthOf: (name: string) => number): number {
  return names.reduce((length, name) => length + lengthOf(name), 0);
}

function tooMany(message: string): ExecutionError {
  return { code: "too_large", message, retryable: false };
}

function missing(name: string): ExecutionError {
  return {
    code: "secret_missing",
    message: `there is no secret ${JSON.stringify(name.slice(0, 64))} in the project`,
    retryable: false,
  };
}

/** Who cannot say so is taken for one whose repetition does harm. */
function isRepeatable(satellite: Satellite, given: SatelliteArguments<JsonObject, JsonObject>): boolean {
  try {
    return typeof satellite.isRepeatable === "function"
      ? satellite.isRepeatable(given) === true
      : satellite.isRepeatable;
  } catch {
    return false;
  }
}
