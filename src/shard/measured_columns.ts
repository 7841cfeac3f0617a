/**
 * Fills the columns of a `MeasuredBlock` line by line; one set of buffers is used for block after block. A plain record: each
 * field is one column, and all grow by one entry a line.
 */
import type { FailureCode } from "../errors.ts";
import type { JoinedBodies } from "../providers/provider.ts";
import { ANSWER_KEY_BYTES } from "../work/answer_key.ts";
import type { EndpointKind } from "../work/request.ts";
import type { BeyondTexts, MeasuredBlock, MeasuredGroup, RejectedLine, RequestKeys } from "./measured.ts";
import { PackedBytes } from "./packed_bytes.ts";
import {
  hashOfHashes,
  hashOfTexts,
  type PrefixEnd,
  type PrefixTexts,
  prefixEnds,
  type SharedPrefix,
} from "./prefix_ends.ts";
import type { RequestMost } from "./request_most.ts";
import { SeenPrefixes } from "./seen_prefixes.ts";
import { WarningLists } from "./warning_lists.ts";

/** One measured item. */
export interface MeasuredItem {
  readonly key: string;
  /** In JSON; empty text without any. */
  readonly metadata: string;
  /** What its answer must fit by its own words, in JSON; empty text where it says nothing. */
  readonly schema: string;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** What the line calls it, where that is an alias. */
  readonly alias: string | undefined;
  /** Of other endpoints than a chat's. */
  readonly endpoint?: EndpointKind | undefined;
  /** Whether its body names files that are put into it when it is sent. */
  readonly hasInserts: boolean;
  /** How it is sent with others; absent if it is sent by itself. */
  readonly joins?: JoinedBodies | undefined;
  /** Texts of the system instruction. */
  readonly system: readonly string[];
  readonly isEstimated: boolean;
  readonly inputTokens: number;
  readonly prefixTokens: number;
  /** Of a request so long that a prompt cache may have its beginning; `headHash` is that of what is before the system instruction. */
  readonly leading?: PrefixTexts | undefined;
  /** 0 for none. */
  readonly maxOutputTokens: number;
  /** The most that an attempt can take. */
  readonly most: RequestMost;
  /** A list in JSON; empty text without any. */
  readonly warnings: string;
  readonly body: string;
  /** 32 bytes; absent where it is not wanted. */
  readonly requestKey?: Uint8Array | undefined;
  readonly isCertain?: boolean;
}

/** Groups of one block at most: `groupOf` has 16 bits. */
const GROUPS_MAX = 65_536;
const WORD_MAX = 2 ** 32 - 1;

/** An item whose group is known when the block is: it may share more than its system instruction. */
interface LongItem {
  readonly index: number;
  readonly ends: readonly PrefixEnd[];
  readonly most: RequestMost;
}

const GUESSES_FREE = 64;
/** The least share of guesses that is right, else none is made. */
const GUESSES_RIGHT = 0.1;

const NOTHING_BEYOND: BeyondTexts = { tokens: 0, tokensMost: 0, tierExcess: 0, itemsUncounted: 0 };

export class MeasuredColumns {
  readonly #keys = new PackedBytes(64 * 1024);
  readonly #bodies = new PackedBytes(64 * 1024);
  #count = 0;
  #lines = new Uint32Array(0);
  #offsets = new Float64Array(0);
  #lengths = new Uint32Array(0);
  #inputTokens = new Uint32Array(0);
  #maxOutputTokens = new Uint32Array(0);
  #most = new Uint32Array(0);
  #groupOf = new Uint16Array(0);
  #warnings = new Uint16Array(0);
  #warningLists = new WarningLists();
  #requests: RequestKeys | undefined;
  #groups: MeasuredGroup[] = [];
  #groupIndexes = new Map<string, number>();
  /** The last item that is sent with others, and its group. */
  #last: { readonly item: MeasuredItem; readonly group: number } | undefined;
  #rejected: RejectedLine[] = [];
  #blankLines = 0;
  #long: LongItem[] = [];
  readonly #seen = new SeenPrefixes();
  /** Items for which a prefix was taken that no other had yet, and prefixes that a second item had. */
  readonly #guesses = { made: 0, right: 0 };
  #line = 0;
  #offset = 0;
  #length = 0;

  /** Begins a block of at most `itemsMax` items, with the keys of their requests or without. */
  begin(itemsMax: number, hasRequests: boolean = false): void {
    this.#requests = hasRequests
      ? { keys: new Uint8Array(ANSWER_KEY_BYTES * itemsMax), areCertain: new Uint8Array(itemsMax) }
      : undefined;
    this.#keys.reset();
    this.#bodies.reset();
    this.#count = 0;
    this.#lines = new Uint32Array(itemsMax);
    this.#offsets = new Float64Array(itemsMax);
    this.#lengths = new Uint32Array(itemsMax);
    this.#inputTokens = new Uint32Array(itemsMax);
    this.#maxOutputTokens = new Uint32Array(itemsMax);
    this.#most = new Uint32Array(2 * itemsMax);
    this.#groupOf = new Uint16Array(itemsMax);
    this.#warnings = new Uint16Array(itemsMax);
    this.#warningLists = new WarningLists();
    this.#groups = [];
    this.#groupIndexes = new Map();
    this.#last = undefined;
    this.#rejected = [];
    this.#blankLines = 0;
    this.#long = [];
  }

