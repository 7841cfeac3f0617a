/**
 * `perigee secrets`: sets, lists and removes the secrets of a project, and changes the key that encrypts them.
 *
 * In the data folder of a service that is stopped, or through one that runs (`--url`): only the service writes its records. A value
 * is never an argument, which every process of the machine can read, and is never printed.
 */
import { PerigeeError } from "../../errors.ts";
import { NAME } from "../../satellites/sdk/reference.ts";
import { rotateSecretsKey } from "../../satellites/secrets/secret_rotation.ts";
import { openSecrets } from "../../satellites/secrets/secret_store.ts";
import type { Secrets } from "../../satellites/secrets/secrets.ts";
import { timestamp } from "../../service/shapes/timestamp.ts";
import type { AuditEvent } from "../../store/audit/audit_line.ts";
import { count } from "../numbers.ts";
import { onFolder, record } from "../service_folder.ts";
import { table } from "../table.ts";
import { answer } from "./answer.ts";
import { callService } from "./service_client.ts";

/** A line end after the value and a little more than the largest value. */
const INPUT_BYTES_MAX = 65_536 + 2;

/** What all have. */
interface SecretsArguments {
  readonly data: string;
  readonly json?: boolean;
  readonly project?: string;
  readonly url?: string;
}

interface SetArguments extends SecretsArguments {
  readonly fromEnv?: string;
}

/** As the service shows one. */
interface Shown {
  readonly name: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. As the others. */
export function setSecret(name: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SetArguments; // commander's own shape, declared in main.ts
  return answer(given, async () => {
    const call = { method: "PUT", path: pathOf(name) };
    const value = await secretValue(given);
    await over(given, { ...call, body: { value } }, async (secrets, project) => {
      await secrets.set(project, name, value);
      return { kind: "secret.set", project, secret: name };
    });
    return { json: { name, set: true }, text: `${name} is set: satellites use it as secret://${name}\n` };
  });
}

export function listSecrets(options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SecretsArguments; // as above
  return answer(given, async () => {
    let shown: readonly Shown[] = [];
    const found = await over(given, { method: "GET", path: "/v1/secrets" }, async (secrets, project) => {
      shown = (await secrets.list(project)).map(({ name, createdWallMs, updatedWallMs }) => ({
        name,
        created_at: timestamp(createdWallMs),
        updated_at: timestamp(updatedWallMs),
      }));
      return undefined;
    });
    if (found !== undefined) shown = (found as { readonly secrets: readonly Shown[] }).secrets; // the service's own shape
    const rows = shown.map(({ name, created_at, updated_at }) => [name, created_at, updated_at]);
    const text = rows.length === 0 ? "no secrets\n" : table([["name", "created", "updated"], ...rows]);
    return { json: { secrets: shown }, text };
  });
}

export function removeSecret(name: string, options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SecretsArguments; // as above
  return answer(given, async () => {
    await over(given, { method: "DELETE", path: pathOf(name) }, async (secrets, project) => {
      await secrets.remove(project, name);
      return { kind: "secret.removed", project, secret: name };
    });
    return { json: { name, deleted: true }, text: `${name} is removed\n` };
  });
}

export function rotateKey(options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as SecretsArguments; // as above
  return answer(given, async () => {
    const { keyId, resealed, place } = await onFolder(given.data, rotateSecretsKey);
    await record(given.data, { kind: "config.changed", setting: "PERIGEE_SECRETS_KEY" });
    return {
      json: { key_id: keyId, resealed, place },
      text: `all secrets are under key ${keyId} (${place}); ${count(resealed)} were encrypted again\n`,
    };
  });
}

/** Through the service, whose answer it resolves with; or on the folder, and then undefined. */
async function over(
  { url, data, project }: SecretsArguments,
  call: { readonly method: string; readonly path: string; readonly body?: unknown },
  work: (secrets: Secrets, project: string) => Promise<AuditEvent | undefined>,
): Promise<unknown> {
  if (url !== undefined) return await callService({ url, key: process.env["PERIGEE_API_KEY"] }, call);
  if (project === undefined || !NAME.test(project))
    throw new PerigeeError("usage", "--project must name a project, or --url a service");
  const event = await onFolder(data, async (parts) => work(await openSecrets(parts), project));
  if (event !== undefined) await record(data, event);
  return undefined;
}

function pathOf(name: string): string {
  return `/v1/secrets/${encodeURIComponent(name)}`;
}

/** The variable's, or what standard input holds, without the line end that `echo` adds. */
async function secretValue({ fromEnv }: SetArguments): Promise<string> {
  if (fromEnv !== undefined) {
    const value = process.env[fromEnv];
    if (value === undefined) throw new PerigeeError("usage", `--from-env: ${fromEnv} is not set`);
    return value;
  }
  if (process.stdin.isTTY)
    throw new PerigeeError(
      "usage",
      "pass the value on standard input, from a file or a pipe, or with --from-env",
    );
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin) {
    chunks.push(chunk as Uint8Array);
    bytes += (chunk as Uint8Array).length;
    if (bytes > INPUT_BYTES_MAX) throw new PerigeeError("too_large", "a secret has at most 65536 bytes");
  }
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}
