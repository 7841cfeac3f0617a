/** What engines on one clock share, in memory: the laws of src/limits/shared without a database. */
import {
  type LimitPool,
  type PoolAnswers,
  type PoolDraw,
  precedenceIn,
} from "../../src/limits/shared/limit_pool.ts";
import { exchangeFacts, type SharedFactsState } from "../../src/limits/shared/shared_facts.ts";
import { SharedPlaces } from "../../src/limits/shared/shared_places.ts";
import { SharedWindow } from "../../src/limits/shared/shared_window.ts";
import { SharedWork } from "../../src/limits/shared/shared_work.ts";
import type { FakeClock } from "../../src/testing/index.ts";

/** Answers after 5 ms; while `isAway`, not at all. */
export class MemoryPool implements LimitPool {
  isAway = false;
  readonly quotas = new Set<string>();
  readonly #clock: FakeClock;
  readonly facts = new Map<string, SharedFactsState>();
  draws = 0;
  readonly #windows = new Map<string, SharedWindow>();
  readonly #places = new Map<string, SharedPlaces>();
  readonly #works = new Map<string, SharedWork>();

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  async draw({ blocks, places, works, facts }: PoolDraw): Promise<PoolAnswers> {
    await this.#clock.sleep(5);
    if (this.isAway) throw new Error("away");
    const nowMs = this.#clock.nowMs();
    this.draws += 1;
    const others = works.map(({ name, ask }) => {
      const work = this.#works.get(name) ?? new SharedWork();
      this.#works.set(name, work);
      work.report(nowMs, ask);
      return work.others(nowMs, ask.holder);
    });
    return {
      works: others,
      blocks: blocks.map(({ quota, ask, work }) => {
        const window = this.#windows.get(quota) ?? new SharedWindow();
        this.#windows.set(quota, window);
        this.quotas.add(quota);
        return window.draw(nowMs, ask, precedenceIn(this.#works, work));
      }),
      places: places.map(({ name, ask, work }) => {
        const shared = this.#places.get(name) ?? new SharedPlaces();
        this.#places.set(name, shared);
        return shared.draw(nowMs, ask, undefined, precedenceIn(this.#works, work));
      }),
      facts: facts.map(({ name, ask }) => {
        const { known, state } = exchangeFacts(nowMs, ask, this.facts.get(name));
        this.facts.set(name, state);
        return known;
      }),
    };
  }
}
