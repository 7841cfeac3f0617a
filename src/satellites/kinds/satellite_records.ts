/**
 * What is stored of satellites: those that projects registered or configured, and vendor satellites that are disabled.
 *
 * One record each, whose id is `namespace/name`. The secret of a host and the fixed settings of configured ones are sealed
 * in its payload (`vault.ts`); the rest is its body.
 */
import { hasCode, PerigeeError } from "../../errors.ts";
import type { RecordStore, StoredRecord } from "../../store/records.ts";
import type { JsonObject } from "../../work/json.ts";
import type { SatelliteState } from "../sdk/catalogue.ts";
import { fromWire, type SatelliteDescription, toWire } from "../sdk/description.ts";
import { parseReference, type SatelliteReference } from "../sdk/reference.ts";
import { everyRecord, type Vault } from "../secrets/vault.ts";

const COLLECTION = "satellite";

interface Stored {
  readonly reference: SatelliteReference;
  readonly createdWallMs: number;
  readonly state: SatelliteState;
  /** Of a disabled one. */
  readonly stateBefore?: SatelliteState | undefined;
}

/** One of a project on the project's host. The secret is sealed in the record's payload. */
export interface HostedSatellite extends Stored {
  readonly kind: "custom" | "community";
  readonly url: string;
  readonly secret: string;
  readonly described: SatelliteDescription;
  /** Of the description as it was verified. */
  readonly verifiedHash?: string | undefined;
}

/** One that is based on another. Its config is sealed in the record's payload. */
export interface ConfiguredSatellite extends Stored {
  readonly kind: "configured";
  readonly base: SatelliteReference;
  readonly config: JsonObject;
  readonly description?: string | undefined;
}

/** Of a vendor satellite, or of one registered by code, only its state: the program has the rest. */
interface CodedSatellite extends Stored {
  readonly kind: "vendor" | "trusted";
}

/** What there is a record of; of what the program brings only whether it is disabled. */
export type StoredSatellite = HostedSatellite | ConfiguredSatellite | CodedSatellite;

/** `namespace/name`, by which lists are in order. */
export function idOf({ namespace, name }: SatelliteReference): string {
  return `${namespace}/${name}`;
}

/** What satellites are stored in. */
export interface SatelliteStore {
  readonly store: RecordStore;
  readonly vault: Vault;
}

/** Satellites in other owners' stores, for a catalogue that is one of several (those of a fleet's partitions). */
export interface OtherSatellites {
  /** All of them, as of a moment after the call; the same array as the last time while nothing has changed. */
  read(): Promise<readonly StoredRecord[]>;
}

/** What another owner keeps; without those that the vault does not open, which their owner reports. */
export function otherSatellites(records: readonly StoredRecord[], vault: Vault): StoredSatellite[] {
  return records.flatMap((record) => {
    try {
      return [fromRecord(record, vault)];
    } catch (error) {
      if (hasCode(error, "store_damaged")) return [];
      throw error;
    }
  });
}

/** All of all projects. Throws `store_damaged` for what the vault does not open. */
export async function readSatellites({ store, vault }: SatelliteStore): Promise<StoredSatellite[]> {
  const found: StoredSatellite[] = [];
  for await (const record of everyRecord(store, COLLECTION)) found.push(fromRecord(record, vault));
  return found;
}

/** Makes it or replaces it; durable when it resolves. */
export async function writeSatellite(
  { store, vault }: SatelliteStore,
  satellite: StoredSatellite,
): Promise<void> {
  await store.change([{ kind: "put", record: toRecord(satellite, vault) }]);
}

/** Durable when it resolves; what is not there stays so. */
export async function removeSatellite(store: RecordStore, reference: SatelliteReference): Promise<void> {
  await store.change([{ kind: "delete", collection: COLLECTION, id: idOf(reference) }]);
}

type Sealed = Pick<HostedSatellite, "secret"> | Pick<ConfiguredSatellite, "config">;

function toRecord(satellite: StoredSatellite, vault: Vault): StoredRecord {
  const { reference, createdWallMs, ...rest } = satellite;
  const place = { collection: COLLECTION, id: idOf(reference), project: reference.namespace };
  const head = { ...place, parent: "", createdWallMs };
  const sealed = (what: Sealed): Uint8Array => vault.seal(place, JSON.stringify(what));
  if ("described" in rest) {
    const { secret, described, ...facts } = rest;
    const body = JSON.stringify({ ...facts, described: toWire(described) });
    return { ...head, body, payload: sealed({ secret }) };
  }
  if (!("base" in rest)) return { ...head, body: JSON.stringify(rest) };
  const { config, ...facts } = rest;
  return { ...head, body: JSON.stringify(facts), payload: sealed({ config }) };
}

function fromRecord(record: StoredRecord, vault: Vault): StoredSatellite {
  const { id, body, payload, createdWallMs } = record;
  const reference = parseReference(`satellite/${id}`);
  if (reference === undefined)
    throw new PerigeeError("store_damaged", `satellite ${JSON.stringify(id)} has no name`);
  const facts = JSON.parse(body) as { readonly described?: unknown }; // written above, as is what is sealed
  const described = facts.described === undefined ? {} : { described: fromWire(facts.described) };
  const sealed = payload === undefined ? {} : (JSON.parse(vault.open(record)) as Sealed);
  return { reference, createdWallMs, ...facts, ...described, ...sealed } as StoredSatellite;
}