  /** Names the line that the next call of `addItem`, `reject` or `addBlank` is about. */
  beginLine(line: number, offset: number, length: number): void {
    this.#line = line;
    this.#offset = offset;
    this.#length = length;
  }

  addItem(item: MeasuredItem): void {
    const index = this.#count;
    const group = this.#groupIndex(item);
    if (item.leading === undefined) this.#addBeyond(group, item.most);
    else this.#addLong(index, group, item.leading, item.most);
    this.#keys.addText(keyText(item));
    if (item.body === "") this.#bodies.addEmpty();
    else this.#bodies.addText(item.body);
    this.#lines[index] = this.#line;
    this.#offsets[index] = this.#offset;
    this.#lengths[index] = this.#length;
    this.#inputTokens[index] = Math.min(item.inputTokens, WORD_MAX);
    this.#maxOutputTokens[index] = Math.min(item.maxOutputTokens, WORD_MAX);
    this.#most[2 * index] = Math.min(item.most.inputTokens, WORD_MAX);
    this.#most[2 * index + 1] = Math.min(item.most.outputTokens, WORD_MAX);
    this.#groupOf[index] = group;
    if (item.warnings !== "") this.#warnings[index] = this.#warningLists.numberOf(item.warnings);
    if (item.requestKey !== undefined) this.#requests?.keys.set(item.requestKey, ANSWER_KEY_BYTES * index);
    if (this.#requests !== undefined) this.#requests.areCertain[index] = item.isCertain === true ? 1 : 0;
    this.#count += 1;
  }

  reject(
    key: string | null,
    code: FailureCode,
    message: string,
    { provider, field }: { readonly provider?: string; readonly field?: string | undefined } = {},
  ): void {
    this.#rejected.push({
      ...{ line: this.#line, key, code, message },
      ...(provider === undefined ? {} : { provider }),
      ...(field === undefined ? {} : { field }),
    });
  }

  addBlank(): void {
    this.#blankLines += 1;
  }

