/**
 * Which store a satellite works on: what users say of it in a config, and what only the operator says.
 *
 * Users choose buckets of S3 anywhere that the egress guard lets them. Folders of this machine and what opendal speaks are
 * reached by a name that the operator gave them, because nothing else guards where those lead.
 */
import { z } from "../../../schema.ts";
import { IS_SECRET } from "../exchange/receiver_fields.ts";
import type { OpendalPlace } from "./store_opendal.ts";
import type { S3Config } from "./store_s3.ts";

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
      .describe("Whether the bucket is in the path, not in the host's name."),
    access_key_id: secret.optional().describe("Without it and the next, requests are not signed."),
    secret_access_key: secret.optional().describe("As `secret://name`."),
    session_token: secret.optional().describe("Of temporary keys, as `secret://name`."),
  })
  .refine((value) => (value.access_key_id === undefined) === (value.secret_access_key === undefined), {
    message: "access_key_id and secret_access_key go together",
    path: ["secret_access_key"],
  });

/** As users set it; secrets are filled in by now. */
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

/** Executions on one store at once, of each satellite. */
export const STORE_CONCURRENCY = 4;

/** For the bounds of concurrency: executions on one store wait for each other, not for others. */
export function destinationOf(config: StoreConfig): string {
  if (config.type === "s3") return `s3:${config.endpoint ?? config.region}`;
  return config.type === "fs" ? `fs:${config.root}` : `opendal:${config.place}`;
}
