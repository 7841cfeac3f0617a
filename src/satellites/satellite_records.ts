/**
 * What is stored of satellites: those that projects registered or configured, and vendor satellites that are disabled.
 *
 * One record each, whose id is `namespace/name`. The body has a host's secret and the fixed settings of configured ones:
 * nothing of it is shown but what `views.ts` picks.
 */
import { PerigeeError } from "../errors.ts";
import { EVERY_PROJECT, type RecordStore, type StoredRecord } from "../store/records.ts";
import type { JsonObject } from "../work/json.ts";
import type { SatelliteState } from "./catalogue.ts";
import { fromWire, type SatelliteDescription, toWire, type WireDescription } from "./description.ts";
import { parseReference, type SatelliteReference } from "./reference.ts";

const COLLECTION = "satellite";
const READ_AT_ONCE = 500;

interface Stored {
  readonly reference: SatelliteReference;
  readonly createdWallMs: number;
  readonly state: SatelliteState;
  /** Of a disabled one. */
  readonly stateBefore?: SatelliteState | undefined;
}

export interface HostedSatellite extends Stored {
  readonly kind: "custom" | "community";
  readonly url: string;
  readonly secret: string;
  readonly described: SatelliteDescription;
  /** Of the description as it was verified. */
  readonly verifiedHash?: string | undefined;
}

export interface ConfiguredSatellite extends Stored {
  readonly kind: "configured";
  readonly base: SatelliteReference;
  readonly config: JsonObject;
  readonly description?: string | undefined;
}

/** Of a vendor satellite, or of one registered by code, its state alone: the rest comes with the program. */
interface CodedSatellite extends Stored {
  readonly kind: "vendor" | "trusted";
}

export type StoredSatellite = HostedSatellite | ConfiguredSatellite | CodedSatellite;

/** `namespace/name`, by which lists are in order. */
export function idOf({ namespace, name }: SatelliteReference): string {
  return `${namespace}/${name}`;
}

/** All of all projects. */
export async function readSatellites(store: RecordStore): Promise<StoredSatellite[]> {
  const found: StoredSatellite[] = [];
  for (let after: string | undefined; ; ) {
    const from = after === undefined ? {} : { after };
    const query = { collection: COLLECTION, limit: READ_AT_ONCE, ...from };
    const records = await store.records(EVERY_PROJECT, query);
    found.push(...records.map(fromRecord));
    after = records.at(-1)?.id;
    if (records.length < READ_AT_ONCE) return found;
  }
}

export async function writeSatellite(store: RecordStore, satellite: StoredSatellite): Promise<void> {
  await store.change([{ kind: "put", record: toRecord(satellite) }]);
}

export async function removeSatellite(store: RecordStore, reference: SatelliteReference): Promise<void> {
  await store.change([{ kind: "delete", collection: COLLECTION, id: idOf(reference) }]);
}

type Body = Omit<HostedSatellite, "reference" | "createdWallMs" | "described"> & {
  readonly described: WireDescription;
};

function toRecord(satellite: StoredSatellite): StoredRecord {
  const { reference, createdWallMs, ...rest } = satellite;
  const body = "described" in rest ? { ...rest, described: toWire(rest.described) } : rest;
  return {
    ...{ collection: COLLECTION, id: idOf(reference), project: reference.namespace, parent: "" },
    createdWallMs,
    body: JSON.stringify(body),
  };
}

function fromRecord({ id, body, createdWallMs }: StoredRecord): StoredSatellite {
  const reference = parseReference(`satellite/${id}`);
  if (reference === undefined)
    throw new PerigeeError("store_damaged", `satellite ${JSON.stringify(id)} has no name`);
  const stored = JSON.parse(body) as Body | Omit<ConfiguredSatellite, "reference" | "createdWallMs">; // written above
  const described = "described" in stored ? { described: fromWire(stored.described) } : {};
  return { reference, createdWallMs, ...stored, ...described } as StoredSatellite; // as `toRecord` took it apart
}
