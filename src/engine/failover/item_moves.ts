/**
 * Items on their way from one model to another: read from the input and measured for the other one.
 *
 *   waiting -> on their way (still counted as waiting) -> in shards of the other model
 *                 |-- the other model refuses them -----> in shards of their own model, which stay there
 *                 \-- their run sends no more ----------> dropped: they end with their run, or in its next call
 *
 * The input must still hold what was read: a key that differs, or a shard that is not what it was, fails the run with
 * `input_changed`. One group of items at a time is measured, so that memory is bounded; of the others only their lines are kept.
 */
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { RejectedLine } from "../../shard/measured.ts";
import { Packer } from "../../shard/pack.ts";
import { indexAfter, type PlacedItem, placesOf } from "../../shard/reload.ts";
import type { Shard } from "../../shard/shard.ts";
import type { ItemCall } from "../items/item_call.ts";
import type { ItemOwner } from "../items/item_owner.ts";

/** Items of one run and one alias that wait for the same model. */
interface MovedGroup {
  readonly owner: ItemOwner;
  readonly alias: string;
  readonly from: string;
}

/** Where items go. */
export interface MoveTarget {
  readonly model: string;
  /** Whether they are to show if it answers. */
  readonly isProbe: boolean;
}

/** Items that left in one turn of the event loop. */
interface Leaving extends MovedGroup {
  readonly target: MoveTarget;
  readonly items: PlacedItem[];
}

/** Takes shards that were measured for another model. */
export type PlaceShards = (owner: ItemOwner, shards: readonly Shard[], isProbe: boolean) => Promise<void>;

/** One for an engine. */
export class ItemMoves {
  readonly #clock: Clock;
  readonly #place: PlaceShards;
  readonly #leaving = new Map<string, Leaving>();
  /** Items on their way. */
  readonly #moving = new Map<ItemOwner, number>();
  /** Of items that no other model takes. */
  readonly #staying = new WeakSet<Shard>();
  #last: Promise<void> = Promise.resolve();

  constructor(clock: Clock, place: PlaceShards) {
    this.#clock = clock;
    this.#place = place;
  }

  isMoving(owner: ItemOwner): boolean {
    return this.#moving.has(owner);
  }

  /** Whether the items of a shard were refused for the model that they were to move to. */
  stays(shard: Shard): boolean {
    return this.#staying.has(shard);
  }

