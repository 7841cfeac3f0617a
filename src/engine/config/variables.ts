/**
 * The environment variables that begin with PERIGEE_: a misspelt one is refused, because it would do nothing.
 *
 *   PERIGEE_PROVIDER_<NAME>_KEY, _BASE_URL      a base URL makes its name known; a key may be of a provider that is configured later,
 *                                               but not if <NAME> ends in a word of the setting: PERIGEE_PROVIDER_MYBOX_API_KEY
 *   PERIGEE_PROVIDER_<NAME>_WEBHOOK_SECRET, _WEBHOOK_TOKEN    event_secrets.ts; only the service uses them
 *   PERIGEE_LIMIT_<NAME>_RPM, _TPM, _CONCURRENCY
 *   those of NAMES, and PERIGEE_TEST_..., which tests of perigee read
 */
import { PerigeeError } from "../../errors.ts";
import { nearest, suggestion } from "../../nearest.ts";
import { providerCapitals } from "../../work/provider_capitals.ts";

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
  /^PERIGEE_(?:PROVIDER_([A-Z0-9_]+?)_(?:BASE_URL|BATCH_CHAT_URL|KEY|WEBHOOK_SECRET|WEBHOOK_TOKEN)|LIMIT_([A-Z0-9_]+?)_(?:RPM|TPM|CONCURRENCY))$/;
/** What a name has too much that is read from `..._API_KEY`, `..._API_BASE_URL` or `..._MAX_CONCURRENCY`. */
const WORDS_OF_SETTINGS = /(?:(?:^|_)(?:API|AUTH|ACCESS|BASE|SECRET|TOKEN|MAX|LIMIT))+$/;
const ENDS: readonly (readonly [start: string, ends: readonly string[]])[] = [
  ["PERIGEE_PROVIDER_", ["_BASE_URL", "_KEY"]],
  ["PERIGEE_LIMIT_", ["_RPM", "_TPM", "_CONCURRENCY"]],
];

type Environment = Readonly<Record<string, string | undefined>>;

/** Providers that the environment makes known: any name with a base URL. */
export function namesIn(env: Environment): string[] {
  return Object.keys(env).flatMap((variable) => {
    const match = /^PERIGEE_PROVIDER_([A-Z0-9_]+)_BASE_URL$/.exec(variable);
    const name = match?.[1]?.toLowerCase();
    return name === undefined || env[variable] === "" ? [] : [name];
  });
}

/**
 * Throws `invalid_config` for the first variable that nobody reads. `configured` are the names of all providers that are known
 * or configured, besides those of the environment; absent where they are of no concern.
 */
export function checkVariables(env: Environment, configured?: Iterable<string>): void {
  const names =
    configured === undefined
      ? undefined
      : { configured: [...configured].map(providerCapitals), named: namesIn(env).map(providerCapitals) };
  for (const variable in env) {
    if (!variable.startsWith(PREFIX) || variable.startsWith("PERIGEE_TEST_") || env[variable] === "")
      continue;
    const fault = NAMES.includes(variable) ? undefined : faultOf(variable, names);
    if (fault !== undefined) throw new PerigeeError("invalid_config", `${variable} ${fault}`);
  }
}

/** In capitals. */
interface ProviderNames {
  readonly configured: readonly string[];
  /** By a base URL in the environment. */
  readonly named: readonly string[];
}

function faultOf(variable: string, names: ProviderNames | undefined): string | undefined {
  const match = OF_PROVIDER.exec(variable);
  const all = names === undefined ? [] : [...names.configured, ...names.named];
  if (match === null) return `is not a known variable${hintOf(variable, all)}`;
  const name = match[1] ?? match[2] ?? "";
  if (names === undefined || names.configured.includes(name)) return undefined;
  const stem = name.replace(WORDS_OF_SETTINGS, "");
  const instead = (meant: string): string => `did you mean "${variable.replace(name, meant)}"?`;
  if (names.named.includes(name)) {
    if (!variable.endsWith("_BASE_URL") || stem === name || !names.configured.includes(stem))
      return undefined;
    const shown = name.toLowerCase();
    return `is of another provider, "${shown}"; ${instead(stem)} If not, set providers.${shown}.baseUrl in the configuration instead`;
  }
  if (stem === "") return `names no provider; expected ${variable.replace(name, "<NAME>")}`;
  const meant = nearest(stem, all) ?? (stem === name ? undefined : stem);
  if (meant === undefined) return undefined; // of a provider that is not configured now
  return `is of a provider that is not configured; ${instead(meant)}`;
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
