/**
 * How variables of the environment name a provider.
 */

/** `my-box` is `MY_BOX`, as in `PERIGEE_PROVIDER_MY_BOX_KEY`. */
export function providerCapitals(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}
