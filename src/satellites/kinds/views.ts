/**
 * Satellites as lists and descriptions show them: never the values of fixed settings, never a secret.
 */
import type { SatelliteKind, SatelliteState, SatelliteView } from "../sdk/catalogue.ts";
import type { SatelliteDescription } from "../sdk/description.ts";
import { withoutProperties } from "../sdk/json_schema.ts";
import type { SatelliteReference } from "../sdk/reference.ts";

/** A satellite that has its own description. */
export function viewOf(
  { reference, kind, state }: Head,
  described: SatelliteDescription,
  url?: string,
): SatelliteView {
  const { description, inputSchema, configSchema, outputSchema, isRepeatable, example } = described;
  return {
    ...{ reference, kind, state, description, inputSchema, configSchema },
    ...(outputSchema === undefined ? {} : { outputSchema }),
    isRepeatable,
    ...(example === undefined ? {} : { example }),
    ...(url === undefined ? {} : { url }),
  };
}

interface Head {
  readonly reference: SatelliteReference;
  readonly kind: SatelliteKind;
  readonly state: SatelliteState;
}

/** A configured one: its base without the settings that are fixed. */
export function configuredView(
  head: Head,
  given: { readonly base: SatelliteReference; readonly description?: string | undefined },
  described: SatelliteDescription,
  fixedConfig: readonly string[],
): SatelliteView {
  const { example: _example, ...rest } = described; // of the base, whose config is another
  return {
    ...viewOf(head, rest),
    description: given.description ?? described.description,
    configSchema: withoutProperties(described.configSchema, fixedConfig),
    base: { reference: given.base, fixedConfig },
  };
}
