/**
 * Objects in a bucket (`s3://bucket/prefix`) of S3, or of a store that speaks its protocol.
 *
 *   sent -> answered
 *        -> sent again       (no connection, 408, 409, 429, 5xx: 8 times in all; waits of 0.25 s and then twice as long each time, with jitter:
 *                             16 to 48 s together)
 *        -> refused          (anything else)
 *
 * A put replaces nothing (`If-None-Match: *`). A store that does not support that gets the put without it: the callers never use a name twice.
 * Account and endpoint as in `s3/s3_objects.ts`. Proxies are not used.
 */
import { Agent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import {
  createS3Client,
  environmentSettings,
  loadS3,
  S3_NOT_INSTALLED,
  type S3Client,
  type S3Sdk,
} from "../../s3/s3_client.ts";
import { codeOf, isConnectionLost, statusOf } from "../../s3/s3_errors.ts";
import { assertSame, type ListedObject, type Objects } from "./objects.ts";

const TRIES_MAX = 8;
const FIRST_WAIT_MS = 250;
const SOCKETS_MAX = 64;

/** A bucket, and how it is reached. */
export interface BucketPlace {
  readonly bucket: string;
  /** Before each name; empty, or without slashes at its ends. */
  readonly prefix: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
}

export class BucketObjects implements Objects {
  readonly #sdk: S3Sdk;
  readonly #client: S3Client;
  readonly #place: BucketPlace;
  readonly #agents: { readonly httpAgent: Agent; readonly httpsAgent: TlsAgent };
  #knowsConditions = true;

  private constructor(sdk: S3Sdk, place: BucketPlace) {
    this.#sdk = sdk;
    this.#place = place;
    const options = { keepAlive: true, maxSockets: SOCKETS_MAX };
    this.#agents = { httpAgent: new Agent(options), httpsAgent: new TlsAgent(options) };
    this.#client = createS3Client(sdk, environmentSettings(place.env), this.#agents);
  }

  /** Sends nothing yet. Throws `usage` when the package is not installed. */
  static async open(place: BucketPlace): Promise<BucketObjects> {
    const sdk = await loadS3().catch((cause: unknown) => {
      throw new PerigeeError("usage", S3_NOT_INSTALLED, { cause });
    });
    return new BucketObjects(sdk, place);
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    try {
      await this.#asked(`cannot store ${this.#address(name)}`, () => this.#putOnce(name, bytes));
    } catch (error) {
      if (statusOf(error instanceof PerigeeError ? error.cause : error) !== 412) throw error;
      await assertSame(
        this,
        name,
        bytes,
        () => new PerigeeError("conflict", `another object is stored as ${this.#address(name)}`),
      );
    }
  }

  async get(name: string, start: number, lengthBytes: number): Promise<Uint8Array | undefined> {
    const Range = `bytes=${start}-${start + lengthBytes - 1}`;
    return this.#asked(`cannot read ${this.#address(name)}`, async () => {
      try {
        const command = new this.#sdk.GetObjectCommand({ ...this.#named(name), Range });
        const { Body } = await this.#client.send(command);
        const bytes = (await Body?.transformToByteArray()) ?? new Uint8Array();
        return bytes.byteLength > lengthBytes ? bytes.subarray(0, lengthBytes) : bytes;
      } catch (error) {
        if (statusOf(error) === 404) return undefined;
        if (statusOf(error) === 416) return new Uint8Array();
        throw error;
      }
    });
  }

  async remove(name: string): Promise<void> {
    await this.#asked(`cannot remove ${this.#address(name)}`, () =>
      this.#client.send(new this.#sdk.DeleteObjectCommand(this.#named(name))),
    );
  }

  async *list(prefix: string): AsyncGenerator<ListedObject, void, undefined> {
    const { bucket, clock } = this.#place;
    const before = this.#key("");
    for (let token: string | undefined, isLast = false; !isLast; ) {
      const ContinuationToken = token === undefined ? {} : { ContinuationToken: token };
      const command = new this.#sdk.ListObjectsV2Command({
        ...{ Bucket: bucket, Prefix: this.#key(prefix), ...ContinuationToken },
      });
      const page = await this.#asked(`cannot list ${this.#address(prefix)}`, () =>
        this.#client.send(command),
      );
      for (const { Key = "", LastModified } of page.Contents ?? [])
        yield {
          name: Key.slice(before.length),
          ageMs: Math.max(0, clock.wallMs() - (LastModified?.getTime() ?? clock.wallMs())),
        };
      token = page.NextContinuationToken;
      isLast = token === undefined;
    }
  }

  async close(): Promise<void> {
    this.#client.destroy();
    this.#agents.httpAgent.destroy();
    this.#agents.httpsAgent.destroy();
  }

  async #putOnce(name: string, bytes: Uint8Array): Promise<void> {
    const condition = this.#knowsConditions ? { IfNoneMatch: "*" } : {};
    const given = { ...this.#named(name), Body: bytes, ...condition };
    try {
      await this.#client.send(new this.#sdk.PutObjectCommand(given));
    } catch (error) {
      if (!this.#knowsConditions || (statusOf(error) !== 501 && codeOf(error) !== "NotImplemented"))
        throw error;
      this.#knowsConditions = false;
      await this.#client.send(new this.#sdk.PutObjectCommand({ ...this.#named(name), Body: bytes }));
    }
  }

  async #asked<T>(doing: string, ask: () => Promise<T>): Promise<T> {
    for (let tries = 1, waitMs = FIRST_WAIT_MS; ; tries += 1, waitMs *= 2) {
      try {
        return await ask();
      } catch (error) {
        if (tries === TRIES_MAX || !isPassing(error)) throw failure(error, doing);
      }
      const { clock } = this.#place;
      await clock.sleep(waitMs * (0.5 + clock.random()));
    }
  }

  #named(name: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.#place.bucket, Key: this.#key(name) };
  }

  #key(name: string): string {
    return this.#place.prefix === "" ? name : `${this.#place.prefix}/${name}`;
  }

  #address(name: string): string {
    return `s3://${this.#place.bucket}/${this.#key(name)}`;
  }
}

function isPassing(error: unknown): boolean {
  const status = statusOf(error);
  if (status === undefined) return isConnectionLost(error);
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

function failure(error: unknown, doing: string): PerigeeError {
  const status = statusOf(error);
  const what = status === undefined ? codeOf(error) : `${status} ${codeOf(error)}`;
  return new PerigeeError("store_failed", `${doing} (${what})`, { cause: error });
}