  /** The block's columns, in buffers of their own. */
  finish(): MeasuredBlock {
    const count = this.#count;
    for (const item of this.#long) this.#settle(item);
    return {
      count,
      lines: this.#lines.length === count ? this.#lines : this.#lines.slice(0, count),
      offsets: this.#offsets.length === count ? this.#offsets : this.#offsets.slice(0, count),
      lengths: this.#lengths.length === count ? this.#lengths : this.#lengths.slice(0, count),
      inputTokens: this.#inputTokens.length === count ? this.#inputTokens : this.#inputTokens.slice(0, count),
      maxOutputTokens:
        this.#maxOutputTokens.length === count
          ? this.#maxOutputTokens
          : this.#maxOutputTokens.slice(0, count),
      most: this.#lines.length === count ? this.#most : this.#most.slice(0, 2 * count),
      groupOf: this.#groupOf.length === count ? this.#groupOf : this.#groupOf.slice(0, count),
      warnings: this.#warnings.length === count ? this.#warnings : this.#warnings.slice(0, count),
      warningLists: this.#warningLists.lists,
      keys: this.#keys.toBytes(),
      keyEnds: this.#keys.toEnds(),
      bodies: this.#bodies.toBytes(),
      bodyEnds: this.#bodies.toEnds(),
      ...(this.#requests === undefined ? {} : { requests: firstOf(this.#requests, count) }),
      groups: this.#groups,
      rejected: this.#rejected,
      blankLines: this.#blankLines,
    };
  }

  #addLong(index: number, group: number, leading: PrefixTexts, most: RequestMost): void {
    const { prefixHash } = this.#groups[group] as MeasuredGroup; // made just now at the latest
    const headHash = hashOfHashes(leading.headHash, prefixHash);
    const ends = prefixEnds({ ...leading, headHash });
    for (const { hash } of ends) if (this.#seen.add(hash, this.#line)) this.#guesses.right += 1;
    this.#long.push({ index, ends, most });
  }

  /** Moves an item to the group of the longest prefix that it shares, or may share. */
  #settle({ index, ends, most }: LongItem): void {
    const base = this.#groupOf[index] as number;
    const shared =
      this.#guess(ends) ?? ends.findLast(({ hash }) => this.#seen.isShared(hash)) ?? headOf(ends);
    const group = shared === undefined ? base : this.#sharedGroup(base, shared, ends[0]);
    this.#groupOf[index] = group;
    this.#addBeyond(group, most);
  }

  /**
   * The prefix that an item probably shares, though no other line had it yet: all but its last text. A file without shared turns is not
   * guessed at for long.
   */
  #guess(ends: readonly PrefixEnd[]): SharedPrefix | undefined {
    const { made, right } = this.#guesses;
    if (made > GUESSES_FREE && right < made * GUESSES_RIGHT) return undefined;
    const guess = ends.findLast(({ isLikely }) => isLikely);
    if (guess === undefined || this.#seen.isShared(guess.hash)) return undefined;
    const isDeeper = ends.every(({ hash, tokens }) => tokens <= guess.tokens || !this.#seen.isShared(hash));
    if (!isDeeper) return undefined;
    this.#guesses.made += 1;
    return guess;
  }

  #sharedGroup(base: number, { hash, tokens, parts }: SharedPrefix, first: PrefixEnd | undefined): number {
    // A control character that no name of a group begins with.
    const name = `\u0002${base}/${hash}`;
    const known = this.#groupIndexes.get(name);
    if (known !== undefined) return known;
    const group = this.#groups[base] as MeasuredGroup;
    const { beyond: _, ...plain } = group;
    const head =
      first?.isHead === true && first.hash !== hash
        ? { head: { hash: first.hash, tokens: first.tokens } }
        : undefined;
    return this.#addGroup(name, { ...plain, shared: { hash, tokens, parts, ...head } });
  }

  #addBeyond(index: number, { beyondTokens, beyondTokensMost, tierFactor, unbounded }: RequestMost): void {
    if (beyondTokensMost === 0 && tierFactor === 1 && unbounded === undefined) return;
    const group = this.#groups[index] as MeasuredGroup; // made just now at the latest
    const { tokens, tokensMost, tierExcess, itemsUncounted } = group.beyond ?? NOTHING_BEYOND;
    this.#groups[index] = {
      ...group,
      beyond: {
        tokens: tokens + beyondTokens,
        tokensMost: tokensMost + beyondTokensMost,
        tierExcess: tierExcess + tierFactor - 1,
        itemsUncounted: itemsUncounted + (unbounded === undefined ? 0 : 1),
      },
    };
  }

  #groupIndex(item: MeasuredItem): number {
    if (item.joins === undefined) return this.#namedGroup(item);
    const last = this.#last;
    if (last !== undefined && isAlike(item, last.item)) return last.group;
    const group = this.#namedGroup(item);
    this.#last = { item, group };
    return group;
  }

  #namedGroup(item: MeasuredItem): number {
    const { model, alias, system, endpoint, joins } = item;
    const plain = endpoint === undefined ? model : `${model}\u0003${endpoint}${joins?.close ?? ""}`;
    const of = item.hasInserts ? `${plain}\u0004` : plain;
    const name = alias === undefined ? of : `${of}\u0001${alias}`;
    // A control character cannot be in a model's name, so it ends there.
    const text = system.length === 0 ? name : `${name}\u0000${system.join("\u0000")}`;
    const known = this.#groupIndexes.get(text);
    if (known !== undefined) return known;
    return this.#addGroup(text, {
      model,
      ...(alias === undefined ? {} : { alias }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(joins === undefined ? {} : { joins }),
      ...(item.hasInserts ? { hasInserts: true } : {}),
      prefixHash: hashOfTexts(system),
      prefixTokens: item.prefixTokens,
      isEstimated: item.isEstimated,
    });
  }

  #addGroup(name: string, group: MeasuredGroup): number {
    if (this.#groups.length === GROUPS_MAX)
      throw new RangeError(`more than ${GROUPS_MAX} groups in one block`);
    const index = this.#groups.length;
    this.#groupIndexes.set(name, index);
    this.#groups.push(group);
    return index;
  }
}

/** Whether items that are sent with others, without a system instruction, are of one group. False where only their names say it. */
function isAlike(one: MeasuredItem, other: MeasuredItem): boolean {
  return (
    one.model === other.model &&
    one.alias === other.alias &&
    one.endpoint === other.endpoint &&
    one.joins === other.joins &&
    one.hasInserts === other.hasInserts
  );
}

/** The system instruction, which is worth a group before another line has it. */
function headOf([first]: readonly PrefixEnd[]): SharedPrefix | undefined {
  return first?.isHead === true ? first : undefined;
}

function firstOf({ keys, areCertain }: RequestKeys, count: number): RequestKeys {
  return { keys: keys.slice(0, ANSWER_KEY_BYTES * count), areCertain: areCertain.slice(0, count) };
}

/** See `MeasuredBlock.keys`. */
function keyText({ key, metadata, schema }: MeasuredItem): string {
  const text = JSON.stringify(key);
  if (schema !== "") return `${text}\n${metadata}\n${schema}`;
  return metadata === "" ? text : `${text}\n${metadata}`;
}
