/**
 * JSON Schemas for answers: read, refused where they cannot be used, and checked against. The only import of ajv, loaded with the first
 * schema.
 *
 *   $schema of draft-06 or -07, 2019-09    that draft; otherwise 2020-12
 *   refused with `invalid_config`          invalid by its draft, `false`, a reference out of the schema or to itself without end, a
 *                                          pattern that is invalid or hangs, above 1 MiB or 64 levels, or one that takes longer than
 *                                          5 s to compile
 *
 * Names that no draft knows are passed over, formats are checked as far as ajv-formats knows them.
 *
 * A check may take time that grows without bound with a small schema (definitions that apply each other twice, or lists of unique items), so
 * that of a schema that is long or has such members runs under a time limit of 1 s, which costs about 0.5 ms. All others are checked at once.
 * The time of all checks and compilations that take long is limited, too: slow_schemas.ts.
 *
 * To leave: any validator of JSON Schema that reports places and takes its regular expressions from outside.
 */
import { readFile } from "node:fs/promises";
import { createContext, Script } from "node:vm";
import type { ErrorObject, Options } from "ajv";
import { systemClock } from "./clock.ts";
import { errorCodeOf } from "./disk.ts";
import { messageOf, PerigeeError } from "./errors.ts";
import { safePattern } from "./safe_pattern.ts";
import { SlowSchemas } from "./slow_schemas.ts";
import { isObject, type Json, type JsonObject } from "./work/json.ts";

/** A schema that answers are checked against. */
export interface AnswerCheck {
  /**
   * What does not fit, in words with places (`/price: must be number`); undefined for a value that fits. Throws `UnendingCheck`
   * where the check itself takes too long.
   */
  fault(value: unknown): string | undefined;
}

/** A check that takes too long, whatever the answer. */
export class UnendingCheck extends Error {}

const SCHEMA_CHARS_MAX = 1024 * 1024;
const DEPTH_MAX = 64;
/** Faults that are listed. */
const FAULTS_MAX = 8;
/** Characters of all faults together. */
const FAULT_CHARS_MAX = 2_000;
const SLOW = new SlowSchemas();
/** Schemas up to this length without the members below are checked at once. */
const PLAIN_CHARS = 4_096;
const SLOW_MEMBERS = /"(?:\$ref|\$dynamicRef|\$recursiveRef|uniqueItems)"/;
/** Compiled schemas that are kept; work with more different ones compiles them again, in about 2 ms each. */
const KEPT_MAX = 256;
/** A value of each type: a schema that leads to itself without end for one of them is refused. */
const PROBES: readonly Json[] = [null, true, 0, "", [], {}];

type RegExpEngine = NonNullable<NonNullable<Options["code"]>["regExp"]>;

type CompiledSchema = ((value: unknown) => boolean) & { errors?: ErrorObject[] | null };

/** What is used of an ajv instance. */
interface Compiler {
  compile(schema: object | boolean): CompiledSchema;
  removeSchema(schema: object | boolean): unknown;
}

interface Validators {
  readonly draft7: Compiler;
  readonly draft2019: Compiler;
  readonly draft2020: Compiler;
}

let makeValidators: (() => Validators) | undefined;
let validators: Validators | undefined;
const kept = new Map<string, AnswerCheck | PerigeeError>();

/** Loads the validator, in 200 ms; at once when it is loaded. To be called before `answerCheck`. */
export async function loadValidators(): Promise<void> {
  if (makeValidators !== undefined) return;
  const [{ Ajv }, { Ajv2019 }, { Ajv2020 }, formats] = await Promise.all([
    import("ajv"),
    import("ajv/dist/2019.js"),
    import("ajv/dist/2020.js"),
    import("ajv-formats"),
  ]);
  const options: Options = {
    allErrors: true,
    strict: false,
    logger: false,
    validateFormats: true,
    code: { regExp: Object.assign(safePattern, { code: "safePattern" }) as RegExpEngine },
  };
  const addFormats = formats.default as unknown as (ajv: object) => void; // its types are those of an ES module
  makeValidators ??= () => {
    const made = {
      draft7: new Ajv(options),
      draft2019: new Ajv2019(options),
      draft2020: new Ajv2020(options),
    };
    for (const ajv of Object.values(made)) addFormats(ajv);
    return made;
  };
}

/** The check for a schema, which is JSON text. Throws `invalid_config`. */
export function answerCheck(json: string): AnswerCheck {
  const known = kept.get(json);
  if (known instanceof PerigeeError) throw known;
  if (known !== undefined) return known;
  if (kept.size >= KEPT_MAX) kept.clear();
  try {
    const check = compiled(json);
    kept.set(json, check);
    return check;
  } catch (error) {
    if (error instanceof PerigeeError) kept.set(json, error);
    throw error;
  }
}

/** The schema in a file, checked. Throws `input_unreadable`, `invalid_config`. */
export async function readSchemaFile(path: string): Promise<JsonObject | boolean> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    const code = errorCodeOf(cause);
    const why = code === "ENOENT" ? "does not exist" : `cannot be read (${code ?? messageOf(cause)})`;
    throw new PerigeeError("input_unreadable", `the schema ${path} ${why}`, { cause });
  });
  try {
    const schema = parsed(text.replace(/^\uFEFF/, ""));
    await loadValidators();
    answerCheck(JSON.stringify(schema));
    return schema as JsonObject | boolean; // others are refused
  } catch (error) {
    if (!(error instanceof PerigeeError)) throw error;
    throw new PerigeeError(error.code, `${path}: ${error.message}`, { cause: error });
  }
}

