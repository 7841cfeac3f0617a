/**
 * Changes the key that encrypts secrets: every sealed record is opened under the old one and sealed under the new one.
 *
 *   state {old} -> {new, previous: old} -> records, 100 a transaction -> state {new} -> the folder's key file is replaced or removed
 *
 * Each arrow is durable before the next, and each sealed record names its key: after a stop anywhere, the same call
 * continues where it was. In between nothing else opens the vault, so nothing is written under the old key.
 */
import { PerigeeError } from "../../errors.ts";
import type { RecordChange } from "../../store/records.ts";
import {
  adoptNextKey,
  folderKey,
  givenKey,
  makeFolderKey,
  removeFolderKeys,
  type SecretKey,
} from "./secret_key.ts";
import {
  createVault,
  everyRecord,
  type KeyState,
  keyIdOf,
  readKeyState,
  SEALED_COLLECTIONS,
  type VaultOptions,
  writeKeyState,
} from "./vault.ts";

const RECORDS_AT_ONCE = 100;

export interface Rotation {
  readonly keyId: string;
  /** Texts that this call sealed again. */
  readonly resealed: number;
  /** Where the new key is. */
  readonly place: "environment" | "data folder";
}

/**
 * From `PERIGEE_SECRETS_OLD_KEY`, or the folder's key, to `PERIGEE_SECRETS_KEY`, or a new one in the folder. The folder must be the
 * only the caller's. Throws `invalid_config` when the old key is missing or is not the one that the records are under; nothing has
 * changed then.
 */
export async function rotateSecretsKey(options: VaultOptions): Promise<Rotation> {
  const { store, dataDir, env } = options;
  const state = await readKeyState(store);
  const given = await givenKey(env, "PERIGEE_SECRETS_KEY");
  const old = await oldKey(options, state, given);
  const begun = given ?? (await folderKey(options, "next"));
  const left = state?.previousKeyId ?? state?.keyId;
  if (state?.previousKeyId !== undefined && state.keyId !== begun?.id)
    throw new PerigeeError(
      "invalid_config",
      `a rotation to key ${state.keyId} has begun and has to end first: set PERIGEE_SECRETS_KEY to that one`,
    );
  if (left !== undefined && left !== begun?.id && left !== old?.id)
    throw new PerigeeError("invalid_config", missing(left, old, dataDir));
  const next = begun ?? (await makeFolderKey(options, "next"));
  if (left !== undefined && left !== next.id)
    await writeKeyState(options, { keyId: next.id, previousKeyId: left });
  const resealed = old === undefined ? 0 : await resealAll(options, old, next);
  await writeKeyState(options, { keyId: next.id });
  if (given === undefined) await adoptNextKey(options);
  else await removeFolderKeys(options);
  return { keyId: next.id, resealed, place: given === undefined ? "data folder" : "environment" };
}

/** Where nothing is sealed yet there need not be any. */
async function oldKey(
  options: VaultOptions,
  state: KeyState | undefined,
  given: SecretKey | undefined,
): Promise<SecretKey | undefined> {
  const named = await givenKey(options.env, "PERIGEE_SECRETS_OLD_KEY");
  if (named !== undefined) return named;
  return given !== undefined && state?.keyId === given.id && state.previousKeyId === undefined
    ? given
    : await folderKey(options);
}

function missing(keyId: string, found: SecretKey | undefined, dataDir: string): string {
  const what = found === undefined ? "is not given" : `is not the one given, which is ${found.id}`;
  return `the secrets in ${dataDir} are under key ${keyId}, which ${what}: set PERIGEE_SECRETS_OLD_KEY or PERIGEE_SECRETS_OLD_KEY_FILE`;
}

async function resealAll({ store }: VaultOptions, old: SecretKey, next: SecretKey): Promise<number> {
  const from = createVault(old);
  const to = createVault(next);
  let changes: RecordChange[] = [];
  let resealed = 0;
  const flush = async (): Promise<void> => {
    if (changes.length > 0) await store.change(changes);
    resealed += changes.length;
    changes = [];
  };
  for (const collection of SEALED_COLLECTIONS) {
    for await (const record of everyRecord(store, collection)) {
      if (keyIdOf(record) !== old.id || old.id === next.id) continue;
      changes.push({ kind: "put", record: { ...record, payload: to.seal(record, from.open(record)) } });
      if (changes.length >= RECORDS_AT_ONCE) await flush();
    }
  }
  await flush();
  return resealed;
}
