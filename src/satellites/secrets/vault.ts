/**
 * The vault: texts as they are on the disk, under AES-256-GCM (NIST SP 800-38D).
 *
 *   sealed = version (1 byte, 1) | id of the key (8) | nonce (12, random) | tag (16) | ciphertext
 *
 * Additional data are version, id of the key, and the collection, project and id of the record: what is moved to another
 * record does not open. A nonce is random for each sealing; 2^32 of them under one key are safe, which is more than
 * a service writes.
 *
 * Which key the folder's records are under is a record as well, so that another key is an error at the start and not
 * garbage later:
 *
 *   no record -> {keyId} -> {keyId: new, previousKeyId: old} (`secret_rotation.ts` is at work) -> {keyId: new}
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { EVERY_PROJECT, type RecordStore, type StoredRecord } from "../../store/records.ts";
import {
  adoptNextKey,
  type Environment,
  folderKey,
  givenKey,
  type KeyHome,
  makeFolderKey,
  type SecretKey,
} from "./secret_key.ts";

/** Where a text belongs: the record whose payload it is. */
export type SecretPlace = Pick<StoredRecord, "collection" | "project" | "id">;

/** Synchronous; may be used at any time. */
export interface Vault {
  /** The payload of a record; different each time. */
  seal(place: SecretPlace, text: string): Uint8Array;
  /** Throws `store_damaged` for what was not sealed for this record under this key. */
  open(record: StoredRecord): string;
}

/** Where keys are looked for: `env` first, then the data folder. */
export interface VaultOptions extends KeyHome {
  readonly store: RecordStore;
  readonly clock: Pick<Clock, "wallMs">;
  /** Where `PERIGEE_SECRETS_KEY` and `PERIGEE_SECRETS_KEY_FILE` are looked up. */
  readonly env: Environment;
  /** Whether it is of a partition of a fleet, whose key no command rotates. */
  readonly isShared?: boolean;
}

/** Collections whose payloads are sealed, and nothing else. */
export const SEALED_COLLECTIONS: readonly string[] = ["secret", "webhook_endpoint", "satellite"];

/** Which key the folder's records are under. */
export interface KeyState {
  readonly keyId: string;
  /** While records under another key may be left. */
  readonly previousKeyId?: string;
}

const STATE = { collection: "secrets_key", id: "current", project: "" } as const;
const VERSION = 1;
const HEAD_BYTES = 9;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** On a key that is known. */
export function createVault(key: SecretKey): Vault {
  const head = Buffer.concat([Buffer.from([VERSION]), Buffer.from(key.id, "hex")]);
  return {
    seal(place, text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", key.bytes, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(additionalData(head, place));
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([head, nonce, cipher.getAuthTag(), body]);
    },
    open(record) {
      const sealed = Buffer.from(record.payload ?? new Uint8Array());
      const bodyStart = HEAD_BYTES + NONCE_BYTES + TAG_BYTES;
      if (sealed.length < bodyStart || !sealed.subarray(0, HEAD_BYTES).equals(head)) throw unreadable(record);
      const nonce = sealed.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES);
      const decipher = createDecipheriv("aes-256-gcm", key.bytes, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(additionalData(head, record));
      decipher.setAuthTag(sealed.subarray(HEAD_BYTES + NONCE_BYTES, bodyStart));
      try {
        return Buffer.concat([decipher.update(sealed.subarray(bodyStart)), decipher.final()]).toString(
          "utf8",
        );
      } catch (error) {
        throw unreadable(record, error);
      }
    },
  };
}

/** Id of the key that a payload is under; undefined for one that is not sealed. */
export function keyIdOf({ payload }: StoredRecord): string | undefined {
  if (payload === undefined || payload[0] !== VERSION || payload.length < HEAD_BYTES) return undefined;
  return Buffer.from(payload.subarray(1, HEAD_BYTES)).toString("hex");
}

/**
 * The vault of a data folder. Throws `invalid_config` for an invalid key, for another one than the records are
 * under, when the key is missing, and when a rotation is not finished.
 */
