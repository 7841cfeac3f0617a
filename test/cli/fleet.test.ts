/** `perigee migrate` and `perigee workers` on a real PostgreSQL, with rows as workers write them. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { SharedWindow } from "../../src/limits/shared/shared_window.ts";
import { migratePg } from "../../src/store/postgres/pg_schema.ts";
import { connectPg, type PgSession } from "../../src/store/postgres/pg_session.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { type Desk, type Ended, openDesk } from "./command.ts";

describeCounterpart("commands on the database of a fleet", POSTGRES, () => {
  let postgres: PostgresServer;
  let store: string;
  let session: PgSession;
  let desk: Desk;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    desk = openDesk();
  }, 60_000);
  afterAll(async () => {
    desk?.remove();
    await postgres?.remove();
  });
  beforeEach(async () => {
    store = await postgres.freshUrl();
    session = await connectPg(store);
  });
  afterEach(() => session.end());

  const perigee = (...words: readonly string[]): Promise<Ended> => desk.perigee([...words, "--store", store]);
  const newest = async (): Promise<number> =>
    Number((JSON.parse((await perigee("migrate", "--json")).stdout) as { to: number }).to);

  it("say whether a migration is needed without making a table, and migrate once", async () => {
    const before = await perigee("migrate", "--check");
    expect([before.code, before.stdout]).toEqual([
      1,
      expect.stringMatching(/^the database has no tables yet: perigee migrate makes those of schema \d+\n$/),
    ]);
    expect((await session.query("SELECT to_regclass('perigee_schema') IS NULL AS none")).rows).toEqual([
      { none: true },
    ]);
    const all = await Promise.all([1, 2, 3].map(() => perigee("migrate")));
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(all.filter(({ stdout }) => stdout.startsWith("the database was empty")).length).toBe(1);
    expect(all.filter(({ stdout }) => stdout.includes("which is the newest")).length).toBe(2);
    expect((await perigee("migrate", "--check")).code).toBe(0);
  });

  it("migrate a database of an older version, and say from which schema to which", async () => {
    await migratePg(session, 1);
    const check = await perigee("migrate", "--check", "--json");
    expect([check.code, JSON.parse(check.stdout)]).toEqual([1, { from: 1, to: expect.any(Number) }]);
    expect((await perigee("workers")).stderr).toMatch(
      /usage: the database has schema 1, this version of perigee needs schema \d+: run perigee migrate --store first/,
    );
    const { code, stdout } = await perigee("migrate");
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^the database was migrated from schema 1 to \d+\n$/),
    ]);
    expect((await perigee("workers")).stdout).toBe("no workers\n");
  });

  it("refuse a database of a newer version, which they leave as it is", async () => {
    const known = await newest();
    await session.query("UPDATE perigee_schema SET version = $1", known + 1);
    for (const words of [["migrate"], ["migrate", "--check"], ["workers"]]) {
      const { code, stderr } = await perigee(...words);
      expect([code, stderr]).toEqual([
        74,
        expect.stringContaining(
          `data_dir_newer: the database has schema ${known + 1}, this version of perigee reads up to ${known}: use a newer one`,
        ),
      ]);
    }
  });

  it("name no password of an address that they refuse, or whose server does not answer", async () => {
    const wrong = await desk.perigee(["workers", "--store", "mysql://me:secret@host/db", "--json"]);
    expect([wrong.code, JSON.parse(wrong.stdout)]).toEqual([
      2,
      { status: "failed", error: { code: "usage", message: expect.stringContaining('got "mysql"') } },
    ]);
    const away = await desk.perigee(["migrate", "--store", "postgres://me:secret@127.0.0.1:1/db"]);
    expect(away.code).toBe(74);
    expect(`${wrong.stdout}${wrong.stderr}${away.stderr}`).not.toContain("secret");
  });

  it("show workers that live, leave or died within a minute, with their partitions and projects", async () => {
    await perigee("migrate");
    await session.script(`
      INSERT INTO perigee_workers (id, name, address, role, version, is_leaving, started, lease_until) VALUES
        ('one/1', 'one', 'http://10.0.0.1:8081', 'all', '0.1.0', false, '2026-01-02T03:04:05Z', clock_timestamp() + interval '5 s'),
        ('two/1', 'two', 'http://10.0.0.2:8081', 'worker', '0.1.0', true, '2026-01-02T03:04:06Z', clock_timestamp() + interval '5 s'),
        ('three/1', 'three', 'http://10.0.0.3:8081', 'api', '0.1.0', false, '2026-01-02T03:04:07Z', clock_timestamp() - interval '30 s'),
        ('four/1', 'four', 'http://10.0.0.4:8081', 'all', '0.1.0', false, '2026-01-02T03:04:08Z', clock_timestamp() - interval '61 s');
      INSERT INTO perigee_partitions (part, in_fleet, owner, lease_until) VALUES
        (1, true, 'one/1', clock_timestamp() + interval '4 s'), (2, true, 'one/1', clock_timestamp() + interval '4 s'),
        (3, true, 'four/1', clock_timestamp() - interval '61 s'), (4, false, 'a program', clock_timestamp() + interval '4 s');
      INSERT INTO perigee_projects VALUES ('a', 1), ('b', 1), ('c', 2), ('d', 3);
    `);
    const { code, stdout } = await perigee("workers");
    expect(code).toBe(0);
    const [head = "", ...lines] = stdout
      .replaceAll(/-?\d+\.\d s/g, (lease) => (lease.startsWith("-") ? "-N s" : "N s"))
      .split("\n");
    expect(head.split(/ {2,}/)).toEqual([
      "worker",
      "role",
      "state",
      "lease",
      "partitions",
      "projects",
      "version",
      "since",
      "address",
    ]);
    expect(lines.map((line) => line.split(/ {2,}/).join("|"))).toEqual([
      "one|all|working|N s|1,2|3|0.1.0|2026-01-02T03:04:05|http://10.0.0.1:8081",
      "two|worker|leaving|N s|-|0|0.1.0|2026-01-02T03:04:06|http://10.0.0.2:8081",
      "three|api|dead|-N s|-|0|0.1.0|2026-01-02T03:04:07|http://10.0.0.3:8081",
      "",
      "without a worker: partition 3",
      "",
    ]);
    const json = JSON.parse((await perigee("workers", "--json")).stdout) as {
      workers: { lease_ms: number }[];
    };
    expect(json).toMatchObject({
      workers: [
        {
          id: "one/1",
          state: "working",
          partitions: [
            { partition: 1, projects: 2 },
            { partition: 2, projects: 1 },
          ],
        },
        { id: "two/1", state: "leaving", partitions: [] },
        { id: "three/1", state: "dead", started_at: "2026-01-02T03:04:07.000Z" },
      ],
      free_partitions: [{ partition: 3, lease_ms: null, projects: 1 }],
      limits: [],
    });
    expect(json.workers.map(({ lease_ms: ms }) => Math.sign(ms))).toEqual([1, 1, -1]);
  });

  it("show what limits have charged in their window, blocks that are held included", async () => {
    await perigee("migrate");
    await session.script(
      "CREATE TABLE IF NOT EXISTS perigee_limits (quota text PRIMARY KEY, state text NOT NULL)",
    );
    const nowMs = Date.now();
    const window = new SharedWindow();
    const ask = { ...{ sequence: 1, spent: 0, unspent: 0, returned: [] }, least: 1, limit: 400 };
    window.draw(nowMs - 75_000, { ...ask, holder: "gone", spent: 1_000, wanted: 0 });
    window.draw(nowMs + 20_000, { ...ask, holder: "one", spent: 40, wanted: 0 });
    const { units } = window.draw(nowMs + 60_000, {
      ...ask,
      holder: "one",
      sequence: 2,
      spent: 2,
      wanted: 3,
    });
    expect(units).toBe(3);
    const state = JSON.stringify(window.toState());
    await session.query("INSERT INTO perigee_limits VALUES ('echo requests window', $1)", state);
    await session.query(
      "INSERT INTO perigee_limits VALUES ('echo requests', '{\"of\":\"an earlier version\"}')",
    );
    await session.query("INSERT INTO perigee_limits VALUES ('never drawn from', '')");
    const places = { newestMs: nowMs, holders: [["one", { units: 3, limit: 8, askedMs: nowMs + 60_000 }]] };
    await session.query("INSERT INTO perigee_limits VALUES ('echo places', $1)", JSON.stringify(places));
    await session.query("INSERT INTO perigee_limits VALUES ('echo facts', '{}')");
    const { stdout } = await perigee("workers");
    expect(stdout).toMatch(/^echo requests {2}45 {7}400 {2}11 %$/m);
    expect(JSON.parse((await perigee("workers", "--json")).stdout)).toMatchObject({
      limits: [
        { quota: "echo places", charged: 3, limit: 8 },
        { quota: "echo requests", charged: 45, limit: 400 },
      ],
    });
  });

  it("refuse an option that only a run on this machine takes, and accept those that turn off what a fleet does not do", async () => {
    desk.write("in.jsonl", []);
    const run = (...words: readonly string[]): Promise<Ended> =>
      perigee("run", "in.jsonl", "--out", "out.jsonl", ...words);
    for (const flag of ["--config", "--prices", "--state", "--delimiter"])
      expect(await run(flag, "x")).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`${flag} does not work with --store`),
      });
    expect(await run("--no-config", "--no-learn")).toMatchObject({ code: 0 });
  });
});
