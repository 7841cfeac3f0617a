/**
 * A session that does not pass a proxy: for what tests read and change. When it is lost, calls wait until the server is back.
 */
import {
  connectPg,
  type PgQuery,
  type PgSession,
  type PgValue,
} from "../../../src/store/postgres/pg_session.ts";

const RETRY_MS = 200;

export class DirectSession {
  readonly url: string;
  #session: PgSession | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #isEnded = false;

  constructor(url: string) {
    this.url = url;
  }

  /** One statement after another. */
  readonly query: PgQuery = (sql, ...values) => {
    const done = this.#turn.then(() => this.#done(sql, values));
    this.#turn = done.catch(() => undefined);
    return done;
  };

  async rows<T>(sql: string): Promise<readonly T[]> {
    return (await this.query(sql)).rows as readonly T[]; // as selected
  }

  end(): void {
    this.#isEnded = true;
    this.#session?.end();
  }

  async #done(sql: string, values: readonly PgValue[]): ReturnType<PgQuery> {
    for (;;) {
      try {
        this.#session ??= await connectPg(this.url);
        return await this.#session.query(sql, ...values);
      } catch (error) {
        const code = (error as { readonly code?: unknown }).code; // errors of pg have one
        const isAway = typeof code !== "string" || /^(57|53|08|40|E)/.test(code);
        if (this.#isEnded || !isAway) throw error;
        this.#session?.end();
        this.#session = undefined;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }
}
