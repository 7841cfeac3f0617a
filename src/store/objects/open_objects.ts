/** Objects by the address of their place: rows of the database, a shared folder, or a bucket. */
import { fileURLToPath } from "node:url";
import { type Clock, systemClock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { BucketObjects } from "./bucket_objects.ts";
import { FolderObjects } from "./folder_objects.ts";
import type { Objects } from "./objects.ts";
import { RowObjects } from "./row_objects.ts";

/** The place of objects. */
export interface ObjectsPlace {
  /** `s3://bucket/prefix`, `file:///shared/folder`, or the database itself as `postgres://...`. */
  readonly url: string;
  /** For buckets: keys, region and endpoint (`AWS_...`). Default: the environment of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly clock?: Clock;
}

/**
 * Opens objects. Throws `usage` for an address of another kind, or when the package for it is not installed; `store_failed` when the database cannot
 * be reached. A folder or a bucket is first used by the first call.
 */
export async function openObjects({
  url,
  env = process.env,
  clock = systemClock,
}: ObjectsPlace): Promise<Objects> {
  const { protocol, host, pathname } = URL.canParse(url) ? new URL(url) : NO_URL;
  if (protocol === "postgres:" || protocol === "postgresql:") return RowObjects.open(url, clock);
  if (protocol === "file:" && host === "") return new FolderObjects(fileURLToPath(url), clock);
  if (protocol === "s3:" && host !== "") {
    const prefix = decodeURIComponent(pathname).replaceAll(/^\/+|\/+$/g, "");
    return BucketObjects.open({ bucket: host, prefix, env, clock });
  }
  throw new PerigeeError(
    "usage",
    `objects must be at s3://<bucket>/<prefix>, file:///<folder> or postgres://..., got ${JSON.stringify(url.split(":", 1)[0])}:...; in a password, "#", "/" and "?" are written as %23, %2F and %3F`,
  );
}

const NO_URL = { protocol: "", host: "", pathname: "" };
