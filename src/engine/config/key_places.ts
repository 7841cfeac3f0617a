/**
 * Where the key of a provider may be set. The first place that is set wins:
 *
 *   providers.NAME.key of the configuration, PERIGEE_PROVIDER_NAME_KEY, the provider's own variables (OPENAI_API_KEY, ...)
 */
import { KNOWN_PROVIDERS } from "../../providers/registry.ts";
import { providerCapitals } from "../../work/provider_capitals.ts";
import type { GivenText } from "./header_texts.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** What the provider's own variables of perigee begin with. */
export function envPrefix(name: string): string {
  return `PERIGEE_PROVIDER_${providerCapitals(name)}`;
}

/** The environment variable that a provider's key is usually in. */
export function keyVariable(provider: string): string {
  return KNOWN_PROVIDERS.get(provider)?.keyVariables[0] ?? `${envPrefix(provider)}_KEY`;
}

/** All places, in their order, with what they hold; `key` is that of the configuration. */
export function keysGiven(name: string, key: string | undefined, env: Environment): readonly GivenText[] {
  const variables = [`${envPrefix(name)}_KEY`, ...(KNOWN_PROVIDERS.get(name)?.keyVariables ?? [])];
  return [
    { place: `providers.${name}.key`, text: key },
    ...variables.map((variable) => ({ place: variable, text: env[variable] })),
  ];
}

/** The place of the key that is used; without one, the variable that it is usually in. */
export function keyPlace(name: string, key: string | undefined, env: Environment): string {
  const used = keysGiven(name, key, env).find(({ text = "" }) => text.trim() !== "");
  return used?.place ?? keyVariable(name);
}
