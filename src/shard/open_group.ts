/**
 * Items that wait to become a shard: columns that grow, and their packed bytes. A plain record, one field a column.
 *
 * Items are added in the order of their lines but for merged groups; `toShard` puts them in order again.
 */
import type { ItemGroup, MeasuredBlock } from "./measured.ts";
import { PackedBytes } from "./packed_bytes.ts";
import { Shard } from "./shard.ts";
import { WarningLists } from "./warning_lists.ts";

/** The bounds that a group keeps; see `PackBounds`. */
export interface GroupBounds {
  readonly itemsMax: number;
  readonly tokensMax: number;
  readonly bytesMax: number;
}

export class OpenGroup {
  readonly group: ItemGroup;
  readonly #lines: number[] = [];
  readonly #offsets: number[] = [];
  readonly #lengths: number[] = [];
  readonly #inputTokens: number[] = [];
  readonly #maxOutputTokens: number[] = [];
  readonly #most: number[] = [];
  readonly #warnings: number[] = [];
  readonly #warningLists = new WarningLists();
  /** Of each item, once items with different ones are merged. */
  #prefixes: number[] | undefined;
  readonly #keys = new PackedBytes(0);
  readonly #bodies = new PackedBytes(0);
  #tokens = 0;
  #isOrdered = true;

  constructor(group: ItemGroup) {
    this.group = group;
  }

  get count(): number {
    return this.#lines.length;
  }

  /** Bytes of keys and bodies. */
  get byteLength(): number {
    return this.#keys.byteLength + this.#bodies.byteLength;
  }

  /** The end of the longest run of items from `from`, at most to `to`, that fits; an empty group takes any one item. */
  fits(measured: MeasuredBlock, from: number, to: number, bounds: GroupBounds): number {
    let tokens = this.#tokens;
    let bytes = this.byteLength;
    const last = Math.min(to, from + bounds.itemsMax - this.count);
    let item = from;
    for (; item < last; item += 1) {
      tokens += measured.inputTokens[item] as number;
      bytes += spanOf(measured.keyEnds, item) + spanOf(measured.bodyEnds, item);
      const isFirst = this.count === 0 && item === from;
      if (!isFirst && (tokens > bounds.tokensMax || bytes > bounds.bytesMax)) break;
    }
    return item;
  }

  /** Whether all items of `other` fit beside those of this group. */
  holds(other: OpenGroup, bounds: GroupBounds): boolean {
    return (
      this.count + other.count <= bounds.itemsMax &&
      this.#tokens + other.#tokens <= bounds.tokensMax &&
      this.byteLength + other.byteLength <= bounds.bytesMax
    );
  }

  isFull(bounds: GroupBounds): boolean {
    return (
      this.count >= bounds.itemsMax || this.#tokens >= bounds.tokensMax || this.byteLength >= bounds.bytesMax
    );
  }

  /** Copies the items `from` to `to` (exclusive). */
  addRun(measured: MeasuredBlock, from: number, to: number): void {
    for (let item = from; item < to; item += 1) {
      this.#lines.push(measured.lines[item] as number);
      this.#offsets.push(measured.offsets[item] as number);
      this.#lengths.push(measured.lengths[item] as number);
      this.#inputTokens.push(measured.inputTokens[item] as number);
      this.#maxOutputTokens.push(measured.maxOutputTokens[item] as number);
      this.#most.push(measured.most[2 * item] as number, measured.most[2 * item + 1] as number);
      this.#warn(measured.warnings[item] as number, measured.warningLists);
      this.#tokens += measured.inputTokens[item] as number;
      this.#prefixes?.push(this.group.prefixHash);
    }
    this.#keys.addRun(measured.keys, measured.keyEnds, from, to);
    this.#bodies.addRun(measured.bodies, measured.bodyEnds, from, to);
  }

  /** Copies all items of another group, whose lines may be before those of this one. */
  addGroup(other: OpenGroup): void {
    this.#prefixes ??= this.#lines.map(() => this.group.prefixHash);
    this.#prefixes.push(...(other.#prefixes ?? other.#lines.map(() => other.group.prefixHash)));
    this.#lines.push(...other.#lines);
    this.#offsets.push(...other.#offsets);
    this.#lengths.push(...other.#lengths);
    this.#inputTokens.push(...other.#inputTokens);
    this.#maxOutputTokens.push(...other.#maxOutputTokens);
    this.#most.push(...other.#most);
    for (const number of other.#warnings) this.#warn(number, other.#warningLists.lists);
    this.#tokens += other.#tokens;
    this.#keys.addRun(other.#keys.toBytes(), other.#keys.toEnds(), 0, other.count);
    this.#bodies.addRun(other.#bodies.toBytes(), other.#bodies.toEnds(), 0, other.count);
    this.#isOrdered = false;
  }

  /** Assigns the list with that number in `lists` to the next item. */
  #warn(number: number, lists: readonly string[]): void {
    this.#warnings.push(number === 0 ? 0 : this.#warningLists.numberOf(lists[number - 1] as string));
  }

  /** A group with the same items, which share less. */
  toWider(group: ItemGroup): OpenGroup {
    const wider = new OpenGroup(group);
    wider.addGroup(this);
    wider.#isOrdered = this.#isOrdered;
    return wider;
  }

  /** The shard of all items, in the order of their lines, with bytes of its own. */
  toShard(): Shard {
    if (!this.#isOrdered) return this.#toOrderedShard();
    return new Shard(
      this.group,
      {
        lines: this.#lines,
        offsets: this.#offsets,
        lengths: this.#lengths,
        inputTokens: this.#inputTokens,
        maxOutputTokens: this.#maxOutputTokens,
        most: this.#most,
        warnings: this.#warnings,
        warningLists: this.#warningLists.lists,
        prefixes: this.#prefixes,
      },
      {
        keys: this.#keys.toBytes(),
        keyEnds: this.#keys.toEnds(),
        bodies: this.#bodies.toBytes(),
        bodyEnds: this.#bodies.toEnds(),
      },
    );
  }

  #toOrderedShard(): Shard {
    const order = this.#lines.map((_, item) => item);
    order.sort((a, b) => (this.#lines[a] as number) - (this.#lines[b] as number));
    const pick = (column: readonly number[]): number[] => order.map((item) => column[item] as number);
    const keys = reordered(this.#keys, order);
    const bodies = reordered(this.#bodies, order);
    return new Shard(
      this.group,
      {
        lines: pick(this.#lines),
        offsets: pick(this.#offsets),
        lengths: pick(this.#lengths),
        inputTokens: pick(this.#inputTokens),
        maxOutputTokens: pick(this.#maxOutputTokens),
        most: order.flatMap((item) => this.#most.slice(2 * item, 2 * item + 2)),
        warnings: pick(this.#warnings),
        warningLists: this.#warningLists.lists,
        prefixes: this.#prefixes === undefined ? undefined : pick(this.#prefixes),
      },
      {
        keys: keys.toBytes(),
        keyEnds: keys.toEnds(),
        bodies: bodies.toBytes(),
        bodyEnds: bodies.toEnds(),
      },
    );
  }
}

function spanOf(ends: Uint32Array, item: number): number {
  return (ends[item] as number) - (item === 0 ? 0 : (ends[item - 1] as number));
}

function reordered(packed: PackedBytes, order: readonly number[]): PackedBytes {
  const bytes = packed.toBytes();
  const ends = packed.toEnds();
  const result = new PackedBytes(bytes.byteLength);
  for (const item of order) result.addRun(bytes, ends, item, item + 1);
  return result;
}
