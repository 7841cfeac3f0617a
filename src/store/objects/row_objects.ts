/**
 * Objects as rows of PostgreSQL, in chunks of 1 MiB, on a separate session: they need no other place, and the backup of the database contains
 * them. A put is one statement. Calls wait while the database is away.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { PgStatements } from "../postgres/pg_statements.ts";
import { assertSame, type ListedObject, type Objects } from "./objects.ts";

const CHUNK_BYTES = 1 << 20;
const LIST_PAGE = 1_000;

export class RowObjects implements Objects {
  readonly #statements: PgStatements;

  private constructor(statements: PgStatements) {
    this.#statements = statements;
  }

  /** Connects. Rejects as `openPostgresStore` does. */
  static async open(url: string, clock: Clock): Promise<RowObjects> {
    return new RowObjects(await PgStatements.open(url, clock));
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const { count } = await this.#statements.query(
      `INSERT INTO perigee_objects (name, chunk, size, bytes)
       SELECT $1, chunk, $3, substr($2::bytea, chunk * ${CHUNK_BYTES} + 1, ${CHUNK_BYTES})
       FROM generate_series(0, $4::integer) AS chunk ON CONFLICT DO NOTHING`,
      name,
      bytes,
      bytes.byteLength,
      Math.trunc((bytes.byteLength - 1) / CHUNK_BYTES),
    );
    if (count === 0)
      await assertSame(
        this,
        name,
        bytes,
        () => new PerigeeError("conflict", `another object is stored as ${name}`),
      );
  }

  async get(name: string, start: number, lengthBytes: number): Promise<Uint8Array | undefined> {
    const { rows } = await this.#statements.query(
      `SELECT size, substr(bytes, greatest($2::bigint - chunk::bigint * ${CHUNK_BYTES}, 0)::integer + 1,
         greatest(least($2::bigint + $3, (chunk::bigint + 1) * ${CHUNK_BYTES}) - greatest($2::bigint, chunk::bigint * ${CHUNK_BYTES}), 0)::integer) AS part
       FROM perigee_objects WHERE name = $1 AND (chunk = 0 OR chunk BETWEEN $2::bigint / ${CHUNK_BYTES} AND ($2::bigint + $3 - 1) / ${CHUNK_BYTES})
       ORDER BY chunk`,
      name,
      start,
      lengthBytes,
    );
    if (rows.length === 0) return undefined;
    const parts = (rows as readonly { readonly part: Uint8Array }[]).map(({ part }) => part); // as selected
    return parts.length === 1 ? parts[0] : Buffer.concat(parts);
  }

  async remove(name: string): Promise<void> {
    await this.#statements.query("DELETE FROM perigee_objects WHERE name = $1", name);
  }

  async *list(prefix: string): AsyncGenerator<ListedObject, void, undefined> {
    for (let after = ""; ; ) {
      const { rows } = await this.#statements.query(
        `SELECT name, extract(epoch FROM clock_timestamp() - created)::float8 * 1000 AS age FROM perigee_objects
         WHERE chunk = 0 AND name > $1 AND name >= $2 AND starts_with(name, $2) ORDER BY name LIMIT ${LIST_PAGE}`,
        after,
        prefix,
      );
      const page = rows as readonly { readonly name: string; readonly age: string }[]; // as selected
      for (const { name, age } of page) yield { name, ageMs: Math.max(0, Number(age)) };
      after = page.at(-1)?.name ?? "";
      if (page.length < LIST_PAGE) return;
    }
  }

  async close(): Promise<void> {
    this.#statements.close();
  }
}
