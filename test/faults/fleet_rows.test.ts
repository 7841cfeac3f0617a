/**
 * The rows of a fleet on a real PostgreSQL: keys, the audit log, homes of projects, partitions, and the session that waits for the server.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { FleetDatabase } from "../../src/fleet/fleet_database.ts";
import { ProjectHomes } from "../../src/fleet/project_homes.ts";
import { claimSecretsKey } from "../../src/fleet/secrets_claim.ts";
import { WorkerRows } from "../../src/fleet/worker_rows.ts";
import { makeSecretKey } from "../../src/satellites/secrets/secret_key.ts";
import { CHAIN_START, readAuditLine } from "../../src/store/audit/audit_line.ts";
import { PgAudit } from "../../src/store/audit/pg_audit.ts";
import { PgKeyStore } from "../../src/store/keys/pg_key_store.ts";
import { PgClock } from "../../src/store/postgres/pg_clock.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";

const wanted = { project: "acme", name: "ci", scopes: ["infer:read"], isBeta: false };

describeCounterpart("the rows of a fleet", POSTGRES, () => {
  let postgres: PostgresServer;
  let database: FleetDatabase;
  let url: string;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres?.remove());
  beforeEach(async () => {
    url = await postgres.freshUrl();
    database = await FleetDatabase.open(url, systemClock);
  });
  afterEach(() => database.close());

  const worker = (id: string): WorkerRows =>
    new WorkerRows(
      database.query,
      { id, name: id, address: "http://127.0.0.1:1", role: "all", version: "1" },
      new PgClock(systemClock),
    );

  it("have at most two active keys of a project and name, and find a key by its text while it is active", async () => {
    const clock = new FakeClock();
    const keys = new PgKeyStore(database.query, clock);
    const first = await keys.create({ ...wanted, expiresWallMs: clock.wallMs() + 1_000 });
    const second = await keys.create(wanted);
    await expect(keys.create(wanted)).rejects.toMatchObject({ code: "conflict" });
    await expect(keys.create({ ...wanted, project: "Perigee" })).rejects.toMatchObject({ code: "usage" });
    await keys.look();
    expect([first, second].map(({ key }) => keys.accept(key))).toEqual([first.stored, second.stored]);
    await clock.advance(1_000);
    expect(keys.accept(first.key)).toBeUndefined();
    expect((await keys.create(wanted)).stored.project).toBe("acme"); // the first one has expired
    const revoked = await keys.revoke(second.stored.id);
    expect(await keys.revoke(second.stored.id)).toEqual(revoked);
    await keys.look();
    expect([keys.accept(second.key), keys.active(second.stored.id)]).toEqual([undefined, undefined]);
    await expect(keys.revoke("key_none")).rejects.toMatchObject({ code: "not_found" });
    expect((await keys.list("acme")).map(({ id }) => id)).toHaveLength(3);
    expect(await keys.list("other")).toEqual([]);
  });

  it("show every key that was made before a look began, however many looks run at once", async () => {
    const [here, there] = [
      new PgKeyStore(database.query, systemClock),
      new PgKeyStore(database.query, systemClock),
    ];
    const early = here.look();
    const { key } = await there.create(wanted);
    await Promise.all([early, here.look(), here.look()]);
    expect(here.accept(key)).toBeDefined();
  });

  it("have the day of a key's last use, which is written when the store closes", async () => {
    const keys = new PgKeyStore(database.query, systemClock);
    const { key } = await keys.create(wanted);
    await keys.look();
    keys.accept(key);
    await keys.close();
    expect((await keys.list())[0]?.lastUsedDay).toBe(Math.floor(systemClock.wallMs() / 86_400_000));
  });

  it("have one chain of audit lines for each writer, in which every line follows from the one before", async () => {
    const logs = ["one", "two"].map((name) => new PgAudit(database.query, systemClock, name));
    for (const log of logs) {
      log.note({ kind: "task.created", project: "acme", taskId: "t" });
      await log.flush();
      log.note({ kind: "login.failed" });
      log.note({ kind: "task.deleted", project: "acme", taskId: "t" });
      await log.close();
    }
    for (const writer of ["one", "two"]) {
      const { rows } = await database.query(
        "SELECT line FROM perigee_audit WHERE writer = $1 ORDER BY n",
        writer,
      );
      let end = CHAIN_START;
      for (const { line } of rows as { line: string }[]) {
        const read = readAuditLine(line);
        expect([read?.prev, read?.end.n]).toEqual([end.hash, end.n + 1]);
        end = read?.end ?? end;
      }
      expect(end.n).toBe(3);
    }
  });

  it("have the id of the first worker's key for secrets, and refuse workers with another one until it is removed", async () => {
    const [first, other] = [7, 8].map((byte) => makeSecretKey(Buffer.alloc(32, byte)).id) as [string, string];
    await Promise.all([claimSecretsKey(first, database), claimSecretsKey(first, database)]);
    await expect(claimSecretsKey(other, database)).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringContaining(`is key ${other}, but the workers of this fleet have key ${first}`),
    });
    await database.query("UPDATE perigee_fleet SET secrets_key = ''");
    await claimSecretsKey(other, database);
    await expect(claimSecretsKey(first, database)).rejects.toMatchObject({ code: "invalid_config" });
  });

  it("give a project a home once, in the partition with the fewest, and only in one that a living worker has", async () => {
    const [homes, others] = [new ProjectHomes(database.query), new ProjectHomes(database.query)];
    expect(await homes.assigned("a")).toBeUndefined();
    const rows = worker("w");
    await rows.beat(false);
    for (const _ of [1, 2, 3]) await rows.makePartition();
    await database.query(
      "UPDATE perigee_partitions SET owner = 'w', lease_until = clock_timestamp() + interval '1 min' WHERE part < 3",
    );
    const found = await Promise.all(["a", "b", "a", "c", "d"].map((project) => homes.assigned(project)));
    expect(found).toEqual([1, 2, 1, 1, 2]);
    expect(await others.assigned("d")).toBe(2);
    expect([await others.claimed("never-seen"), others.known("d")]).toEqual([undefined, 2]);
  });

  it("give two workers that make partitions at once different ones, and no worker those of other programs", async () => {
    await database.query("INSERT INTO perigee_partitions (part) VALUES (1)");
    const made = await Promise.all([worker("a").makePartition(), worker("b").makePartition()]);
    expect(made.toSorted()).toEqual([2, 3]);
    const { partitions, workers } = await worker("a").beat(true);
    expect(partitions).toEqual([2, 3].map((part) => ({ part, owner: undefined })));
    expect(workers).toEqual([expect.objectContaining({ id: "a", isLeaving: true })]);
  });

  it("set the clock of a worker to the database's with each heartbeat, whatever the clock of its machine is", async () => {
    const ahead = { ...systemClock, wallMs: () => systemClock.wallMs() + 600_000 };
    const time = new PgClock(ahead);
    const entry = { id: "a", name: "a", address: "http://127.0.0.1:1", role: "all", version: "1" } as const;
    await new WorkerRows(database.query, entry, time).beat(false);
    const { rows } = await database.query(
      "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms",
    );
    const [{ ms }] = rows as [{ readonly ms: number }]; // as selected
    expect(Math.abs(time.clock.wallMs() - ms)).toBeLessThan(60_000); // on a busy machine
  });

  it("are read on after a restart of the server, and calls that wait end when the worker leaves", async () => {
    await postgres.down("SIGINT");
    const waiting = worker("a").beat(false);
    await postgres.up();
    expect((await waiting).workers).toHaveLength(1);
    const left = await FleetDatabase.open(url, systemClock);
    await postgres.down("SIGINT");
    const never = left.query("SELECT 1");
    left.close();
    await expect(never).rejects.toMatchObject({ code: "closed" });
    await postgres.up();
  });
});
