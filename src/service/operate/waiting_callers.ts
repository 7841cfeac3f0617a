/**
 * How many callers wait for an answer, and so how long the engine may keep the thread.
 *
 *   few wait    the engine's work runs at its own pace (`paced_calls.ts`)
 *   8 or more   turns of 32 calls: with 128 the slowest 1 % of posted items took 20 to 22 ms, so 15 to 18 (bench/jobs/service.ts)
 *   a lull      still 32 for 100 ms after a request that made them 8: callers who are answered together ask again together
 *
 * Smaller turns cost the engine throughput, a fifth of it at 512 in flight, which a service without many callers should not pay: open
 * pages and downloads are answers that take long, and nobody asks meanwhile.
 */
import type { Clock } from "../../clock.ts";
import type { FastifyInstance } from "../http/fastify.ts";

const MANY = 8;
const CALLS_PER_TURN = 32;
const LULL_MS = 100;

/** One for a service. */
export class WaitingCallers {
  readonly #clock: Pick<Clock, "nowMs">;
  #waiting = 0;
  /** When a request last arrived while many others waited. */
  #manyMs: number = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "nowMs">) {
    this.#clock = clock;
  }

  /** Counts the callers of all routes that are registered from now on. */
  watch(app: FastifyInstance): void {
    app.addHook("onRequest", (_request, { raw }, done) => {
      this.#waiting += 1;
      if (this.#waiting >= MANY) this.#manyMs = this.#clock.nowMs();
      raw.once("close", () => {
        this.#waiting -= 1;
      });
      done();
    });
  }

  /** What the engine may do in one turn; undefined: as much as it likes. */
  get callsPerTurn(): number | undefined {
    return this.#clock.nowMs() - this.#manyMs < LULL_MS ? CALLS_PER_TURN : undefined;
  }
}
