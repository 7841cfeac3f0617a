/**
 * How many callers wait for an answer, and so how long the engine may keep the thread.
 *
 *   few wait    the engine's work goes at its own pace (`paced_calls.ts`)
 *   8 or more   turns of 32 calls: with 128 the slowest 1 % of posted items took 20 to 22 ms, so 15 to 18 (bench/service.ts)
 *
 * Smaller turns cost the engine throughput, a fifth of it at 512 in flight, which nobody should pay for who is alone: open
 * pages and downloads are a few answers that take long.
 */
import type { FastifyInstance } from "./fastify.ts";

const MANY = 8;
const CALLS_PER_TURN = 32;

export class WaitingCallers {
  #waiting = 0;

  /** Counts the callers of all routes that are registered from now on. */
  watch(app: FastifyInstance): void {
    app.addHook("onRequest", (_request, { raw }, done) => {
      this.#waiting += 1;
      raw.once("close", () => {
        this.#waiting -= 1;
      });
      done();
    });
  }

  /** What the engine may do in one turn; undefined: as much as it likes. */
  get callsPerTurn(): number | undefined {
    return this.#waiting < MANY ? undefined : CALLS_PER_TURN;
  }
}
