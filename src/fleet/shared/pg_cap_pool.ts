/**
 * Caps that the partitions of a fleet draw from: a row each in the database, with the state of `price/shared/shared_money.ts` as JSON.
 *
 * A draw is one transaction that locks the row of its cap. The epoch of a partition's owner is in the state: once its next owner has drawn, an
 * earlier one is refused. What that one returned before is in its log as unused, so the next owner does not spend it.
 */
import type { CapPool } from "../../price/shared/cap_pool.ts";
import {
  type MoneyAsk,
  type MoneyGrant,
  SharedMoney,
  type SharedMoneyState,
} from "../../price/shared/shared_money.ts";
import { openDurableSession } from "../../store/postgres/pg_connection.ts";
import type { PgQuery } from "../../store/postgres/pg_session.ts";
import { DrawSession } from "./draw_session.ts";

interface CapRow {
  readonly state: string;
  readonly now_ms: number;
}

/** One for a worker. */
export class PgCapPool {
  readonly #session: DrawSession;

  /** Connects with the first draw. */
  constructor(url: string) {
    this.#session = new DrawSession(() => openDurableSession(url));
  }

  /** For the engine of a partition; `epoch`: that of its owner. */
  of(part: number, epoch: number): CapPool {
    const draw = (cap: string, ask: MoneyAsk): Promise<MoneyGrant> =>
      this.#session.draw(({ query }) => drawn(query, cap, ask));
    return { holder: String(part), epoch, draw };
  }

  /** Draws under way reject. */
  close(): void {
    this.#session.close();
  }
}

async function drawn(query: PgQuery, cap: string, ask: MoneyAsk): Promise<MoneyGrant> {
  await query("BEGIN");
  await query("INSERT INTO perigee_caps (cap) VALUES ($1) ON CONFLICT DO NOTHING", cap);
  const { rows } = await query(
    `SELECT state, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
     FROM perigee_caps WHERE cap = $1 FOR UPDATE`,
    cap,
  );
  const [row] = rows as readonly CapRow[]; // as selected
  if (row === undefined) throw new Error(`no row of the cap ${cap}`);
  const money = new SharedMoney(row.state === "" ? undefined : (JSON.parse(row.state) as SharedMoneyState)); // as written here
  const grant = money.draw(row.now_ms, ask);
  if (grant === undefined) throw new Error(`partition ${ask.holder} has another owner`);
  await query("UPDATE perigee_caps SET state = $2 WHERE cap = $1", cap, JSON.stringify(money.toState()));
  await query("COMMIT");
  return grant;
}
