/**
 * `Idempotency-Key`: a POST that is repeated with its key makes its task once, and gets the same task again.
 *
 *   free -> claimed (id chosen) -> read (with the body's digest) -> answered          kept for 24 h from the claim
 *             \------- the work failed, or the process ended before the task was durable ------> free
 *
 * The id of the task is stored before the task, and the digest before the last byte of the body is passed to the code that makes
 * it. So after a crash between any two steps, either a task of that id exists, and its digest too, or the key is free.
 *
 * A repeat while the first is under way is `idempotency_in_progress`; one with another body, path or header that matters
 * is `idempotency_mismatch` (docs/decisions/0012-idempotency.md). Only requests with the header pay for any of this.
 *
 * Limits: keys of 1 to 255 characters. The stored key is a hash.
 */
import { createHash } from "node:crypto";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { RecordStore, StoredRecord } from "../../store/records.ts";
import { newId } from "../../work/new_id.ts";

export const IDEMPOTENCY = "idempotency";
/** How long a key is remembered. */
export const IDEMPOTENCY_MS = 86_400_000;

const KEY_CHARS_MAX = 255;

/** A request that may be repeated under its key. */
export interface KeyedRequest {
  readonly project: string;
  /** As it arrived. Throws `invalid_request` when it is not a valid key. */
  readonly key: string;
  /** What makes it another request: method, path, headers that matter. */
  readonly about: readonly string[];
  /** The bytes of the body, whole or as they arrive. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
}

/** What is done once. `make` gets an id that nothing has, `find` that of an earlier try. */
export interface KeyedWork<T> {
  /**
   * Makes the thing durably under the id. `body` yields the bytes again, once; they must have been read to their end before
   * anything is durable.
   */
  readonly make: (id: string, body: Uint8Array | AsyncIterable<Uint8Array>) => Promise<T>;
  /** What was made under the id; undefined when nothing was. */
  readonly find: (id: string) => Promise<T | undefined>;
}

/** What was made, now or by an earlier request with this key. */
export interface KeyedAnswer<T> {
  readonly value: T;
  readonly isReplayed: boolean;
}

interface Claim {
  readonly id: string;
  readonly about: string;
  /** Of the body, hexadecimal; once it was read. */
  readonly digest?: string;
  readonly isAnswered?: true;
}

/** One for each store; may be used concurrently. */
export class Idempotency {
  readonly #clock: Clock;
  readonly #store: RecordStore;
  /** Records of requests that this process is working on. */
  readonly #underWay = new Set<string>();

  constructor({ clock, store }: { readonly clock: Clock; readonly store: RecordStore }) {
    this.#clock = clock;
    this.#store = store;
  }

  /**
   * Does the work, or finds its earlier result. Throws `idempotency_in_progress`, `idempotency_mismatch`,
   * `not_found` when it was made and removed since, and what the work throws: then the key is free again.
   */
  async once<T>(request: KeyedRequest, work: KeyedWork<T>): Promise<KeyedAnswer<T>> {
    checkKey(request.key);
    const recordId = sha256(JSON.stringify([request.project, request.key]));
    if (this.#underWay.has(recordId)) throw inProgress();
    this.#underWay.add(recordId);
    try {
      return await this.#work(recordId, request, work);
    } finally {
      this.#underWay.delete(recordId);
    }
  }

  async #work<T>(recordId: string, request: KeyedRequest, work: KeyedWork<T>): Promise<KeyedAnswer<T>> {
    const record = await this.#store.record(request.project, IDEMPOTENCY, recordId);
    const isValid = record !== undefined && this.#clock.wallMs() - record.createdWallMs < IDEMPOTENCY_MS;
    const earlier = isValid ? (JSON.parse(record.body) as Claim) : undefined; // written by this file
    // Without a digest nothing was made; without an answer the process may have ended before it was.
    if (earlier?.digest !== undefined) {
      const found = await work.find(earlier.id);
      if (found !== undefined || earlier.isAnswered === true) {
        await refuseOther(earlier, request);
        if (found === undefined) throw new PerigeeError("not_found", "what this key made was removed");
        return { value: found, isReplayed: true };
      }
    }
    return { value: await this.#make(recordId, request, work), isReplayed: false };
  }

  async #make<T>(recordId: string, request: KeyedRequest, work: KeyedWork<T>): Promise<T> {
    const { project, body } = request;
    const createdWallMs = this.#clock.wallMs();
    const toRecord = (claim: Claim): StoredRecord => {
      const place = { collection: IDEMPOTENCY, id: recordId, project, parent: "", createdWallMs };
      return { ...place, body: JSON.stringify(claim) };
    };
    let claim: Claim = { id: newId(), about: aboutOf(request) };
    if (body instanceof Uint8Array) claim = { ...claim, digest: sha256(body) };
    // The record there has expired or has no result; a new record, so that the oldest stay the first to expire.
    await this.#store.change([
      { kind: "delete", collection: IDEMPOTENCY, id: recordId },
      { kind: "put", record: toRecord(claim) },
    ]);
    try {
      const given =
        body instanceof Uint8Array
          ? body
          : digested(body, async (digest) => {
              claim = { ...claim, digest };
              await this.#store.change([{ kind: "put", record: toRecord(claim) }]);
            });
      const value = await work.make(claim.id, given);
      await this.#store.change([{ kind: "put", record: toRecord({ ...claim, isAnswered: true }) }]);
      return value;
    } catch (error) {
      await this.#free(recordId, claim, work);
      throw error;
    }
  }

  /** Unless the thing exists in spite of the error: then a repeat finds it. */
  async #free<T>(recordId: string, { id }: Claim, { find }: KeyedWork<T>): Promise<void> {
    try {
      if ((await find(id)) !== undefined) return;
      await this.#store.change([{ kind: "delete", collection: IDEMPOTENCY, id: recordId }]);
    } catch {
      // The first error says more; a repeat checks the record there.
    }
  }
}

function checkKey(key: string): void {
  if (key.length >= 1 && key.length <= KEY_CHARS_MAX && /^[\x20-\x7e]+$/.test(key)) return;
  throw new PerigeeError(
    "invalid_request",
    `Idempotency-Key must have 1 to ${KEY_CHARS_MAX} printable ASCII characters`,
    { details: { param: "Idempotency-Key" } },
  );
}

async function refuseOther(earlier: Claim, request: KeyedRequest): Promise<void> {
  const isSame = earlier.about === aboutOf(request) && earlier.digest === (await digestOf(request.body));
  if (!isSame)
    throw new PerigeeError(
      "idempotency_mismatch",
      "this Idempotency-Key was used before with another request; new work needs a new key",
      { details: { param: "Idempotency-Key" } },
    );
}

function inProgress(): PerigeeError {
  return new PerigeeError(
    "idempotency_in_progress",
    "the first request with this Idempotency-Key is not answered yet",
    { details: { param: "Idempotency-Key", retryAfterSeconds: 1 } },
  );
}

function aboutOf({ about }: KeyedRequest): string {
  return sha256(JSON.stringify(about));
}

async function digestOf(body: KeyedRequest["body"]): Promise<string> {
  if (body instanceof Uint8Array) return sha256(body);
  const hash = createHash("sha256");
  for await (const chunk of body) hash.update(chunk);
  return hash.digest("hex");
}

/** The chunks as they are; the end waits for `onDigest`. */
async function* digested(
  chunks: AsyncIterable<Uint8Array>,
  onDigest: (digest: string) => Promise<void>,
): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
  await onDigest(hash.digest("hex"));
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
