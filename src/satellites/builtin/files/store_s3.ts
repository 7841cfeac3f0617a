/**
 * A bucket of S3, or of a store that speaks its protocol.
 *
 *   write:  up to 8 MiB: one PUT          above: parts of 16 MiB and more -> completed | aborted
 *           then read back and hashed
 *
 * Connections are made only where the egress guard allows them: the SDK's agents get connections to checked addresses. The
 * machine's own accounts are never used: keys are those of the config, and without them requests are not signed.
 *
 * Limits: 1,000 names a page, and those of clients (s3/s3_client.ts).
 */
import type { Clock } from "../../../clock.ts";
import type { Egress } from "../../../egress/egress.ts";
import {
  createS3Client,
  loadS3,
  S3_CONNECT_MS,
  S3_NOT_INSTALLED,
  type S3Client,
  type S3ClientConfig,
  type S3Sdk,
} from "../../../s3/s3_client.ts";
import { statusOf } from "../../../s3/s3_errors.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import {
  checkPath,
  checkPrefix,
  destinationExists,
  type ExternalFile,
  type ExternalStore,
  hashOf,
  isPlainPath,
  type LeftOut,
  type ListedFiles,
  type NewExternalFile,
  notVerified,
  PARTIAL_PREFIX,
  Passing,
  sourceChanged,
  type Written,
} from "./external_store.ts";
import { guardedAgents } from "./guarded_agents.ts";
import { s3Failure } from "./s3_failure.ts";
import { inParts, type PartedUpload, uploadParts } from "./s3_parts.ts";

/** What users say of a bucket. */
export interface S3Config {
  readonly type: "s3";
  readonly bucket: string;
  readonly region: string;
  readonly endpoint?: string | undefined;
  readonly path_style: boolean;
  readonly access_key_id?: string | undefined;
  readonly secret_access_key?: string | undefined;
  readonly session_token?: string | undefined;
}

const PUT_BYTES_MAX = 8 * 1024 * 1024;
const PAGE = 1_000;

/** Throws `permanent` where the SDK is not installed, and for an endpoint that may not be called. */
export async function openBucket(
  config: S3Config,
  { egress, clock }: { readonly egress: Egress; readonly clock: Clock },
): Promise<ExternalStore> {
  const sdk = await loadSdk();
  const endpoint = config.endpoint ?? `https://s3.${config.region}.amazonaws.com`;
  const checked = egress.check(endpoint);
  if (!checked.ok) throw new SatelliteError("permanent", "blocked_destination", checked.message);
  const agents = guardedAgents(egress, clock, S3_CONNECT_MS);
  const { region, path_style: forcePathStyle } = config;
  const given = { endpoint, region, forcePathStyle, followRegionRedirects: false, ...identityOf(config) };
  const client = createS3Client(sdk, given, agents);
  return new BucketStore(sdk, client, config.bucket, () => {
    client.destroy();
    agents.httpAgent.destroy();
    agents.httpsAgent.destroy();
  });
}

async function loadSdk(): Promise<S3Sdk> {
  try {
    return await loadS3();
  } catch (cause) {
    throw new SatelliteError("permanent", "not_installed", S3_NOT_INSTALLED, { cause });
  }
}

/** Given in any case, so that the SDK looks for no other: neither in the environment nor at the machine's host. */
function identityOf(config: S3Config): Pick<S3ClientConfig, "credentials" | "signer"> {
  const { access_key_id, secret_access_key, session_token } = config;
  if (access_key_id === undefined || secret_access_key === undefined)
    return {
      credentials: { accessKeyId: "", secretAccessKey: "" },
      signer: { sign: async (request) => request },
    };
  return {
    credentials: {
      accessKeyId: access_key_id,
      secretAccessKey: secret_access_key,
      ...(session_token === undefined ? {} : { sessionToken: session_token }),
    },
  };
}

class BucketStore implements ExternalStore {
  readonly name: string;
  readonly close: () => void;
  readonly #sdk: S3Sdk;
  readonly #client: S3Client;
  readonly #bucket: string;

  constructor(sdk: S3Sdk, client: S3Client, bucket: string, close: () => void) {
    this.name = `s3:${bucket}`;
    this.close = close;
    this.#sdk = sdk;
    this.#client = client;
    this.#bucket = bucket;
  }