export async function openVault(options: VaultOptions): Promise<Vault> {
  const { store, dataDir, env } = options;
  const state = await readKeyState(store);
  if (state?.previousKeyId !== undefined)
    throw new PerigeeError(
      "invalid_config",
      `the rotation of the secrets' key in ${dataDir} is not finished: run perigee secrets rotate-key again`,
    );
  const given = await givenKey(env, "PERIGEE_SECRETS_KEY");
  const key = given ?? (await ownKey(options, state));
  if (state?.keyId !== key.id) {
    if (state !== undefined && (await hasSealed(store)))
      throw new PerigeeError(
        "invalid_config",
        `${given === undefined ? "secrets.key" : "PERIGEE_SECRETS_KEY"} is key ${key.id}, but ${otherKey(state.keyId, options)}`,
      );
    await writeKeyState(options, { keyId: key.id });
  }
  return createVault(key);
}

function otherKey(keyId: string, { dataDir, isShared = false }: VaultOptions): string {
  return isShared
    ? `this partition has secrets or webhooks under key ${keyId}: start the workers with that one, or remove these first ("The key for secrets" in the guide "In production")`
    : `the secrets in ${dataDir} are under key ${keyId}: set that one, or change to the new one with perigee secrets rotate-key`;
}

/** The folder's own key, made where there is nothing yet that it would have to open. */
async function ownKey(options: VaultOptions, state: KeyState | undefined): Promise<SecretKey> {
  const { store, dataDir } = options;
  const next = await folderKey(options, "next");
  if (next !== undefined && state?.keyId === next.id && state.previousKeyId === undefined) {
    await adoptNextKey(options); // a rotation ended right before it would have done this
    return next;
  }
  const found = await folderKey(options);
  if (found !== undefined) return found;
  if (state !== undefined && (await hasSealed(store)))
    throw new PerigeeError(
      "invalid_config",
      `the secrets in ${dataDir} are under key ${state.keyId}, which is missing: set PERIGEE_SECRETS_KEY or PERIGEE_SECRETS_KEY_FILE, or restore secrets.key`,
    );
  return await makeFolderKey(options);
}

/** Undefined if none was ever written. */
export async function readKeyState(store: RecordStore): Promise<KeyState | undefined> {
  const found = await store.record(STATE.project, STATE.collection, STATE.id);
  return found === undefined ? undefined : (JSON.parse(found.body) as KeyState); // written below
}

/** Durable when it resolves. */
export async function writeKeyState(
  { store, clock }: Pick<VaultOptions, "store" | "clock">,
  state: KeyState,
): Promise<void> {
  const record = { ...STATE, parent: "", createdWallMs: clock.wallMs(), body: JSON.stringify(state) };
  await store.change([{ kind: "put", record }]);
}

async function hasSealed(store: RecordStore): Promise<boolean> {
  for (const collection of SEALED_COLLECTIONS)
    for await (const record of everyRecord(store, collection)) if (keyIdOf(record) !== undefined) return true;
  return false;
}

const PAGE = 100;

/** All records of a collection, in pages. */
export async function* everyRecord(store: RecordStore, collection: string): AsyncGenerator<StoredRecord> {
  let after: string | undefined;
  for (;;) {
    const query = { collection, limit: PAGE, ...(after === undefined ? {} : { after }) };
    const page = await store.records(EVERY_PROJECT, query);
    yield* page;
    after = page.at(-1)?.id;
    if (page.length < PAGE) return;
  }
}

/** Parts hold no NUL, so no two places have the same bytes. */
function additionalData(head: Buffer, { collection, project, id }: SecretPlace): Buffer {
  return Buffer.concat([head, Buffer.from([collection, project, id].join("\0"), "utf8")]);
}

function unreadable({ collection, project, id }: StoredRecord, cause?: unknown): PerigeeError {
  const message = `${collection} ${id} of project ${project} was not sealed for its place under this key`;
  return new PerigeeError("store_damaged", message, { cause });
}
