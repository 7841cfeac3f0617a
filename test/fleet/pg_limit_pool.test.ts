/** Draws from rows that may be lost, on a session that is made up. */
import { expect, it } from "vitest";
import { PgLimitPool } from "../../src/fleet/shared/pg_limit_pool.ts";
import type { PgSession, PgValue } from "../../src/store/postgres/pg_session.ts";

const DRAW = {
  blocks: [
    {
      quota: "requests",
      ask: { holder: "p", sequence: 1, spent: 0, unspent: 0, returned: [], wanted: 5, least: 1, limit: 600 },
    },
  ],
  ...{ places: [], works: [], facts: [] },
};

it("a draw succeeds again after the rows of its limits were lost, as in a failover to a standby that lagged", async () => {
  const rows = new Map<string, string>();
  const pool = new PgLimitPool("", () => Promise.resolve(sessionOn(rows)));
  expect((await pool.draw(DRAW)).blocks.map(({ units }) => units)).toEqual([5]);
  rows.clear();
  await expect(pool.draw(DRAW)).rejects.toThrow("no row");
  expect((await pool.draw(DRAW)).blocks.map(({ units }) => units)).toEqual([5]);
});

it("a draw of a closed pool rejects, and opens no session", async () => {
  let opened = 0;
  const pool = new PgLimitPool("", () => {
    opened += 1;
    return Promise.resolve(sessionOn(new Map()));
  });
  pool.close();
  await expect(pool.draw(DRAW)).rejects.toThrow("closed");
  expect(opened).toBe(0);
});

/** A session with the table of limits, by name. */
function sessionOn(table: Map<string, string>): PgSession {
  return {
    query: (sql, ...values) => {
      const rows = rowsOf(table, sql, values);
      return Promise.resolve({ rows, count: rows.length });
    },
    script: () => Promise.resolve(),
    commit: () => Promise.resolve(),
    end: () => undefined,
  };
}

function rowsOf(
  table: Map<string, string>,
  sql: string,
  [names, states]: readonly PgValue[],
): readonly object[] {
  const named = Array.isArray(names) ? (names as string[]) : []; // as the statements of the pool have them
  if (sql.includes("pg_stat_activity")) return [{ name: "session" }];
  if (sql.startsWith("INSERT")) for (const name of named) table.set(name, table.get(name) ?? "");
  if (sql.startsWith("UPDATE"))
    for (const [index, name] of named.entries()) table.set(name, (states as string[])[index] ?? "");
  if (!sql.startsWith("SELECT")) return [];
  const found = named.filter((name) => table.has(name));
  return found.map((quota) => ({ quota, state: table.get(quota), now_ms: 1_000 }));
}
