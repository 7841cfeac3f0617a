/**
 * The satellites that there are, in memory: what the program brings and what projects registered, and from each one that
 * follows the chain down to what runs.
 *
 *   configured -> configured -> ... -> vendor | community | custom
 *
 * Decides nothing of callers but what a project may run at all; flags of keys are `open_catalogue.ts`'s.
 */
import { PerigeeError } from "../../errors.ts";
import type { JsonObject } from "../../work/json.ts";
import { remoteSatellite } from "../orbit/remote.ts";
import type { SatelliteKind, SatelliteState, SatelliteView } from "../sdk/catalogue.ts";
import { describeSatellite, type SatelliteDescription } from "../sdk/description.ts";
import { NAME, type SatelliteReference, VENDOR_NAMESPACE } from "../sdk/reference.ts";
import type { AnySatellite, Satellite } from "../sdk/satellite.ts";
import {
  type ConfiguredSatellite,
  type HostedSatellite,
  idOf,
  type StoredSatellite,
} from "./satellite_records.ts";
import { configuredView, viewOf } from "./views.ts";

/** How many satellites a chain has at most below its first. */
export const CHAIN_MAX = 8;

/** One that the program brings. */
export interface Coded {
  readonly reference: SatelliteReference;
  readonly kind: "vendor" | "custom";
  readonly satellite: Satellite;
}

/** Any of the catalogue, as the rules read it. */
export type Entry = {
  readonly reference: SatelliteReference;
  readonly kind: SatelliteKind;
  readonly state: SatelliteState;
} & ({ readonly coded: Coded } | { readonly stored: HostedSatellite | ConfiguredSatellite });

/** An entry down to what runs. */
export interface Chain {
  /** From the requested one to the one that runs. */
  readonly entries: readonly Entry[];
  readonly satellite: Satellite;
  readonly described: () => SatelliteDescription;
  readonly fixedConfig: JsonObject;
}

/** What the catalogue reads before every attempt: nothing here waits for the disk. */
export class KnownSatellites {
  readonly #coded: ReadonlyMap<string, Coded>;
  readonly #stored: Map<string, StoredSatellite>;
  /** In the stores of other owners. */
  #others: ReadonlyMap<string, StoredSatellite> = new Map();
  readonly #onChanged: (stored: HostedSatellite) => void;
  readonly #remotes = new WeakMap<HostedSatellite, Satellite>();
  readonly #descriptions = new WeakMap<Satellite, SatelliteDescription>();

  /** `onChanged` is called when the host of a satellite says that it is not the one that was verified. */
  constructor(
    coded: ReadonlyMap<string, Coded>,
    stored: readonly StoredSatellite[],
    onChanged: (stored: HostedSatellite) => void,
  ) {
    this.#coded = coded;
    this.#stored = new Map(stored.map((one) => [idOf(one.reference), one]));
    this.#onChanged = onChanged;
  }

