/**
 * The only import of `pg`: one session of PostgreSQL. `pg` is an optional peer, loaded with the first session.
 *
 *   connected -> lost    (the server or the network ended it, or a query was not answered in time: every later query rejects)
 *             -> ended   (`end`)
 *
 * Statements are sent without waiting for the answers of those before them (`pipeline` of pg 8.23; an older one waits), those of one turn of the loop in one write.
 * They are done in their order. After one that failed in a transaction, the others of it fail too.
 *
 * To replace `pg`: any client works that runs prepared statements with binary parameters, one after another on one connection.
 */
import type { ClientBase, ClientConfig } from "pg";
import { systemClock } from "../../clock.ts";
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

/** One session. Statements are done one after another, in the order of the calls, which need not wait for each other. */
export interface PgSession {
  readonly query: PgQuery;
  /** Several statements at once, without values. */
  readonly script: (sql: string) => Promise<void>;
  /** Rejects when the server has rolled the transaction back instead, because a statement of it had failed. */
  readonly commit: () => Promise<void>;
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
  const send = sender(client);
  return {
    query: async (sql, ...values) => {
      const name = names.get(sql) ?? `perigee_${names.size}`;
      names.set(sql, name);
      const bound = { name, text: sql, values: values.map(boundValue) };
      const { rows, rowCount } = await send(() => client.query(bound));
      return { rows, count: rowCount ?? 0 };
    },
    script: async (sql) => {
      await send(() => client.query(sql));
    },
    commit: async () => {
      const { command } = await send(() => client.query("COMMIT"));
      if (command !== "COMMIT") throw rolledBack();
    },
    end: () => end(client),
  };
}

/** With the code of `transaction_rollback`: the transaction can be repeated. */
function rolledBack(): Error {
  return Object.assign(new Error("the transaction was rolled back"), { code: "40000" });
}

/** Calls of one turn of the loop are written together; a `pg` without a pipeline, whose queue is deprecated, gets one after another. */
function sender(client: ClientBase & Ending): <T>(send: () => Promise<T>) => Promise<T> {
  if (client.pipeline !== true) {
    let last: Promise<unknown> = Promise.resolve();
    return (send) => {
      const sent = last.then(send, send);
      last = sent.catch(() => undefined);
      return sent;
    };
  }
  const stream = streamOf(client);
  let isCorked = false;
  return (send) => {
    if (!isCorked) {
      isCorked = true;
      stream?.cork?.();
      systemClock.soon(() => {
        isCorked = false;
        stream?.uncork?.();
      });
    }
    return send();
  };
}

const SETTINGS: ClientConfig = {
  pipeline: true,
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
  /** Absent before pg 8.23. */
  readonly pipeline?: boolean;
  end(): Promise<void>;
}

/** Does not wait for the server, which may not answer: it receives the end of the session, or notices that the connection is closed. */
function end(client: ClientBase & Ending): void {
  const stream = streamOf(client);
  void client.end().catch(() => undefined);
  stream?.destroy?.();
}

interface ClientStream {
  cork?(): void;
  uncork?(): void;
  destroy?(): void;
}

function streamOf(client: ClientBase): ClientStream | undefined {
  const { connection } = client as unknown as { readonly connection?: { readonly stream?: ClientStream } }; // pg has no other way
  return connection?.stream;
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
