/**
 * The log of holds: a line when a hold begins and a line when it ends, by reason, provider
 * and model. Checked every 5 seconds, so that single failures between answers make no line.
 *
 *   not held --held at a check--> held, logged --not held at a check--> not held, logged
 */
import type { Clock, Timer } from "../../clock.ts";
import type { Hold } from "../../engine/items/holds.ts";

const LOOK_MS = 5_000;

export interface HoldLogOptions {
  readonly clock: Clock;
  readonly holds: () => readonly Hold[];
  /** Called when a hold begins and when it ends; texts of providers are not for logs. */
  readonly tell: (event: "held" | "released", hold: Hold) => void;
}

/** One for a service; looks until it is closed. */
export class HoldLog {
  readonly #options: HoldLogOptions;
  #told = new Map<string, Hold>();
  #timer: Timer;

  constructor(options: HoldLogOptions) {
    this.#options = options;
    this.#timer = this.#later();
  }

  close(): void {
    this.#timer.cancel();
  }

  #later(): Timer {
    return this.#options.clock.timer(LOOK_MS, () => this.#look(), { keepsAlive: false });
  }

  #look(): void {
    const { holds, tell } = this.#options;
    const found = new Map(holds().map((hold) => [keyOf(hold), hold]));
    for (const [key, hold] of found) if (!this.#told.has(key)) tell("held", hold);
    for (const [key, hold] of this.#told) if (!found.has(key)) tell("released", hold);
    this.#told = found;
    this.#timer = this.#later();
  }
}

function keyOf({ reason, provider, model }: Hold): string {
  return JSON.stringify([reason, provider, model]);
}
