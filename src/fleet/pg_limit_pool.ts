/**
 * Quotas that the workers of a fleet draw from: a row each in the database, with the state of `limits/shared/shared_window.ts` as JSON.
 *
 *   away -> connected    (with the next draw)
 *        <- lost         (the draw rejects, and its caller repeats it)
 *
 * A draw is one transaction that locks its rows in the order of their names. It has a separate session, so that no draw waits for the worker's
 * other statements. Its clock is the database's, read before the rows are locked: the spending that an ask reports was before that.
 */
import { KeyedMutex } from "../keyed_mutex.ts";
import type { LimitPool, PoolAsk } from "../limits/shared/limit_pool.ts";
import { type BlockGrant, SharedWindow, type SharedWindowState } from "../limits/shared/shared_window.ts";
import { openDurableSession } from "../store/postgres/pg_connection.ts";
import type { PgQuery, PgSession } from "../store/postgres/pg_session.ts";

const TURN = "session";

interface LimitRow {
  readonly quota: string;
  readonly state: string;
  readonly now_ms: number;
}

export class PgLimitPool implements LimitPool {
  readonly #open: () => Promise<PgSession>;
  readonly #turns = new KeyedMutex();
  /** Quotas that have a row. */
  readonly #known = new Set<string>();
  #session: PgSession | undefined;
  #isClosed = false;

  /** Connects with the first draw. `open` is for simulations. */
  constructor(url: string, open: () => Promise<PgSession> = () => openDurableSession(url)) {
    this.#open = open;
  }

  draw(asks: readonly PoolAsk[]): Promise<readonly BlockGrant[]> {
    return this.#turns.take(TURN, async () => {
      try {
        this.#session ??= await this.#open();
        if (this.#isClosed) throw new Error("the pool is closed");
        return await this.#drawn(this.#session.query, asks);
      } catch (error) {
        this.#session?.end();
        this.#session = undefined;
        throw error;
      }
    });
  }

  /** Draws under way reject. */
  close(): void {
    this.#isClosed = true;
    this.#session?.end();
  }

  async #drawn(query: PgQuery, asks: readonly PoolAsk[]): Promise<readonly BlockGrant[]> {
    const quotas = asks.map(({ quota }) => quota);
    await query("BEGIN");
    const added = quotas.filter((quota) => !this.#known.has(quota)).sort();
    if (added.length > 0)
      await query(
        "INSERT INTO perigee_limits (quota) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING",
        added,
      );
    const { rows } = await query(
      `SELECT quota, state, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
       FROM perigee_limits WHERE quota = ANY($1::text[]) ORDER BY quota FOR UPDATE`,
      quotas,
    );
    const windows = new Map(
      (rows as readonly LimitRow[]).map((row) => [row.quota, { window: windowOf(row), nowMs: row.now_ms }]), // as selected
    );
    const grants = asks.map(({ quota, ask }) => {
      const found = windows.get(quota);
      if (found === undefined) throw new Error(`no row of the quota ${quota}`);
      return found.window.draw(found.nowMs, ask);
    });
    await query(
      `UPDATE perigee_limits AS old SET state = new.state
       FROM unnest($1::text[], $2::text[]) AS new (quota, state) WHERE old.quota = new.quota`,
      [...windows.keys()],
      [...windows.values()].map(({ window }) => JSON.stringify(window.toState())),
    );
    await query("COMMIT");
    for (const quota of added) this.#known.add(quota);
    return grants;
  }
}

function windowOf({ state }: LimitRow): SharedWindow {
  return state === "" ? new SharedWindow() : new SharedWindow(JSON.parse(state) as SharedWindowState); // as written here
}
