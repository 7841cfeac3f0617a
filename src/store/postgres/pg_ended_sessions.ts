/**
 * Sessions by name, and which of them have certainly ended with their processes: the operating system closes the connection of a process that ends,
 * and the server ends its session.
 *
 * What a restart of the server or a failover ended says nothing of processes. A session through a pooler lasts as long as the pooler keeps it.
 */
import type { PgQuery } from "./pg_session.ts";

/** The server's timeline, which a failover changes. */
const TIMELINE = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/** The name of this session, unique in its database server. */
export async function sessionName(query: PgQuery): Promise<string> {
  const { rows } = await query(
    `SELECT concat_ws(' ', ${TIMELINE}, pid, extract(epoch FROM backend_start)::text) AS name
     FROM pg_stat_activity WHERE pid = pg_backend_pid()`,
  );
  return (rows as readonly { readonly name: string }[])[0]?.name ?? ""; // as selected
}

/** Those of `names` that have ended while the server ran. */
export async function endedSessions(query: PgQuery, names: readonly string[]): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set();
  const { rows } = await query(
    `SELECT name FROM unnest($1::text[]) AS name
     WHERE split_part(name, ' ', 1) = ${TIMELINE}
       AND split_part(name, ' ', 3)::numeric > extract(epoch FROM pg_postmaster_start_time())
       AND NOT EXISTS (
         SELECT FROM pg_stat_activity
         WHERE pid = split_part(name, ' ', 2)::integer
           AND (backend_start IS NULL OR extract(epoch FROM backend_start)::text = split_part(name, ' ', 3)))`,
    names,
  );
  return new Set((rows as readonly { readonly name: string }[]).map(({ name }) => name)); // as selected
}