  /** An item that waits leaves, together with others of this turn. */
  add(call: ItemCall, target: MoveTarget): void {
    const { owner, shard, index, model } = call;
    const { alias = "" } = shard.group;
    const key = `${owner.id} ${alias} ${model} ${target.model} ${target.isProbe}`;
    const group = this.#leaving.get(key) ?? { owner, alias, from: model, target, items: [] };
    if (this.#leaving.size === 0) this.#clock.soon(() => this.#leave());
    this.#leaving.set(key, group);
    group.items.push(itemOf(shard, index));
    this.#count(owner, 1);
  }

  /** All items of a shard that waits leave. Resolves when they wait for the other model, as all methods. */
  moveShard(owner: ItemOwner, shard: Shard, target: MoveTarget): Promise<void> {
    return this.#inTurn(owner, shard.count, async () => {
      await owner.reload(shard); // shows that its lines are what they were, and has their keys
      await this.#move(groupOf(owner, shard), itemsOf(shard), target);
    });
  }

  /** The first item of a shard that was just read, if another model is `probed`, and the others go to other models. */
  async redirect(owner: ItemOwner, shard: Shard, model: string, probed: string | undefined): Promise<void> {
    const items = itemsOf(shard);
    const first = probed === undefined ? [] : items.splice(0, 1);
    await this.#inTurn(owner, shard.count, async () => {
      const group = groupOf(owner, shard);
      if (probed !== undefined) await this.#move(group, first, { model: probed, isProbe: true });
      await this.#move(group, items, { model, isProbe: false });
    });
  }

  #leave(): void {
    const groups = [...this.#leaving.values()];
    this.#leaving.clear();
    for (const { owner, target, items, ...rest } of groups) {
      items.sort((left, right) => left.line - right.line);
      void this.#inTurn(owner, items.length, () => this.#move({ owner, ...rest }, items, target));
      this.#count(owner, -items.length); // counted in turn from now on
    }
  }

  /** Never rejects: a run whose items cannot be measured fails. */
  #inTurn(owner: ItemOwner, items: number, move: () => Promise<void>): Promise<void> {
    this.#count(owner, items);
    this.#last = this.#last.then(async () => {
      try {
        if (owner.isOpen) await move();
      } catch (error) {
        const isKnown = error instanceof PerigeeError;
        const message = "the input cannot be read any more";
        owner.fail(isKnown ? error : new PerigeeError("input_unreadable", message, { cause: error }));
      } finally {
        this.#count(owner, -items);
        owner.changed();
      }
    });
    return this.#last;
  }

  async #move(group: MovedGroup, items: readonly PlacedItem[], target: MoveTarget): Promise<void> {
    const { owner, from } = group;
    const refused = await this.#measured(group, items, target.model, async (shards) =>
      this.#placed(owner, shards, target.isProbe),
    );
    const lines = new Set(refused.map(({ line }) => line));
    const left = items.filter(({ line }) => lines.has(line));
    const invalid = await this.#measured(group, left, from, async (shards) => {
      for (const shard of shards) this.#staying.add(shard);
      await this.#placed(owner, shards, false);
    });
    for (const { line, key, code, message } of invalid) {
      owner.items.waitingItems = Math.max(0, owner.items.waitingItems - 1);
      const keyJson = key === null ? null : JSON.stringify(key);
      if (owner.items.claimed.add(line))
        owner.records.unsent(line, keyJson, { status: "failed", code, message });
    }
  }

  /** Returns the lines that the model, or its provider, refuses. */
  async #measured(
    { owner, alias }: MovedGroup,
    items: readonly PlacedItem[],
    model: string,
    place: (shards: readonly Shard[]) => Promise<void>,
  ): Promise<readonly RejectedLine[]> {
    if (owner.measureAgain === undefined) throw new Error("these items cannot be found again");
    if (items.length === 0) return [];
    const packer = new Packer();
    const rejected: RejectedLine[] = [];
    let from = 0;
    for await (const measured of owner.measureAgain(placesOf(items), { [alias]: model })) {
      if (!owner.isOpen) return [];
      from = indexAfter(items, from, measured);
      rejected.push(...measured.rejected);
      await place(packer.add(measured, true));
    }
    await place(packer.flush());
    return rejected;
  }

  async #placed(owner: ItemOwner, shards: readonly Shard[], isProbe: boolean): Promise<void> {
    const count = shards.reduce((items, shard) => items + shard.count, 0);
    owner.items.waitingItems = Math.max(0, owner.items.waitingItems - count); // they are counted again as they are placed
    await this.#place(owner, shards, isProbe);
  }

  #count(owner: ItemOwner, change: number): void {
    const items = (this.#moving.get(owner) ?? 0) + change;
    if (items > 0) this.#moving.set(owner, items);
    else this.#moving.delete(owner);
  }
}

function groupOf(owner: ItemOwner, { group, model }: Shard): MovedGroup {
  return { owner, alias: group.alias ?? "", from: model };
}

/** Of a shard that is prepared. */
function itemsOf(shard: Shard): PlacedItem[] {
  return Array.from(shard.lines, (_, index) => itemOf(shard, index));
}

function itemOf(shard: Shard, index: number): PlacedItem {
  return {
    line: shard.lines[index] as number,
    offset: shard.offsets[index] as number,
    length: shard.lengths[index] as number,
    keyJson: shard.keyJson(index),
  };
}
