/**
 * Where the files are that items name in place of their content.
 *
 *   `path`      a file of this machine   only in the library and the command, never for work that others send
 *   `s3://`     an object of a bucket    the same
 *   `file_id`   a file of the store      only in the service
 */
import type { Clock } from "../../clock.ts";
import { proxiesFrom } from "../../dispatch/proxy.ts";
import type { ObjectState } from "../../s3/object_state.ts";
import { S3Objects } from "../../s3/s3_objects.ts";
import { MediaOutages } from "./media_outages.ts";
import { proxyAgents } from "./proxy_agents.ts";

/** One for an engine. */
export interface MediaPlaces {
  /** Whether files of this machine may be read. */
  readonly readsLocalFiles: boolean;
  /** Absent where objects of buckets may not be read. */
  readonly buckets?: Buckets | undefined;
  /** What users have stored, once that is open. */
  stored?: StoredFiles | undefined;
  /** Of all of them. */
  readonly outages: MediaOutages;
}

/** Port: objects by their addresses, `s3://bucket/key`. Rejects with an `ObjectFault`, or the signal's reason. */
export interface Buckets {
  look(address: string, signal?: AbortSignal): Promise<ObjectState>;
  /** The content of the object in that state. */
  read(address: string, state: Pick<ObjectState, "version">, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  close(): void;
}

/** Port: files that users have stored, each for its project. Rejects with `not_found` for those of other projects. */
export interface StoredFiles {
  file(project: string, id: string): Promise<{ readonly bytes: number }>;
  read(project: string, id: string): AsyncIterable<Uint8Array>;
}

/** Whether the user of this machine is the one who wrote the items. */
export interface MediaTrust {
  /** Whether items may name files of this machine and objects of buckets: not those of others. Default false. */
  readonly readsLocalFiles?: boolean | undefined;
  /** Default: those that the environment leads to. */
  readonly buckets?: Buckets | undefined;
}

/** `waitMs`: how long a file is tried that cannot be read; undefined for the default. */
export function mediaPlaces(
  { readsLocalFiles = false, buckets }: MediaTrust,
  env: Readonly<Record<string, string | undefined>>,
  outages: {
    readonly clock: Clock;
    readonly waitMs: number | undefined;
    readonly notice: (message: string) => void;
  },
): MediaPlaces {
  return {
    readsLocalFiles,
    buckets: readsLocalFiles
      ? (buckets ?? new S3Objects(env, proxyAgents(proxiesFrom(env), outages.clock)))
      : undefined,
    outages: new MediaOutages(outages),
  };
}
