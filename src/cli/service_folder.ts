/**
 * The data folder of a service that is stopped, for commands that change its records, and its audit log, which is written
 * while it runs as well.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../clock.ts";
import { systemDisk } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import type { VaultOptions } from "../satellites/secrets/vault.ts";
import type { AuditEvent } from "../store/audit/audit_line.ts";
import { openAuditLog } from "../store/audit/audit_log.ts";
import { FOLDER_IN_USE } from "../store/folder/data_dir.ts";
import { openSqliteStore } from "../store/sqlite.ts";

/** Works on the store while it is nobody else's. Throws `not_found` where it does not exist, `data_dir_in_use`. */
export async function onFolder<T>(dataDir: string, work: (parts: VaultOptions) => Promise<T>): Promise<T> {
  if (!existsSync(join(dataDir, "journal.sqlite")) && !existsSync(join(dataDir, "keys.sqlite")))
    throw new PerigeeError("not_found", `there is no data folder of a service at ${dataDir}`);
  const store = await openSqliteStore({ dataDir, reserveBytes: 0 }).catch((error: unknown) => {
    if (!(error instanceof PerigeeError) || error.code !== "data_dir_in_use") throw error;
    const advice = "go through the service with --url and PERIGEE_API_KEY, or stop it";
    const message = error.message.replace(FOLDER_IN_USE, advice);
    throw new PerigeeError("data_dir_in_use", message, { cause: error });
  });
  try {
    return await work({ store, dataDir, clock: systemClock, env: process.env });
  } finally {
    await store.close();
  }
}

/** Notes an event, durable when it resolves. */
export async function record(dataDir: string, event: AuditEvent): Promise<void> {
  const log = await openAuditLog({ dataDir, clock: systemClock, disk: systemDisk });
  log.note(event);
  await log.close();
}
