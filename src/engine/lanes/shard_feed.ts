/**
 * Shards on their way from their run to their lane, and no more of them in a turn of the event loop than it can bear.
 *
 *   packed -> at its turn it is placed -> waits in the backlog, the lane is notified
 *
 * A file for one model packs 512 items a shard and never waits here. One that names another model in each line packs one
 * item a shard; 50 us each, a thousand of them arrived in one turn, which kept the thread for 230 ms.
 */
import type { Clock } from "../../clock.ts";
import { requestsOf } from "../../shard/joined_body.ts";
import type { Shard } from "../../shard/shard.ts";
import type { Backlog } from "../items/backlog.ts";
import type { ItemOwner } from "../items/item_owner.ts";
import type { Lanes } from "./lanes.ts";
import type { Sender } from "./sender.ts";
import { TurnShare } from "./turn_share.ts";

/** Shards of all runs. */
const SHARDS_PER_TURN = 64;

export interface ShardFeedOptions {
  readonly clock: Clock;
  readonly backlog: Backlog;
  readonly lanes: Pick<Lanes, "forecasts" | "of">;
  readonly sender: Sender;
  /** Providers whose key is not set, with what to do about it. */
  readonly keysMissing: ReadonlyMap<string, string>;
}

/** One for an engine. */
export class ShardFeed {
  readonly #clock: Clock;
  readonly #backlog: Backlog;
  readonly #lanes: Pick<Lanes, "forecasts" | "of">;
  readonly #sender: Sender;
  readonly #keysMissing: ReadonlyMap<string, string>;
  readonly #turns: TurnShare;

  constructor({ clock, backlog, lanes, sender, keysMissing }: ShardFeedOptions) {
    this.#clock = clock;
    this.#backlog = backlog;
    this.#lanes = lanes;
    this.#sender = sender;
    this.#keysMissing = keysMissing;
    this.#turns = new TurnShare(clock, SHARDS_PER_TURN);
  }

  /** Passes the shards to their lanes, in their order; what is left when the run stops sending is dropped. */
  async add(owner: ItemOwner, shards: readonly Shard[]): Promise<void> {
    let steps = 0;
    for (const shard of shards) {
      if (steps === 0) steps = await this.#turns.take();
      if (!owner.isOpen) return;
      steps -= 1;
      if (shard.group.alias !== undefined && (await this.#sender.failover.redirects(owner, shard))) continue;
      if (owner.isOpen) this.#add(owner, shard, true);
    }
  }

  /** The same for shards whose model is decided, and whose items were expected before. */
  async place(owner: ItemOwner, shards: readonly Shard[]): Promise<void> {
    let steps = 0;
    for (const shard of shards) {
      if (steps === 0) steps = await this.#turns.take();
      if (!owner.isOpen) return;
      steps -= 1;
      this.#add(owner, shard, false);
    }
  }

  #add(owner: ItemOwner, shard: Shard, isNew: boolean): void {
    const sender = this.#sender;
    const message = this.#keysMissing.get(sender.models.of(shard.model).provider);
    if (message !== undefined) {
      sender.holdKeyless(owner, shard, message);
      return;
    }
    owner.items.waitingItems += shard.count;
    const { deadlineMs } = owner.settings;
    if (isNew) sender.money.expect(owner.settings.budget, shard, () => shard.model);
    const work = {
      model: shard.model,
      items: shard.count,
      inputTokens: shard.inputTokensTotal,
      expectedOutputTokens: sender.loads.outputTokens(shard),
      deadlineMs,
    };
    const { key: lane } = sender.models.place(work);
    const requests = requestsOf(shard.group.joins, shard.count, shard.inputTokensTotal);
    this.#lanes.of(lane).pace.arrived(shard.count, requests);
    const needMs = this.#lanes.forecasts.needMs(lane, work);
    const ticket = { owner, shard, runId: owner.id, lane, ...work, needMs };
    this.#backlog.add({ ...ticket, arrivedMs: this.#clock.nowMs() });
    this.#lanes.of(lane).arrived(owner);
  }
}