function parsed(json: string): Json {
  if (json.length > SCHEMA_CHARS_MAX)
    throw refused(`it has ${json.length} characters, at most ${SCHEMA_CHARS_MAX} are allowed`);
  try {
    return JSON.parse(json) as Json; // JSON has no other values
  } catch (cause) {
    throw refused(`it is not JSON: ${messageOf(cause)}`, cause);
  }
}

function compiled(json: string): AnswerCheck {
  if (makeValidators === undefined) throw new Error("the validators are not loaded");
  validators ??= makeValidators();
  const schema = parsed(json);
  if (typeof schema !== "boolean" && !isObject(schema)) throw refused("it must be an object or true");
  if (schema === false) throw refused("no answer fits false; for any JSON use true");
  if (isDeeper(schema, DEPTH_MAX)) throw refused(`it is nested deeper than ${DEPTH_MAX} levels`);
  const ajv = compilerFor(schema, validators);
  const mostMs = SLOW.compileMs(systemClock.nowMs());
  try {
    const check = compiledWithin(mostMs, () => ajv.compile(schema));
    const fault = (value: unknown): string | undefined =>
      check(value) ? undefined : faultText(check.errors ?? []);
    if (json.length <= PLAIN_CHARS && !SLOW_MEMBERS.test(json)) return { fault };
    const bounded = boundedCheck(fault);
    for (const probe of PROBES) bounded.fault(probe);
    return bounded;
  } catch (cause) {
    if (cause instanceof UnendingCheck) throw refused(cause.message, cause);
    if (!isTimeout(cause)) throw refused(reasonOf(cause), cause);
    validators = undefined; // what it kept of this schema is not whole
    throw refused(`it takes longer than ${mostMs / 1_000} s to compile`, cause);
  } finally {
    if (typeof schema === "object") ajv.removeSchema(schema); // it refuses true and false
  }
}

function compiledWithin(mostMs: number, compile: () => CompiledSchema): CompiledSchema {
  const beganMs = systemClock.nowMs();
  try {
    return withinMs(mostMs, compile);
  } finally {
    const endedMs = systemClock.nowMs();
    SLOW.compiled(endedMs - beganMs, endedMs);
  }
}

/** A check that ends in any case. */
function boundedCheck(fault: AnswerCheck["fault"]): AnswerCheck {
  const time = SLOW.schema();
  return {
    fault: (value) => {
      const beganMs = systemClock.nowMs();
      const mostMs = time.checkMs(beganMs);
      if (mostMs === 0) throw new UnendingCheck("its checks took several seconds together");
      try {
        return withinMs(mostMs, () => fault(value));
      } catch (error) {
        if (error instanceof RangeError)
          throw new UnendingCheck('a "$ref" of it leads to itself without end', { cause: error });
        if (!isTimeout(error)) throw error;
        throw new UnendingCheck(`its check takes longer than ${mostMs / 1_000} s`, { cause: error });
      } finally {
        const endedMs = systemClock.nowMs();
        time.checked(endedMs - beganMs, endedMs);
      }
    },
  };
}

const RUN = new Script("run()");
/** One for all: to make one takes 1.5 ms. */
let context: { run: () => unknown } | undefined;

/** What the function returns. Throws what `isTimeout` knows when it takes longer; may be called by what it runs. */
function withinMs<T>(timeoutMs: number, run: () => T): T {
  context ??= createContext({ run }) as { run: () => unknown };
  context.run = run;
  return RUN.runInContext(context, { timeout: timeoutMs }) as T; // what `run` returns
}

/** An error of the other context is not an instance of this one's Error. */
function isTimeout(error: unknown): boolean {
  return (error as { readonly code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
}

function compilerFor(schema: Json, { draft7, draft2019, draft2020 }: Validators): Compiler {
  const draft = isObject(schema) ? schema["$schema"] : undefined;
  if (typeof draft !== "string") return draft2020;
  if (/draft-0[67]/.test(draft)) return draft7;
  if (draft.includes("2019-09")) return draft2019;
  if (draft.includes("2020-12")) return draft2020;
  throw refused(
    `its $schema ${JSON.stringify(draft.slice(0, 100))} is not known; expected draft-07, 2019-09 or 2020-12`,
  );
}

function isDeeper(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner as Json, levels - 1));
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  if (isStackOverflow(cause)) return 'a "$ref" of it leads to itself without end';
  if ("missingRef" in cause)
    return `it refers to ${JSON.stringify(cause.missingRef)}, which is not in it; put what it refers to into "$defs"`;
  return cause.message.slice(0, FAULT_CHARS_MAX);
}

function refused(reason: string, cause?: unknown): PerigeeError {
  return new PerigeeError("invalid_config", `the schema cannot be used: ${reason}`, { cause });
}

function isStackOverflow(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes("call stack"); // refused patterns are RangeErrors, too
}

/** Places are JSON pointers; the whole answer is `/`. */
function faultText(errors: readonly ErrorObject[]): string {
  const shown = errors.slice(0, FAULTS_MAX).map(({ instancePath, message = "does not fit", params }) => {
    const extra: unknown = params["additionalProperty"] ?? params["allowedValues"] ?? params["allowedValue"];
    const detail = extra === undefined ? "" : ` (${JSON.stringify(extra)})`;
    return `${instancePath === "" ? "/" : instancePath}: ${message}${detail}`;
  });
  const more = errors.length > FAULTS_MAX ? `; and ${errors.length - FAULTS_MAX} more` : "";
  return `${shown.join("; ").slice(0, FAULT_CHARS_MAX)}${more}`;
}
