/**
 * The key that encrypts secrets on the disk, and its source.
 *
 *   PERIGEE_SECRETS_KEY (base64 or hexadecimal) | PERIGEE_SECRETS_KEY_FILE (a file with the same) | `secrets.key` in the data folder
 *
 * A key of the operator's own protects the data folder and its backups. Without one a key is made in the folder, mode 0600:
 * it protects copies of only the database, not of the whole folder.
 *
 * Limit: 256 bits, exactly.
 */
import { createHmac, randomBytes } from "node:crypto";
import { chmod, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Disk, errorCodeOf, systemDisk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";

/** AES-256: 32 bytes. */
export interface SecretKey {
  /** Identifies a key without revealing it: 16 hexadecimal digits. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

/** Variables of the process, such as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Which variables: the key in use, or the one before it. */
export type KeyVariable = "PERIGEE_SECRETS_KEY" | "PERIGEE_SECRETS_OLD_KEY";

/** Where a key may be kept: the data folder, on its disk. */
export interface KeyHome {
  readonly dataDir: string;
  /** Default: this machine's. */
  readonly disk?: Disk;
}

const KEY_BYTES = 32;
const ID_BYTES = 8;
const KEY_FILE = "secrets.key";
/** While a rotation makes it the folder's key. */
const NEXT_KEY_FILE = "secrets.key.new";
/** Longer than any form of a key. */
const FILE_BYTES_MAX = 1_024;

/** Default: fresh random bytes. The id is an HMAC under the key, so it reveals nothing of it. */
export function makeSecretKey(bytes: Uint8Array = randomBytes(KEY_BYTES)): SecretKey {
  const id = createHmac("sha256", bytes).update("perigee secrets key id").digest("hex");
  return { id: id.slice(0, 2 * ID_BYTES), bytes };
}

/**
 * The operator's key, undefined when it is not set. Throws `invalid_config` for an invalid one, a file that cannot be
 * read, and both at once; messages do not show what was found.
 */
export async function givenKey(env: Environment, variable: KeyVariable): Promise<SecretKey | undefined> {
  const text = env[variable];
  const path = env[`${variable}_FILE`];
  if (text !== undefined && path !== undefined)
    throw new PerigeeError("invalid_config", `${variable} and ${variable}_FILE are both set: set one`);
  if (text !== undefined) return parsed(text, variable);
  if (path === undefined) return undefined;
  return parsed(await readKeyFile(path, `${variable}_FILE`), `the file that ${variable}_FILE names`);
}

/** The key of the data folder, undefined when it does not exist. */
export async function folderKey(
  { dataDir, disk = systemDisk }: KeyHome,
  which: "current" | "next" = "current",
): Promise<SecretKey | undefined> {
  const path = pathOf(dataDir, which);
  try {
    if (disk === systemDisk) await chmod(path, 0o600);
    else if ((await disk.stat(path)) === undefined) return undefined;
  } catch (error) {
    if (errorCodeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  return parsed(disk === systemDisk ? await readKeyFile(path, path) : await textOf(disk, path), path);
}

/** Makes a key in the data folder; whole and durable when it resolves. */
export async function makeFolderKey(
  { dataDir, disk = systemDisk }: KeyHome,
  which: "current" | "next" = "current",
): Promise<SecretKey> {
  const key = makeSecretKey();
  const temporary = join(dataDir, `${KEY_FILE}.tmp`);
  await disk.remove(temporary);
  const file = await disk.open(temporary, "write");
  try {
    await file.write(Buffer.from(`${Buffer.from(key.bytes).toString("base64")}\n`), 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(temporary, pathOf(dataDir, which));
  return key;
}

/** The next key takes the place of the folder's; nothing is left of the one before. */
export async function adoptNextKey({ dataDir, disk = systemDisk }: KeyHome): Promise<void> {
  await disk.rename(pathOf(dataDir, "next"), pathOf(dataDir, "current"));
}

/** When the operator's key has taken the place of the folder's. */
export async function removeFolderKeys({ dataDir, disk = systemDisk }: KeyHome): Promise<void> {
  for (const which of ["current", "next"] as const) await disk.remove(pathOf(dataDir, which));
}

function pathOf(dataDir: string, which: "current" | "next"): string {
  return join(dataDir, which === "current" ? KEY_FILE : NEXT_KEY_FILE);
}

async function textOf(disk: Disk, path: string): Promise<string> {
  const file = await disk.open(path, "read");
  try {
    const bytes = new Uint8Array(FILE_BYTES_MAX + 1);
    return Buffer.from(bytes.subarray(0, await file.read(bytes, 0))).toString("utf8");
  } finally {
    await file.close();
  }
}

async function readKeyFile(path: string, where: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const reason = errorCodeOf(error) ?? "error";
    throw new PerigeeError("invalid_config", `${where}: the key cannot be read (${reason})`, {
      cause: error,
    });
  }
}

function parsed(text: string, where: string): SecretKey {
  const trimmed = text.length > FILE_BYTES_MAX ? "" : text.trim();
  const bytes = /^[0-9a-f]{64}$/i.test(trimmed)
    ? Buffer.from(trimmed, "hex")
    : /^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)
      ? Buffer.from(trimmed, "base64")
      : undefined;
  if (bytes?.length !== KEY_BYTES)
    throw new PerigeeError(
      "invalid_config",
      `${where}: a key is ${KEY_BYTES} bytes in base64 or hexadecimal, as \`openssl rand -base64 ${KEY_BYTES}\` makes it`,
    );
  return makeSecretKey(bytes);
}
