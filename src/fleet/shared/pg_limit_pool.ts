/**
 * Limits that the workers of a fleet share: a row each in the database, with the state of one of the laws in `limits/shared` as JSON.
 *
 * A draw is one transaction that locks its rows in the order of their names. Its clock is the database's, read before the rows are locked: the spending
 * that an ask reports was before that. An ask for the facts of lanes only reads them, without a lock. The name of the
 * session is kept with the places that were granted through it (shared_places.ts).
 */
import {
  type FactsPoolAsk,
  type LimitPool,
  type PlacesPoolAsk,
  type PoolAnswers,
  type PoolDraw,
  precedenceIn,
  type WorkPoolAsk,
} from "../../limits/shared/limit_pool.ts";
import {
  exchangeFacts,
  isSilent,
  type KnownFacts,
  type SharedFactsState,
} from "../../limits/shared/shared_facts.ts";
import { type PlacesGrant, SharedPlaces, type SharedPlacesState } from "../../limits/shared/shared_places.ts";
import { SharedWindow, type SharedWindowState } from "../../limits/shared/shared_window.ts";
import { SharedWork, type SharedWorkState } from "../../limits/shared/shared_work.ts";
import { openDurableSession } from "../../store/postgres/pg_connection.ts";
import { endedSessions, sessionName } from "../../store/postgres/pg_ended_sessions.ts";
import type { PgQuery, PgSession } from "../../store/postgres/pg_session.ts";
import { DrawSession } from "./draw_session.ts";

const COLUMNS = "quota, state, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms";

interface LimitRow {
  readonly quota: string;
  readonly state: string;
  readonly now_ms: number;
}

/** The rows of a draw. */
class DrawnRows {
  readonly #rows: ReadonlyMap<string, LimitRow>;
  /** New states, by name. */
  readonly changed = new Map<string, string>();

  constructor(rows: readonly unknown[]) {
    this.#rows = new Map((rows as readonly LimitRow[]).map((row) => [row.quota, row])); // as selected
  }

  nowMs(name: string): number {
    return this.#row(name).now_ms;
  }

  /** As it is now; undefined for a new row. */
  state(name: string): unknown {
    const text = this.changed.get(name) ?? this.#row(name).state;
    return text === "" ? undefined : JSON.parse(text);
  }

  change(name: string, state: object): void {
    this.changed.set(name, JSON.stringify(state));
  }

  #row(name: string): LimitRow {
    const row = this.#rows.get(name);
    if (row === undefined) throw new Error(`no row of the limit ${name}`);
    return row;
  }
}

/** What the pool knows of a session. */
interface SessionFacts {
  /** As it is kept with the places that it was granted. */
  readonly name: string;
  /** Limits that have a row. Each session looks again: after a failover to a standby that lagged, rows may be missing. */
  readonly known: Set<string>;
}

export class PgLimitPool implements LimitPool {
  readonly #session: DrawSession;
  readonly #facts = new WeakMap<PgSession, SessionFacts>();

  /** Connects with the first draw. `open` is for simulations. */
  constructor(url: string, open: () => Promise<PgSession> = () => openDurableSession(url)) {
    this.#session = new DrawSession(open);
  }

  draw(draw: PoolDraw): Promise<PoolAnswers> {
    return this.#session.draw(async (session) => {
      const facts = this.#facts.get(session) ?? {
        name: await sessionName(session.query),
        known: new Set<string>(),
      };
      this.#facts.set(session, facts);
      return drawn(session.query, facts, draw);
    });
  }

  /** Draws under way reject. */
  close(): void {
    this.#session.close();
  }
}

