/** One engine's draws for a cap that others share, beside runs that come and go, with asks and answers that are lost. */
import { describe, expect, it } from "vitest";
import { SharedCaps } from "../../src/engine/files/shared_caps.ts";
import { Budget } from "../../src/price/budget.ts";
import { type MoneyAsk, type MoneyGrant, SharedMoney } from "../../src/price/shared/shared_money.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { FakeClock } from "../../src/testing/index.ts";

const CAP = "all";
const CAP_NANO = 100;
const usd = (nano: number): number => nano / 1e9;

/** An engine, and another process, `other`, that asks by itself. */
class Shared {
  readonly clock = new FakeClock();
  readonly caps: SharedCaps;
  draws = 0;
  raised = 0;
  /** Whether the next ask does not arrive. */
  loses: (ask: MoneyAsk) => boolean = () => false;
  readonly #money = new SharedMoney();
  #sequence = 0;

  constructor() {
    const pool = { holder: "own", epoch: 1, draw: (_cap: string, ask: MoneyAsk) => this.#draw(ask) };
    this.caps = new SharedCaps({
      ...{ store: createMemoryStore(), clock: this.clock, ofEngine: undefined, pool },
      onRaised: () => {
        this.raised += 1;
      },
      onMoney: () => undefined,
    });
  }

  async #draw(ask: MoneyAsk): Promise<MoneyGrant> {
    this.draws += 1;
    await this.clock.sleep(20);
    if (this.loses(ask)) throw new Error("lost");
    const grant = this.#money.draw(this.clock.nowMs(), ask)!;
    await this.clock.sleep(5);
    return grant;
  }

  other(more: Partial<MoneyAsk>): MoneyGrant {
    this.#sequence += 1;
    const nothing = { spentNano: 0, heldNano: 0, returnedNano: 0, wantedNano: 0, leastNano: 0 };
    const who = { holder: "other", epoch: 1, sequence: this.#sequence, capNano: CAP_NANO };
    return this.#money.draw(this.clock.nowMs(), { ...who, ...nothing, ...more })!;
  }

  /** `stepMs`: between the two steps of joining. */
  async join(id: string, stepMs = 1): Promise<Budget> {
    const joined = this.caps.join({ name: CAP, usd: usd(CAP_NANO) }, id);
    await this.clock.advance(stepMs);
    return new Budget([(await joined)()]);
  }

  async leave(id: string, budget: Budget): Promise<void> {
    budget.close();
    await this.caps.leave(CAP, id, budget);
  }

  /** Reserves, trying again for `seconds`. */
  async reserved(budget: Budget, nano: number, seconds: number): Promise<ReturnType<Budget["reserve"]>> {
    for (let tries = 0; ; tries += 1) {
      const answer = budget.reserve(usd(nano));
      if (answer.ok || answer.reason === "exhausted" || tries === seconds * 10) return answer;
      await this.clock.advance(100);
    }
  }

  async untilNextDraw(): Promise<void> {
    const { draws } = this;
    while (this.draws === draws) await this.clock.advance(5);
  }
}

const reservation = (answer: ReturnType<Budget["reserve"]>) => {
  if (!answer.ok) throw new Error(answer.reason);
  return answer.reservation;
};

describe("the draws for a shared cap", () => {
  it("ask again for a new run, after a run left that was refused", async () => {
    const shared = new Shared();
    shared.other({ wantedNano: 95, leastNano: 95 });
    const refused = await shared.join("t1");
    await shared.clock.advance(600);
    expect(refused.reserve(usd(10))).toMatchObject({ reason: "wait" });
    await shared.untilNextDraw();
    await shared.leave("t1", refused);
    await shared.clock.advance(3_000);
    shared.other({ returnedNano: 95 });
    expect(await shared.reserved(await shared.join("t2"), 10, 20)).toMatchObject({ ok: true });
  });

  it("return what the last run leaves, also where an ask is lost", async () => {
    const shared = new Shared();
    const budget = await shared.join("t1");
    const held = reservation(await shared.reserved(budget, 40, 10));
    budget.settle(held, { billedUsd: 0, ambiguousUsd: 0 });
    await shared.leave("t1", budget);
    let lost = 0;
    shared.loses = ({ returnedNano }) => returnedNano > 0 && lost++ === 0;
    await shared.clock.advance(20_000);
    expect(lost).toBeGreaterThan(0);
    expect(shared.other({ wantedNano: 100, leastNano: 100 }).nano).toBe(100);
  });

  it("report what was held and is spent, also of a run that ended during a draw", async () => {
    const shared = new Shared();
    const budget = await shared.join("t1");
    const held = reservation(await shared.reserved(budget, 60, 10));
    await shared.clock.advance(2_000);
    await shared.untilNextDraw();
    budget.settle(held, { billedUsd: 0, ambiguousUsd: held.usd });
    await shared.leave("t1", budget);
    await shared.clock.advance(20_000);
    expect(shared.other({ wantedNano: 50, leastNano: 50 })).toMatchObject({ othersNano: 60, nano: 0 });
  });

  it("find a cap that another process has raised, where joining took longer than a draw", async () => {
    const shared = new Shared();
    shared.other({ capNano: 10 });
    await shared.leave("t0", await shared.join("t0"));
    await shared.clock.advance(8_000);
    shared.other({ capNano: 10 });
    const budget = await shared.join("t1", 300);
    shared.other({ capNano: 10 });
    expect(budget.reserve(usd(20))).toMatchObject({ reason: "exhausted" });
    await shared.clock.advance(5_000);
    shared.other({});
    await shared.clock.advance(15_000);
    expect(await shared.reserved(budget, 20, 10)).toMatchObject({ ok: true });
    expect(shared.raised).toBeGreaterThan(0);
  });
});
