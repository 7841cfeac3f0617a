/**
 * The database of a fleet in the middle of an upgrade: workers of the version before go on with a schema that is newer than they are. And the rows
 * of what was learnt, which all workers share.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { PgLearnt } from "../../src/fleet/shared/pg_learnt.ts";
import { LearntStore } from "../../src/store/learnt.ts";
import { migratePg, pgSchemaVersions } from "../../src/store/postgres/pg_schema.ts";
import { connectPg, type PgSession } from "../../src/store/postgres/pg_session.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

/** The first schema that a fleet had. */
const FIRST = 4;

interface Column {
  readonly place: string;
  readonly type: string;
  readonly nullable: string;
  readonly isFilled: boolean;
}

let postgres: PostgresServer;

async function columns({ query }: PgSession): Promise<ReadonlyMap<string, Column>> {
  const { rows } = await query(
    `SELECT table_name || '.' || column_name AS place, data_type AS type, is_nullable AS nullable,
       (column_default IS NOT NULL OR is_identity = 'YES')::int = 1 AS "isFilled"
     FROM information_schema.columns WHERE table_schema = current_schema()`,
  );
  return new Map((rows as Column[]).map((column) => [column.place, column])); // as selected
}

/** What may refuse a row: constraints, unique indexes, triggers. */
async function rules({ query }: PgSession): Promise<readonly string[]> {
  const { rows } = await query(
    `SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) AS rule FROM pg_constraint
       WHERE connamespace = current_schema()::regnamespace
     UNION SELECT indrelid::regclass || ' ' || pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indrelid
       WHERE indisunique AND c.relnamespace = current_schema()::regnamespace
     UNION SELECT tgrelid::regclass || ' ' || tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
       WHERE NOT tgisinternal AND c.relnamespace = current_schema()::regnamespace`,
  );
  return (rows as { readonly rule: string }[]).map(({ rule }) => rule).sort(); // as selected
}

const tableOf = (place: string): string => place.split(/[ .]/, 1)[0] ?? "";

describeCounterpart("the schema of a fleet", POSTGRES, () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  }, 120_000);
  afterAll(() => postgres?.remove());

  it("only grows with a migration: what workers of the version before read and write stays possible", async () => {
    const session = await connectPg(await postgres.freshUrl());
    const { newest } = await migratePg(session, FIRST);
    for (let version = FIRST + 1; version <= newest; version += 1) {
      const [before, ruled] = [await columns(session), await rules(session)];
      const tables = new Set([...before.keys()].map(tableOf));
      await migratePg(session, version);
      const after = await columns(session);
      for (const [place, { isFilled: _isFilled, ...column }] of before)
        expect([version, after.get(place)]).toEqual([version, expect.objectContaining(column)]);
      const unfilled = [...after.values()].filter(
        ({ place, nullable, isFilled }) =>
          tables.has(tableOf(place)) && !before.has(place) && nullable === "NO" && !isFilled,
      );
      expect([version, unfilled]).toEqual([version, []]);
      const added = (await rules(session)).filter(
        (rule) => tables.has(tableOf(rule)) && !ruled.includes(rule),
      );
      expect([version, added]).toEqual([version, []]);
    }
    expect(await pgSchemaVersions(session)).toEqual({ found: newest, newest });
    session.end();
  });

  it("is what a store without a fleet becomes: ids of posted tasks are unique in a partition, not in all", async () => {
    const session = await connectPg(await postgres.freshUrl());
    await migratePg(session, 1);
    await session.script(`
      ALTER TABLE perigee_log_tasks DROP CONSTRAINT perigee_log_tasks_part_id_key;
      ALTER TABLE perigee_log_tasks ADD UNIQUE (id);
    `); // as it was made first
    await migratePg(session);
    const unique = (await rules(session)).filter((rule) => rule.startsWith("perigee_log_tasks CREATE"));
    expect(unique).toEqual([
      expect.stringMatching(/perigee_log_tasks_part_id_key .*\(part, id\)$/),
      expect.stringMatching(/perigee_log_tasks_pkey .*\(part, number\)$/),
    ]);
    session.end();
  });
});

describeCounterpart("what a fleet has learnt", POSTGRES, () => {
  it("is there for a worker on a new machine, of each entry what was put last, by the database's clock", async () => {
    const server = await PostgresServer.start();
    try {
      const session = await connectPg(await server.freshUrl());
      await migratePg(session);
      const opened = (clock: FakeClock) =>
        LearntStore.open({
          ...{ clock, disk: systemDisk, folder: undefined },
          learntRows: new PgLearnt(session.query, clock),
        });
      const clock = new FakeClock();
      const late = new FakeClock({ wallMs: clock.wallMs() - 600_000 }); // its clock is ten minutes slow
      const [one, two] = await Promise.all([opened(clock), opened(late)]);
      one.put("latencies", "openai small", { meanMs: 100 });
      one.put("limits", "openai", { requestsPerMinute: 300 });
      await one.close();
      two.put("latencies", "openai small", { meanMs: 200 });
      await two.close();
      const next = await opened(new FakeClock());
      expect(next.get("latencies", "openai small")).toEqual({ meanMs: 200 });
      expect(next.get("limits", "openai")).toEqual({ requestsPerMinute: 300 });
      expect(next.ageMs("limits", "openai")).toBeLessThan(60_000);
      session.end();
    } finally {
      await server.remove();
    }
  });
});
