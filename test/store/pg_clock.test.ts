/** The database's clock on a machine whose own is wrong. */
import { beforeEach, expect, it } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { PgClock } from "../../src/store/postgres/pg_clock.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const DATABASE_MS = 1_700_000_000_000;

let own: FakeClock;
let pg: PgClock;
let clock: Clock;

beforeEach(() => {
  own = new FakeClock();
  pg = new PgClock(own);
  ({ clock } = pg);
});

it("is the machine's until the database was read", () => {
  expect([clock.wallMs(), clock.moment()]).toEqual([own.wallMs(), own.moment()]);
});

it("is the database's from the first reading on, whatever the machine's is and however it jumps", async () => {
  const nowMs = own.nowMs();
  pg.note(DATABASE_MS, nowMs, nowMs + 20);
  expect(clock.wallMs()).toBe(DATABASE_MS - 10);
  await own.advance(5_000);
  own.jumpWall(600_000);
  expect(clock.wallMs()).toBe(DATABASE_MS + 4_990);
  expect(clock.moment()).toEqual({ ...own.moment(), wallMs: DATABASE_MS + 4_990 });
});

it("moves only when a reading shows that it is wrong", async () => {
  const nowMs = own.nowMs();
  pg.note(DATABASE_MS, nowMs, nowMs + 2_000); // the database answered late
  expect(clock.wallMs()).toBe(DATABASE_MS - 1_000);
  pg.note(DATABASE_MS, nowMs - 3_000, nowMs + 3_000);
  expect(clock.wallMs()).toBe(DATABASE_MS - 1_000);
  pg.note(DATABASE_MS, nowMs - 2, nowMs);
  expect(clock.wallMs()).toBe(DATABASE_MS + 1);
});
