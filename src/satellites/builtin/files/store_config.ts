/**
 * Which store a satellite works on: what users say of it in a config, and what the operator alone says.
 *
 * Users choose buckets of S3 anywhere that the egress guard lets them. Folders of this machine and what opendal speaks are
 * reached by a name that the operator gave them, because nothing else guards where those lead.
 */
import type { Clock } from "../../../clock.ts";
import type { Egress } from "../../../egress/egress.ts";
import { z } from "../../../schema.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { IS_SECRET } from "../exchange/receiver_fields.ts";
import type { ExternalStore } from "./external_store.ts";
import { openFolder } from "./store_fs.ts";
import { type OpendalPlace, openOpendal } from "./store_opendal.ts";
import { openBucket, type S3Config } from "./store_s3.ts";

/** Of the operator; no user sees more of it than the names. */
export interface StoreOptions {
  /** Folders by the names that configs call them. Default: none. */
  readonly roots?: Readonly<Record<string, string>>;
  /** Services of opendal by the names that configs call them. Default: none. */
  readonly opendal?: Readonly<Record<string, OpendalPlace>>;
}

const name = z.string().min(1).max(63);

const secret = z.string().min(1).max(4_096).meta(IS_SECRET);

const s3Config = z
  .strictObject({
    type: z.literal("s3"),
    bucket: z
      .string()
      .regex(/^[a-zA-Z0-9][a-zA-Z0-9._-]{1,62}$/)
      .describe("Name of the bucket."),
    region: z
      .string()
      .regex(/^[a-z0-9-]{1,63}$/)
      .default("us-east-1")
      .describe("Region of the bucket."),
    endpoint: z
      .url()
      .max(2_048)
      .optional()
      .describe("URL of a compatible store. Default: AWS in the region."),
    path_style: z
      .boolean()
      .default(false)
      .describe("Whether the bucket stands in the path, not in the host's name."),
    access_key_id: secret.optional().describe("Without it and the next, requests are not signed."),
    secret_access_key: secret.optional().describe("As `secret://name`."),
    session_token: secret.optional().describe("Of temporary keys, as `secret://name`."),
  })
  .refine((value) => (value.access_key_id === undefined) === (value.secret_access_key === undefined), {
    message: "access_key_id and secret_access_key go together",
    path: ["secret_access_key"],
  });

/** As users give it; secrets are filled in by now. */
export type StoreConfig =
  | S3Config
  | { readonly type: "fs"; readonly root: string }
  | { readonly type: "opendal"; readonly place: string; readonly options: Readonly<Record<string, string>> };

export const storeConfig: z.ZodType<StoreConfig> = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("fs"),
    root: name.describe("Name that the operator gave a folder."),
  }),
  s3Config,
  z.strictObject({
    type: z.literal("opendal"),
    place: name.describe("Name that the operator gave a service and its endpoint."),
    options: z
      .record(z.string().regex(/^[a-z_]{1,32}$/), z.string().max(16_384))
      .default({})
      .describe(
        "Options of the service that the operator leaves to users, such as a container and its keys.",
      ),
  }),
]);

interface Network {
  readonly egress: Egress;
  readonly clock: Clock;
}

/** Executions on one store at once, of each satellite. */
export const STORE_CONCURRENCY = 4;

/** Opens the store of a config for one call, and closes it when `use` has ended. Throws as `openStore` does. */
export async function withStore<T>(
  config: StoreConfig,
  options: StoreOptions,
  { http, clock }: Pick<SatelliteCall, "http" | "clock">,
  use: (store: ExternalStore) => Promise<T>,
): Promise<T> {
  const store = await openStore(config, options, { egress: http.egress, clock });
  try {
    return await use(store);
  } finally {
    store.close();
  }
}

/** Throws `permanent` for names that the operator did not give. Close it. */
export async function openStore(
  config: StoreConfig,
  options: StoreOptions,
  network: Network,
): Promise<ExternalStore> {
  switch (config.type) {
    case "s3":
      return openBucket(config, network);
    case "fs":
      return openFolder(config.root, named(options.roots, config.root, "root"));
    case "opendal":
      return openOpendal(config.place, named(options.opendal, config.place, "place"), config.options);
  }
}

/** For the bounds of concurrency: executions on one store wait for each other, not for others. */
export function destinationOf(config: StoreConfig): string {
  if (config.type === "s3") return `s3:${config.endpoint ?? config.region}`;
  return config.type === "fs" ? `fs:${config.root}` : `opendal:${config.place}`;
}

function named<T>(given: Readonly<Record<string, T>> | undefined, name: string, what: string): T {
  const found = given !== undefined && Object.hasOwn(given, name) ? given[name] : undefined;
  if (found !== undefined) return found;
  const place = what === "root" ? "satellites.roots" : "satellites.opendal";
  throw new SatelliteError(
    "permanent",
    "unknown_store",
    `there is no ${what} ${JSON.stringify(name)}: the configuration (--config) names them in ${place}`,
  );
}
