/**
 * The environment variables that begin with PERIGEE_: a misspelt one is refused, because it would do nothing.
 *
 *   PERIGEE_PROVIDER_<NAME>_KEY, _BASE_URL      a base URL makes its name known; a key may be of a provider that is configured later
 *   PERIGEE_LIMIT_<NAME>_RPM, _TPM, _CONCURRENCY
 *   those of NAMES, and PERIGEE_TEST_..., which tests of perigee read
 */
import { PerigeeError } from "../../errors.ts";
import { nearest, suggestion } from "../../nearest.ts";

const PREFIX = "PERIGEE_";
/** Read by the engine, the command line, the service and hosts of satellites. */
const NAMES: readonly string[] = [
  "PERIGEE_MAX_INFLIGHT",
  "PERIGEE_DELIVERY",
  "PERIGEE_EGRESS_ALLOW",
  "PERIGEE_API_KEY",
  "PERIGEE_SECRETS_KEY",
  "PERIGEE_SECRETS_KEY_FILE",
  "PERIGEE_SECRETS_OLD_KEY",
  "PERIGEE_SECRETS_OLD_KEY_FILE",
  "PERIGEE_ORBIT_SECRETS",
  "PERIGEE_ORBIT_SECRETS_FILE",
  "PERIGEE_WATCHDOG_SECONDS",
  "PERIGEE_DEBUG",
];
const OF_PROVIDER =
  /^PERIGEE_(?:PROVIDER_([A-Z0-9_]+?)_(?:BASE_URL|KEY)|LIMIT_([A-Z0-9_]+?)_(?:RPM|TPM|CONCURRENCY))$/;
const ENDS: readonly (readonly [start: string, ends: readonly string[]])[] = [
  ["PERIGEE_PROVIDER_", ["_BASE_URL", "_KEY"]],
  ["PERIGEE_LIMIT_", ["_RPM", "_TPM", "_CONCURRENCY"]],
];

/**
 * Throws `invalid_config` for the first variable that nobody reads. `providers` are the names of all that are configured;
 * absent where they are of no concern.
 */
export function checkVariables(
  env: Readonly<Record<string, string | undefined>>,
  providers?: Iterable<string>,
): void {
  const names = providers === undefined ? undefined : [...providers].map(capitals);
  for (const variable in env) {
    if (!variable.startsWith(PREFIX) || variable.startsWith("PERIGEE_TEST_") || env[variable] === "")
      continue;
    const fault = NAMES.includes(variable) ? undefined : faultOf(variable, names);
    if (fault !== undefined) throw new PerigeeError("invalid_config", `${variable} ${fault}`);
  }
}

function faultOf(variable: string, providers: readonly string[] | undefined): string | undefined {
  const match = OF_PROVIDER.exec(variable);
  if (match === null) return `is not a known variable${hintOf(variable, providers ?? [])}`;
  const name = match[1] ?? match[2] ?? "";
  if (providers === undefined || providers.includes(name)) return undefined;
  const meant = nearest(name, providers);
  if (meant === undefined) return undefined; // of a provider that is not configured now
  return `is of a provider that is not configured; did you mean "${variable.replace(name, meant)}"?`;
}

function hintOf(variable: string, providers: readonly string[]): string {
  for (const [start, ends] of ENDS) {
    if (!variable.startsWith(start)) continue;
    const known = providers.flatMap((name) => ends.map((end) => `${start}${name}${end}`));
    const near = nearest(variable, known);
    return near === undefined
      ? `; expected ${ends.map((end) => `${start}<NAME>${end}`).join(" or ")}`
      : `; did you mean "${near}"?`;
  }
  const hint = suggestion(variable, NAMES);
  return hint === "" || hint.startsWith("expected")
    ? "; perigee does not read a variable of that name"
    : `; ${hint}`;
}

function capitals(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}
