/**
 * The only import of `pg`: one session of PostgreSQL. `pg` is an optional peer, loaded with the first session.
 *
 *   connected -> lost    (the server or the network ended it, or a query was not answered in time: every later query rejects)
 *             -> ended   (`end`)
 *
 * To replace `pg`: any client works that runs prepared statements with binary parameters, one after another on one connection.
 */
import type { ClientBase, ClientConfig } from "pg";
import { PerigeeError } from "../../errors.ts";

/** An optional peer; the version is that of package.json. */
const PG_PACKAGE = "pg@8";
/** For the connection, TLS and the password: a server on the same network takes milliseconds. */
const CONNECT_MS = 5_000;
/** After this a query counts as lost: a statement of the store takes milliseconds, a large page a second. */
const QUERY_MS = 30_000;

/** Type numbers of `pg_type` whose values are not read as text. */
const BYTEA = 17;
const INT8 = 20;
const INT4 = 23;
const BOOL = 16;

/** What a statement takes for one of its `$1`, `$2`; lists are arrays of PostgreSQL. */
export type PgValue = string | number | boolean | null | Uint8Array | readonly (string | number | null)[];

/** The rows of a statement. */
export interface PgResult {
  /** Objects by column name; `bigint` as a number, `bytea` as bytes in a buffer of their own. */
  readonly rows: readonly unknown[];
  /** Rows found or changed. */
  readonly count: number;
}

/** Runs one statement with its values for `$1`, `$2` and so on. Rejects with the error of `pg`, after 30 s at the latest. */
export type PgQuery = (sql: string, ...values: readonly PgValue[]) => Promise<PgResult>;

/** One session, for one statement after another. */
export interface PgSession {
  readonly query: PgQuery;
  /** Several statements at once, without values. */
  readonly script: (sql: string) => Promise<void>;
  /** Ends the session at once. */
  end(): void;
}

/** Connects; `url` as `postgres://user:password@host:port/database`. Rejects with the error of `pg`, or `usage` without the package. */
export async function connectPg(url: string): Promise<PgSession> {
  const { Client } = await loadPg();
  const client = new Client({ ...SETTINGS, connectionString: url });
  client.on("error", () => undefined); // the next query rejects, and says so
  try {
    await client.connect();
  } catch (error) {
    end(client);
    throw error;
  }
  const names = new Map<string, string>();
  return {
    query: async (sql, ...values) => {
      const name = names.get(sql) ?? `perigee_${names.size}`;
      names.set(sql, name);
      const { rows, rowCount } = await client.query({ name, text: sql, values: values.map(boundValue) });
      return { rows, count: rowCount ?? 0 };
    },
    script: async (sql) => {
      await client.query(sql);
    },
    end: () => end(client),
  };
}

const SETTINGS: ClientConfig = {
  application_name: "perigee",
  connectionTimeoutMillis: CONNECT_MS,
  query_timeout: QUERY_MS,
  keepAlive: true,
  types: { getTypeParser: (type: number) => parserOf(type) } as NonNullable<ClientConfig["types"]>, // its type names each type
};

async function loadPg(): Promise<{ readonly Client: new (config: ClientConfig) => ClientBase & Ending }> {
  try {
    const { default: pg } = await import("pg");
    return pg;
  } catch (cause) {
    throw new PerigeeError(
      "usage",
      `a store on PostgreSQL needs the package pg, which is not installed: run "npm install ${PG_PACKAGE}"`,
      { cause },
    );
  }
}

interface Ending {
  end(): Promise<void>;
}

/** Does not wait for the server, which may not answer: it receives the end of the session, or notices that the connection is closed. */
function end(client: ClientBase & Ending): void {
  const { connection } = client as unknown as { readonly connection?: { readonly stream?: Destroyable } }; // pg has no other way
  void client.end().catch(() => undefined);
  connection?.stream?.destroy?.();
}

interface Destroyable {
  destroy?(): void;
}

function boundValue(value: PgValue): unknown {
  return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
}

function parserOf(type: number): (text: string) => unknown {
  switch (type) {
    case BYTEA:
      return (text) => new Uint8Array(Buffer.from(text.slice(2), "hex")); // "\x0aff"; Node's own may share its buffer
    case INT8:
    case INT4:
      return Number;
    case BOOL:
      return (text) => text === "t";
    default:
      return (text) => text;
  }
}