  /** In order. */
  ids(): string[] {
    return [...new Set([...this.#coded.keys(), ...this.#stored.keys(), ...this.#others.keys()])].sort();
  }

  isCoded(reference: SatelliteReference): boolean {
    return this.#coded.has(idOf(reference));
  }

  /** What is stored of it here, marks of coded ones as well. */
  stored(reference: SatelliteReference): StoredSatellite | undefined {
    return this.#stored.get(idOf(reference));
  }

  storedOf(project: string): number {
    return [...this.#stored.values()].filter(({ reference }) => reference.namespace === project).length;
  }

  put(stored: StoredSatellite): void {
    this.#stored.set(idOf(stored.reference), stored);
  }

  /** Replaces what is known of other owners' stores. */
  putOthers(others: readonly StoredSatellite[]): void {
    this.#others = new Map(others.map((one) => [idOf(one.reference), one]));
  }

  delete(reference: SatelliteReference): void {
    this.#stored.delete(idOf(reference));
  }

  /** Undefined when something below is not there for the project any more. */
  chain(project: string, entry: Entry): Chain | undefined {
    const entries: Entry[] = [];
    let fixedConfig: JsonObject = {};
    for (let at: Entry | undefined = entry; at !== undefined && entries.length <= CHAIN_MAX; ) {
      if (!mayRun(project, at)) return undefined;
      entries.push(at);
      if ("coded" in at || at.stored.kind !== "configured") {
        const satellite = "coded" in at ? at.coded.satellite : this.#remote(at.stored as HostedSatellite);
        const described = (): SatelliteDescription => this.#described(satellite);
        return { entries, satellite, described, fixedConfig };
      }
      // What is below was fixed first, and wins.
      fixedConfig = { ...fixedConfig, ...at.stored.config };
      at = this.entry(idOf(at.stored.base));
    }
    return undefined;
  }

  entry(id: string): Entry | undefined {
    const coded = this.#coded.get(id);
    const stored = this.#stored.get(id) ?? this.#others.get(id);
    if (coded !== undefined) {
      const usual = coded.kind === "vendor" ? "approved" : "registered";
      const state = stored?.state === "disabled" ? "disabled" : usual;
      return { reference: coded.reference, kind: coded.kind, state, coded };
    }
    // A mark of a satellite that the program does not have any more is ignored.
    const isWhole = stored !== undefined && ("described" in stored || "base" in stored);
    return isWhole ? entryOf(stored) : undefined;
  }

  view({ entries, described, fixedConfig }: Chain, isOwn: boolean): SatelliteView {
    const entry = entries[0] as Entry; // the requested one
    if ("stored" in entry && entry.stored.kind === "configured")
      return configuredView(entry, entry.stored, described(), Object.keys(fixedConfig).sort());
    const isShown = isOwn && "stored" in entry && entry.stored.kind !== "configured";
    return viewOf(entry, described(), isShown ? (entry.stored as HostedSatellite).url : undefined); // by its kind
  }

  /** Also of what is disabled; undefined where something below was removed. */
  operatorView(entry: Entry): SatelliteView | undefined {
    const { namespace } = entry.reference;
    const open = { ...entry, state: entry.state === "disabled" ? ("registered" as const) : entry.state };
    const chain = this.chain(namespace, open);
    const view = chain === undefined ? undefined : this.view(chain, true);
    if (view !== undefined) return { ...view, state: entry.state };
    const { reference, kind, state } = entry;
    const nothing = { name: reference.name, description: "", isRepeatable: false } as const;
    return viewOf({ reference, kind, state }, { ...nothing, inputSchema: {}, configSchema: {} });
  }

  #remote(stored: HostedSatellite): Satellite {
    const known = this.#remotes.get(stored);
    if (known !== undefined) return known;
    const { url, secret, described, verifiedHash } = stored;
    const remote = remoteSatellite({
      ...{ endpoint: { url, secret }, described, verifiedHash },
      onChanged: () => this.#onChanged(stored),
    });
    this.#remotes.set(stored, remote);
    this.#descriptions.set(remote, described);
    return remote;
  }

  #described(satellite: Satellite): SatelliteDescription {
    const described = this.#descriptions.get(satellite) ?? describeSatellite(satellite);
    this.#descriptions.set(satellite, described);
    return described;
  }
}

/** Whether the rules of kinds and states let a project run it; the beta flag is checked besides. */
export function mayRun(project: string, { reference, kind, state }: Entry): boolean {
  if (state === "disabled") return false;
  if (kind === "vendor" || reference.namespace === project) return true;
  return kind === "community" && state === "approved";
}

/** Whether what runs in the end is part of perigee, and so needs the beta flag. */
export function usesVendor({ entries }: Chain): boolean {
  return entries.at(-1)?.kind === "vendor";
}

/** One of a project's in a chain. */
export function entryOf(stored: HostedSatellite | ConfiguredSatellite): Entry {
  const { reference, kind, state } = stored;
  return { reference, kind, state, stored };
}

/** What the program brings. */
export interface TrustedSatellites {
  readonly project: string;
  readonly satellites: readonly AnySatellite[];
}

/** Satellites that exist without having been registered. */
export interface Brought {
  /** Those of perigee. */
  readonly vendor: readonly AnySatellite[];
  /** Custom satellites that run in this process, because the embedding program trusts them. */
  readonly trusted?: readonly TrustedSatellites[] | undefined;
}

/** By `namespace/name`. Throws `usage` for two of one name, and for an invalid project. */
export function codedOf({ vendor, trusted = [] }: Brought): ReadonlyMap<string, Coded> {
  const found = new Map<string, Coded>();
  const add = (namespace: string, kind: Coded["kind"], satellite: AnySatellite): void => {
    const reference = { namespace, name: satellite.name };
    if (!NAME.test(namespace)) throw new PerigeeError("usage", `${namespace} is not a valid project`);
    if (found.has(idOf(reference)))
      throw new PerigeeError("usage", `two satellites are called ${idOf(reference)}`);
    // Its functions get only what has passed its schemas.
    found.set(idOf(reference), { reference, kind, satellite: satellite as unknown as Satellite });
  };
  for (const satellite of vendor) add(VENDOR_NAMESPACE, "vendor", satellite);
  for (const { project, satellites } of trusted) {
    if (project === VENDOR_NAMESPACE) throw new PerigeeError("usage", `${project} is not a valid project`);
    for (const satellite of satellites) add(project, "custom", satellite);
  }
  return found;
}
