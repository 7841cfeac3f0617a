/**
 * How satellites are named: `satellite/<namespace>/<name>`, and who a namespace belongs to.
 */

/** The namespace of perigee's satellites (interface 2.11, vendor). */
export const VENDOR_NAMESPACE = "perigee";

/** Of projects, satellites, secrets and members of clusters. */
export const NAME_PATTERN = "[a-z0-9][a-z0-9-]{0,62}";

/** The same for a whole text. */
export const NAME: RegExp = new RegExp(`^${NAME_PATTERN}$`);

/** The two names of a satellite; both have the form of `NAME`. */
export interface SatelliteReference {
  /** A project, or the vendor's. */
  readonly namespace: string;
  readonly name: string;
}

/** Undefined for a text that is not a reference. */
export function parseReference(text: string): SatelliteReference | undefined {
  const [kind, namespace, name, ...rest] = text.split("/");
  if (kind !== "satellite" || namespace === undefined || name === undefined || rest.length > 0)
    return undefined;
  return NAME.test(name) && NAME.test(namespace) ? { namespace, name } : undefined;
}

/** What `parseReference` reads. */
export function referenceText({ namespace, name }: SatelliteReference): string {
  return `satellite/${namespace}/${name}`;
}
