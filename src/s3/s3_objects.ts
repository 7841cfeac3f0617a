/**
 * Objects of S3 by their addresses, `s3://bucket/key`, as the user of this machine may read them.
 *
 *   head (size, version) -> get: the content of that version, or a fault
 *
 * Account, region and endpoint are those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
 * `AWS_REGION`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`), and otherwise what the SDK finds: profiles, single sign-on, roles of the
 * machine. With an endpoint the bucket is in the path. The SDK is loaded with the first object.
 *
 * Limits: the connections of the agents; one chunk of each object in memory.
 */
import type { ObjectState } from "./object_state.ts";
import {
  createS3Client,
  environmentSettings,
  loadS3,
  S3_NOT_INSTALLED,
  type S3Agents,
  type S3Client,
  type S3Sdk,
} from "./s3_client.ts";
import { codeOf, isConnectionLost, statusOf } from "./s3_errors.ts";

/**
 * Why an object was not read. `object`: another try would find the same until somebody changes it. `change`: it has another version
 * than the one that was asked for. `store`: the store, or the way to it, and not this object.
 */
export class ObjectFault extends Error {
  readonly blamed: "object" | "change" | "store";

  constructor(message: string, blamed: ObjectFault["blamed"], cause?: unknown) {
    super(message, { cause });
    this.name = "ObjectFault";
    this.blamed = blamed;
  }
}

interface Connection {
  readonly sdk: S3Sdk;
  readonly client: S3Client;
}

const ADDRESS = /^s3:\/\/([^/]+)\/(.+)$/s;

/** For one environment. Close it. */
export class S3Objects {
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #agents: S3Agents;
  readonly #load: () => Promise<S3Sdk>;
  #connection: Promise<Connection> | undefined;
  #hasWorked = false;

  /** The agents end with it, and have a connection for each object that is read at a time. */
  constructor(
    env: Readonly<Record<string, string | undefined>>,
    agents: S3Agents,
    load: () => Promise<S3Sdk> = loadS3,
  ) {
    this.#env = env;
    this.#agents = agents;
    this.#load = load;
  }

  /** Rejects with an `ObjectFault`, or the signal's reason. */
  async look(address: string, signal?: AbortSignal): Promise<ObjectState> {
    const { sdk, client } = await this.#connected();
    const command = new sdk.HeadObjectCommand(placeOf(address));
    const head = await this.#ask(address, signal, () => client.send(command, sent(signal)));
    return stateOf(head);
  }

  /** The content of the object in that state. Rejects as `look` does. */
  async *read(
    address: string,
    { version }: Pick<ObjectState, "version">,
    signal?: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const { sdk, client } = await this.#connected();
    const command = new sdk.GetObjectCommand(placeOf(address));
    const answer = await this.#ask(address, signal, () => client.send(command, sent(signal)));
    const body = answer.Body as (AsyncIterable<Uint8Array> & { destroy(): void }) | undefined; // of Node's handler: a readable stream
    if (body === undefined) throw new ObjectFault("the answer has no content", "store");
    if (stateOf(answer).version !== version) {
      body.destroy();
      throw new ObjectFault("it changed since its size was read", "change"); // not every compatible store knows If-Match
    }
    try {
      yield* body;
    } catch (error) {
      signal?.throwIfAborted();
      throw new ObjectFault("the connection was lost while it was read", "store", error);
    }
  }

  close(): void {
    void this.#connection?.then(
      ({ client }) => client.destroy(),
      () => undefined,
    );
    this.#agents.httpAgent.destroy();
    this.#agents.httpsAgent.destroy();
  }

  #connected(): Promise<Connection> {
    this.#connection ??= this.#load().then(
      (sdk) => ({ sdk, client: createS3Client(sdk, environmentSettings(this.#env), this.#agents) }),
      (cause: unknown) => Promise.reject(new ObjectFault(S3_NOT_INSTALLED, "object", cause)),
    );
    return this.#connection;
  }

  async #ask<T>(address: string, signal: AbortSignal | undefined, action: () => Promise<T>): Promise<T> {
    try {
      const answer = await action();
      this.#hasWorked = true;
      return answer;
    } catch (error) {
      signal?.throwIfAborted();
      throw this.#faultOf(error, placeOf(address).Bucket);
    }
  }

  #faultOf(error: unknown, bucket: string): ObjectFault {
    const status = statusOf(error);
    const code = codeOf(error);
    const fault = (message: string, blamed: ObjectFault["blamed"]): ObjectFault =>
      new ObjectFault(message, blamed, error);
    if (status === 404) return fault("it does not exist", "object");
    if (status === 401 || status === 403)
      return fault(
        `access is denied (${status}): it does not exist, or these keys may not read it`,
        "object",
      );
    if (status !== undefined && (status === 408 || status === 429 || status >= 500))
      return fault(`the store does not answer for now (${status})`, "store");
    if (status !== undefined)
      return fault(`the store refuses it (${status}): check the bucket ${bucket} and AWS_REGION`, "object");
    if (code === "CredentialsProviderError")
      return fault(
        "no keys for S3 were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        this.#hasWorked ? "store" : "object",
      );
    if (isConnectionLost(error)) return fault("the store could not be reached", "store");
    const isRegion = error instanceof Error && error.message.startsWith("Region is missing");
    return fault(
      isRegion ? "no region for S3 was found: set AWS_REGION" : `it cannot be asked for (${code})`,
      "object",
    );
  }
}

function placeOf(address: string): { readonly Bucket: string; readonly Key: string } {
  const [, bucket = "", key = ""] = ADDRESS.exec(address) ?? [];
  return { Bucket: bucket, Key: key };
}

function sent(signal: AbortSignal | undefined): { readonly abortSignal?: AbortSignal } {
  return signal === undefined ? {} : { abortSignal: signal };
}

function stateOf(answer: {
  readonly ContentLength?: number | undefined;
  readonly ETag?: string | undefined;
  readonly LastModified?: Date | undefined;
  readonly VersionId?: string | undefined;
}): ObjectState {
  const { ContentLength: sizeBytes = 0, ETag = "", LastModified, VersionId = "" } = answer;
  // Heads and answers differ in quotes, and in parts of seconds.
  const seconds = Math.trunc((LastModified?.getTime() ?? 0) / 1_000);
  return { sizeBytes, version: `${ETag.replaceAll('"', "")} ${VersionId} ${sizeBytes} ${seconds}` };
}