async function drawn(
  query: PgQuery,
  { name: session, known }: SessionFacts,
  draw: PoolDraw,
): Promise<PoolAnswers> {
  const silent = draw.facts.filter(({ ask }) => isSilent(ask));
  const asked = draw.blocks.length + draw.places.length + draw.works.length;
  const isSilentOnly = silent.length === draw.facts.length && asked === 0;
  const heard = await readFacts(query, silent);
  if (isSilentOnly)
    return { blocks: [], places: [], works: [], facts: draw.facts.map(({ name }) => heard(name)) };
  const said = draw.facts.filter(({ ask }) => !isSilent(ask));
  await query("BEGIN");
  const names = [
    ...draw.blocks.map(({ quota }) => windowName(quota)),
    ...[...draw.places, ...draw.works, ...said].map(({ name }) => name),
  ];
  const rows = await lock(query, names, known);
  const works = bookWork(rows, draw.works);
  const blocks = draw.blocks.map(({ quota, ask, work }) => {
    const name = windowName(quota);
    const window = new SharedWindow(rows.state(name) as SharedWindowState | undefined); // as written here
    const grant = window.draw(rows.nowMs(name), ask, precedenceIn(works, work));
    rows.change(name, window.toState());
    return grant;
  });
  const places = await drawPlaces(query, rows, draw.places, { session, works });
  const merged = new Map(said.map((one) => [one, mergeFacts(rows, one)]));
  await query(
    `UPDATE perigee_limits AS old SET state = new.state
       FROM unnest($1::text[], $2::text[]) AS new (quota, state) WHERE old.quota = new.quota`,
    [...rows.changed.keys()],
    [...rows.changed.values()],
  );
  await query("COMMIT");
  for (const name of names) known.add(name);
  return {
    ...{ blocks, places },
    works: draw.works.map(({ name, ask }) => works.get(name)?.others(rows.nowMs(name), ask.holder) ?? []),
    facts: draw.facts.map((one) => merged.get(one) ?? heard(one.name)),
  };
}

async function lock(
  query: PgQuery,
  names: readonly string[],
  known: ReadonlySet<string>,
): Promise<DrawnRows> {
  const added = names.filter((name) => !known.has(name)).sort();
  if (added.length > 0)
    await query("INSERT INTO perigee_limits (quota) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", added);
  const { rows } = await query(
    `SELECT ${COLUMNS} FROM perigee_limits WHERE quota = ANY($1::text[]) ORDER BY quota FOR UPDATE`,
    names,
  );
  return new DrawnRows(rows);
}

/** The ending of the rows of quotas. Those without it have the state of an earlier version, whose workers may be at work beside these. */
export const WINDOW_ENDING = " window";

function windowName(quota: string): string {
  return `${quota}${WINDOW_ENDING}`;
}

/** Reads what is known of lanes by processes that have nothing to say. */
async function readFacts(
  query: PgQuery,
  asks: readonly FactsPoolAsk[],
): Promise<(name: string) => KnownFacts> {
  const known = new Map<string, KnownFacts>();
  const names = asks.map(({ name }) => name);
  const { rows } =
    names.length === 0
      ? { rows: [] }
      : await query(
          `SELECT name AS quota, coalesce(state, '') AS state,
             (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
           FROM unnest($1::text[]) AS name LEFT JOIN perigee_limits ON quota = name`,
          names,
        );
  const read = new DrawnRows(rows);
  for (const { name, ask } of asks)
    known.set(
      name,
      exchangeFacts(read.nowMs(name), ask, read.state(name) as SharedFactsState | undefined).known,
    ); // as written here
  return (name) => known.get(name) as KnownFacts; // asked for here
}

/** Takes the reports of what waits, by their names. */
function bookWork(rows: DrawnRows, asks: readonly WorkPoolAsk[]): ReadonlyMap<string, SharedWork> {
  const works = new Map<string, SharedWork>();
  for (const { name, ask } of asks) {
    const work = new SharedWork(rows.state(name) as SharedWorkState | undefined); // as written here
    if (work.report(rows.nowMs(name), ask)) rows.change(name, work.toState());
    works.set(name, work);
  }
  return works;
}

function mergeFacts(rows: DrawnRows, { name, ask }: FactsPoolAsk): KnownFacts {
  const before = rows.state(name) as SharedFactsState | undefined; // as written here
  const { known, state } = exchangeFacts(rows.nowMs(name), ask, before);
  if (state !== before) rows.change(name, state);
  return known;
}

async function drawPlaces(
  query: PgQuery,
  rows: DrawnRows,
  asks: readonly PlacesPoolAsk[],
  { session, works }: { readonly session: string; readonly works: ReadonlyMap<string, SharedWork> },
): Promise<PlacesGrant[]> {
  const all = asks.map(({ name, ask, work }) => {
    const places = new SharedPlaces(rows.state(name) as SharedPlacesState | undefined); // as written here
    return { name, ask, places, nowMs: rows.nowMs(name), precedenceOf: precedenceIn(works, work) };
  });
  const silent = all.flatMap(({ places, nowMs }) => places.silent(nowMs));
  const ended = await endedSessions(query, [...new Set(silent)]);
  return all.map(({ name, ask, places, nowMs, precedenceOf }) => {
    const grant = places.draw(nowMs, ask, { session, ended }, precedenceOf);
    rows.change(name, places.toState());
    return grant;
  });
}
