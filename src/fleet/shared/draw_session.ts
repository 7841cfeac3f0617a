/**
 * The session of the draws of a worker, one draw at a time. It is separate, so that no draw waits for the worker's other statements.
 *
 *   away -> connected    (with the next draw)
 *        <- lost         (the draw rejects, and its caller repeats it)
 */
import { KeyedMutex } from "../../keyed_mutex.ts";
import type { PgSession } from "../../store/postgres/pg_session.ts";

const TURN = "session";

export class DrawSession {
  readonly #open: () => Promise<PgSession>;
  readonly #turns = new KeyedMutex();
  #session: PgSession | undefined;
  #isClosed = false;

  /** Connects with the first draw. */
  constructor(open: () => Promise<PgSession>) {
    this.#open = open;
  }

  /** Runs a draw in its turn. Rejects as it does, and then ends the session; after `close` always. */
  draw<T>(work: (session: PgSession) => Promise<T>): Promise<T> {
    return this.#turns.take(TURN, async () => {
      try {
        this.#assertOpen();
        this.#session ??= await this.#open();
        this.#assertOpen();
        return await work(this.#session);
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

  #assertOpen(): void {
    if (this.#isClosed) throw new Error("the pool is closed");
  }
}
