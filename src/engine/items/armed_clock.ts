/**
 * A clock that knows whether something waits on it: an armed timer, or a sleep. For callers that ask what will continue by
 * itself (liveness.ts).
 */
import { type Clock, type Moment, sleepOn, type Timer } from "../../clock.ts";

export class ArmedClock implements Clock {
  readonly #clock: Clock;
  #armed = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a timer is armed that has neither fired nor been cancelled. */
  get isArmed(): boolean {
    return this.#armed > 0;
  }

  nowMs(): number {
    return this.#clock.nowMs();
  }

  wallMs(): number {
    return this.#clock.wallMs();
  }

  moment(): Moment {
    return this.#clock.moment();
  }

  timer(delayMs: number, callback: () => void, options?: Parameters<Clock["timer"]>[2]): Timer {
    let isArmed = true;
    const disarm = (): void => {
      if (isArmed) this.#armed -= 1;
      isArmed = false;
    };
    this.#armed += 1;
    const fire = (): void => {
      disarm();
      callback();
    };
    const timer = this.#clock.timer(delayMs, fire, options);
    return {
      cancel: () => {
        disarm();
        timer.cancel();
      },
    };
  }

  soon(callback: () => void): void {
    this.#clock.soon(callback);
  }

  sleep(delayMs: number, options?: { readonly signal?: AbortSignal | undefined }): Promise<void> {
    return sleepOn(this, delayMs, options?.signal);
  }

  random(): number {
    return this.#clock.random();
  }
}
