/**
 * The keys of a fleet for the command line, which makes, lists and revokes them while workers run. Each change is audited.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { AuditEvent } from "../store/audit/audit_line.ts";
import { PgAudit } from "../store/audit/pg_audit.ts";
import { PgKeyStore } from "../store/keys/pg_key_store.ts";
import { FleetDatabase } from "./fleet_database.ts";

/** The keys of a fleet, and the audit log of what is done with them. */
export interface OpenedFleetKeys {
  readonly keys: PgKeyStore;
  /** Durable when it resolves. */
  note(event: AuditEvent): Promise<void>;
  close(): Promise<void>;
}

/** Makes or migrates the tables. Throws as `FleetDatabase.open`. */
export async function openFleetKeys(store: string, clock: Clock): Promise<OpenedFleetKeys> {
  const database = await FleetDatabase.open(store, clock);
  const audit = new PgAudit(database.query, clock, `keys/${randomUUID().slice(0, 8)}`);
  const keys = new PgKeyStore(database.query, clock);
  return {
    keys,
    note: async (event) => {
      audit.note(event);
      await audit.flush();
    },
    close: async () => {
      await audit.close();
      database.close();
    },
  };
}