  async *list(prefix: string, signal: AbortSignal): AsyncGenerator<ListedFiles> {
    checkPrefix(prefix);
    for (let token: string | undefined; ; ) {
      const command = new this.#sdk.ListObjectsV2Command({
        Bucket: this.#bucket,
        Prefix: prefix,
        MaxKeys: PAGE,
        ...(token === undefined ? {} : { ContinuationToken: token }),
      });
      const page = await this.#ask(prefix, signal, () => this.#client.send(command, { abortSignal: signal }));
      const files: ExternalFile[] = [];
      const leftOut: LeftOut[] = [];
      for (const { Key: path, Size, ETag, LastModified } of page.Contents ?? []) {
        if (!isFile(path)) continue;
        if (isPlainPath(path)) files.push(fileOf(path, Size, ETag, LastModified));
        else leftOut.push({ path, reason: "name", isFolder: false });
      }
      yield { files, leftOut };
      token = page.NextContinuationToken;
      if (page.IsTruncated !== true || token === undefined) return;
    }
  }

  async stat(path: string, signal: AbortSignal): Promise<ExternalFile | undefined> {
    checkPath(path);
    const command = new this.#sdk.HeadObjectCommand({ Bucket: this.#bucket, Key: path });
    try {
      const head = await this.#client.send(command, { abortSignal: signal });
      return fileOf(path, head.ContentLength, head.ETag, head.LastModified);
    } catch (error) {
      signal.throwIfAborted();
      if (statusOf(error) === 404) return undefined;
      throw s3Failure(error, path);
    }
  }

  async *read(file: ExternalFile, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    checkPath(file.path);
    const command = new this.#sdk.GetObjectCommand({ Bucket: this.#bucket, Key: file.path });
    const answer = await this.#ask(file.path, signal, () =>
      this.#client.send(command, { abortSignal: signal }),
    );
    // Compared here: not every compatible store knows If-Match.
    const found = fileOf(file.path, answer.ContentLength, answer.ETag, answer.LastModified);
    const body = answer.Body as AsyncIterable<Uint8Array> | undefined; // of Node's handler: a readable stream
    if (body === undefined || found.version !== file.version) throw sourceChanged(file.path);
    try {
      yield* body;
    } catch (error) {
      signal.throwIfAborted();
      throw s3Failure(error, file.path);
    }
  }

  async write(file: NewExternalFile, signal: AbortSignal): Promise<Written> {
    const before = await this.stat(file.path, signal);
    if (before !== undefined && !file.isReplacing) throw destinationExists(file.path);
    const passing = new Passing();
    const chunks = passing.through(file.chunks, file, signal);
    const target = { Bucket: this.#bucket, Key: file.path };
    await this.#ask(file.path, signal, async () => {
      if (file.bytes > PUT_BYTES_MAX)
        return uploadParts(this.#parted(file.path, file.mimeType, signal), chunks, file.bytes);
      let Body: Uint8Array = new Uint8Array(0);
      for await (const whole of inParts(chunks, PUT_BYTES_MAX)) Body = whole;
      const put = new this.#sdk.PutObjectCommand({ ...target, Body, ContentType: file.mimeType });
      await this.#client.send(put, { abortSignal: signal });
    });
    const sha256 = passing.sha256();
    const written = await this.stat(file.path, signal);
    if (written?.bytes !== file.bytes || (await hashOf(this, written, signal)) !== sha256)
      throw notVerified(file.path);
    return { file: written, sha256 };
  }

  #parted(path: string, mimeType: string, signal: AbortSignal): PartedUpload {
    const sdk = this.#sdk;
    const client = this.#client;
    const target = { Bucket: this.#bucket, Key: path };
    const abortSignal = signal;
    return {
      async begin() {
        const begin = new sdk.CreateMultipartUploadCommand({ ...target, ContentType: mimeType });
        return (await client.send(begin, { abortSignal })).UploadId;
      },
      async put(UploadId, PartNumber, Body) {
        const part = new sdk.UploadPartCommand({ ...target, UploadId, PartNumber, Body });
        return { PartNumber, ETag: (await client.send(part, { abortSignal })).ETag };
      },
      async complete(UploadId, parts) {
        const MultipartUpload = { Parts: [...parts] };
        const complete = new sdk.CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload });
        await client.send(complete, { abortSignal });
      },
      async abort(UploadId) {
        // Without the signal: most of all when that is why it ends.
        await client.send(new sdk.AbortMultipartUploadCommand({ ...target, UploadId }));
      },
    };
  }

  async remove(path: string, signal: AbortSignal): Promise<void> {
    checkPath(path);
    const command = new this.#sdk.DeleteObjectCommand({ Bucket: this.#bucket, Key: path });
    await this.#ask(path, signal, () => this.#client.send(command, { abortSignal: signal }));
  }

  async #ask<T>(path: string, signal: AbortSignal, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      signal.throwIfAborted();
      throw s3Failure(error, path);
    }
  }
}

/** Names that end with a slash mean folders. */
function isFile(key: string | undefined): key is string {
  return key !== undefined && !key.endsWith("/") && !(key.split("/").at(-1) ?? "").startsWith(PARTIAL_PREFIX);
}

function fileOf(
  path: string,
  bytes: number | undefined,
  etag: string | undefined,
  modified: Date | undefined,
): ExternalFile {
  const modifiedWallMs = modified?.getTime();
  return {
    path,
    bytes: bytes ?? 0,
    // Lists and heads differ in their quotes, and in parts of seconds.
    version: `${(etag ?? "").replaceAll('"', "")}-${bytes}-${Math.trunc((modifiedWallMs ?? 0) / 1_000)}`,
    ...(modifiedWallMs === undefined ? {} : { modifiedWallMs }),
  };
}
