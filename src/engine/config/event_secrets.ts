/**
 * What proves that an event is a provider's, from the environment of a service:
 *
 *   PERIGEE_PROVIDER_<NAME>_WEBHOOK_SECRET   `whsec_` and base64: its webhooks are signed by Standard Webhooks. Two, with a blank between them,
 *                                            while one is replaced. OPENAI_WEBHOOK_SECRET, as OpenAI's own SDK reads it, for `openai`
 *   PERIGEE_PROVIDER_<NAME>_WEBHOOK_TOKEN    32 to 200 characters of [A-Za-z0-9_-], the last part of the address: for a provider whose
 *                                            signature is not known (Gemini)
 */
import { PerigeeError } from "../../errors.ts";
import { providerCapitals } from "../../work/provider_capitals.ts";

/** Of one provider; at least one of them. */
export interface EventSecrets {
  readonly secrets: readonly string[];
  readonly token?: string;
}

/** 192 bits or more, as the standard asks for. */
const SECRET = /^whsec_[A-Za-z0-9+/]{32,}={0,2}$/;
const TOKEN = /^[A-Za-z0-9_-]{32,200}$/;

/** By provider; those without any are left out. Throws `invalid_config` with the variable, never with its value. */
export function eventSecrets(
  providers: Iterable<string>,
  env: Readonly<Record<string, string | undefined>>,
): ReadonlyMap<string, EventSecrets> {
  const found = new Map<string, EventSecrets>();
  for (const name of providers) {
    const prefix = `PERIGEE_PROVIDER_${providerCapitals(name)}_WEBHOOK`;
    const own = name === "openai" ? ["OPENAI_WEBHOOK_SECRET"] : [];
    const variables = [`${prefix}_SECRET`, ...own];
    const variable = variables.find((each) => (env[each] ?? "").trim() !== "");
    const secrets = variable === undefined ? [] : (env[variable] ?? "").trim().split(/\s+/);
    if (variable !== undefined && !secrets.every((secret) => SECRET.test(secret)))
      throw invalid(variable, 'must be the signing secret of the webhook, "whsec_" and base64');
    const token = env[`${prefix}_TOKEN`] ?? "";
    if (token !== "" && !TOKEN.test(token))
      throw invalid(`${prefix}_TOKEN`, "must have 32 to 200 characters of A-Z, a-z, 0-9, _ and -");
    if (secrets.length + token.length > 0) found.set(name, { secrets, ...(token === "" ? {} : { token }) });
  }
  return found;
}

function invalid(variable: string, what: string): PerigeeError {
  return new PerigeeError("invalid_config", `${variable} ${what}`);
}
