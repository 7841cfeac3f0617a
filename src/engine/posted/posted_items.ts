/**
 * Items of posted tasks that lanes send together: whole tasks of one project that arrived together, or were read together from the work
 * log, and share one deadline.
 *
 *   open -> expired      its deadline has passed: unsent items end with it
 *        -> cancelled    all its tasks are: their batches are cancelled, and nothing is sent any more
 *        -> stopping     the engine closes: requests in flight end, the next process continues
 *   any  -> done         all its items have ended, or nothing waits for it
 *
 * Each item has a line number, from 1, as if the requests of its tasks were one file. So its shards are measured and packed like those
 * of files, and if their bytes were dropped, made again from the requests in the rows of its tasks. A group that has batches is recorded with
 * its lines (`batched_groups.ts`), and measures those again that a batch gives back.
 */
import { setMaxListeners } from "node:events";
import type { AnswerTap } from "../../dispatch/answer_tap.ts";
import type { MeasureOptions } from "../../shard/measure.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import type { Measurer } from "../../shard/measurer.ts";
import { type LinePlaces, type MeasuringAgain, measureAgain, reloadShard } from "../../shard/reload.ts";
import type { Shard } from "../../shard/shard.ts";
import { LineSet } from "../../work/line_set.ts";
import type { GroupAnswers } from "../answers/group_answers.ts";
import type { HeldEnd, Hold } from "../items/holds.ts";
import type { ItemOwner, ItemRecords, OwnerPhase, OwnerTerms } from "../items/item_owner.ts";
import { ItemStates } from "../items/item_states.ts";
import type { CachedItem } from "../items/settle.ts";

/** A posted task in memory. */
export interface PostedTask {
  /** Its number in the work log. */
  readonly number: number;
  readonly items: number;
  /** Line of its first item in the group. */
  readonly firstLine: number;
  /** Offset of its request in the group's text, in bytes. */
  readonly start: number;
  readonly requestBytes: number;
  /** Added to a monotonic time it yields the wall time by the clock that promised its deadline, even if that clock was set since. */
  readonly wallOffsetMs: number;
  isCancelled: boolean;
}

/** Access to the texts of a group. */
export interface PostedTexts {
  /** The request of a task: its lines, without the last line end. Undefined if it was deleted. */
  requestOf(task: number): Promise<Uint8Array | undefined>;
  readonly measurer: Measurer;
  readonly measureOptions: MeasureOptions;
  /** Whether its items may go with batches: its record is durable. */
  readonly isBatched: boolean;
  /** Who reads the answer of a task of one item while it arrives. */
  tapOf(task: number): AnswerTap | undefined;
}

/** With those of items that a cache answers. */
interface PostedItemRecords extends ItemRecords {
  cached(item: CachedItem): void;
}

const LINE_END = 0x0a;
/** One for all groups: the reason that an abort makes by itself has a stack trace, which takes 0.1 ms a group. */
const NOT_OPEN = new DOMException("the group is not open any more", "AbortError");

/** One for each group of tasks. */
export class PostedItems implements ItemOwner {
  readonly id: string;
  readonly settings: OwnerTerms;
  readonly items: ItemStates = new ItemStates(new LineSet(0));
  readonly records: PostedItemRecords;
  /** The cache of answers; undefined where no task wants it. */
  readonly answers: GroupAnswers | undefined;
  readonly tasks: readonly PostedTask[];
  readonly unreadItems = 0;
  readonly hasMore = false;
  heldEnd: ((model: string) => HeldEnd) | undefined;
  /** Only of a group that has batches. */
  readonly measureAgain?: NonNullable<ItemOwner["measureAgain"]>;
  /** Its holds when its deadline passed. */
  holds: readonly Hold[] = [];
  /** The model of each line; line n is at n - 1. */
  readonly models: string[];
  readonly #texts: PostedTexts;
  readonly #onChange: (owner: PostedItems) => void;
  readonly #isOpen: (task: number, item: number) => boolean;
  #phase: OwnerPhase = "open";
  #left: AbortController | undefined;
  #over: AbortController | undefined;
  failure: Error | undefined;
  /** Rises with every change of an item. */
  version = 0;

  constructor(
    id: string,
    settings: OwnerTerms,
    tasks: readonly PostedTask[],
    texts: PostedTexts,
    {
      recordsOf,
      isOpen,
      onChange,
      answers,
    }: {
      readonly recordsOf: (owner: PostedItems) => PostedItemRecords;
      readonly answers: GroupAnswers | undefined;
      /** Whether an item of a task has not ended in the log: the rest of its task may end before its memory knows. */
      readonly isOpen: (task: number, item: number) => boolean;
      /** Called after every change that may end it. */
      readonly onChange: (owner: PostedItems) => void;
    },
  ) {
    this.id = id;
    this.settings = settings;
    this.tasks = tasks;
    this.#texts = texts;
    this.#onChange = onChange;
    this.#isOpen = isOpen;
    this.answers = answers;
    this.records = recordsOf(this);
    this.models = new Array<string>(this.lineCount).fill("");
    if (texts.isBatched) this.measureAgain = (places, chosen) => this.#measureAgain(places, chosen);
  }

  get phase(): OwnerPhase {
    return this.#phase;
  }

  set phase(phase: OwnerPhase) {
    this.#phase = phase;
    if (phase !== "open") this.#left?.abort(NOT_OPEN);
    if (phase === "done") this.#over?.abort(NOT_OPEN);
  }

  get isOpen(): boolean {
    return this.#phase === "open";
  }

  get left(): AbortSignal {
    this.#left ??= controller(!this.isOpen);
    return this.#left.signal;
  }

  get over(): AbortSignal {
    this.#over ??= controller(this.#phase === "done");
    return this.#over.signal;
  }

  get lineCount(): number {
    const last = this.tasks.at(-1);
    return last === undefined ? 0 : last.firstLine + last.items - 1;
  }

  get openItems(): number {
    return this.lineCount - this.items.done.size;
  }

  /** The task of a line. */
  taskAt(line: number): PostedTask {
    let low = 0;
    let high = this.tasks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.tasks[middle] as PostedTask).firstLine <= line) low = middle;
      else high = middle - 1;
    }
    return this.tasks[low] as PostedTask;
  }

  skips(line: number): boolean {
    if (this.tasks.length === 0) return false;
    const { number, firstLine, isCancelled } = this.taskAt(line);
    return isCancelled || !this.#isOpen(number, line - firstLine);
  }

  tapOf(line: number): AnswerTap | undefined {
    return this.#texts.tapOf(this.taskAt(line).number);
  }

  reload(shard: Shard): Promise<void> {
    const { alias, model } = shard.group;
    const { file, measurer, options } = this.#measuring(alias === undefined ? {} : { [alias]: model });
    return reloadShard(shard, file, measurer, options);
  }

  /** Lines of a task whose items are neither done nor with a lane or a batch. */
  *freshLines({ firstLine, items }: PostedTask): Generator<number> {
    for (let line = firstLine; line < firstLine + items; line += 1) if (this.items.isOpen(line)) yield line;
  }

  fail(error: Error): void {
    this.failure ??= error;
    this.changed();
  }

  changed(): void {
    this.version += 1;
    this.#onChange(this);
  }

  #measureAgain(places: LinePlaces, chosen: MeasureOptions["aliases"] = {}): AsyncGenerator<MeasuredBlock> {
    return measureAgain(places, this.#measuring(chosen));
  }

  #measuring(chosen: NonNullable<MeasureOptions["aliases"]>): MeasuringAgain {
    const { measurer, measureOptions } = this.#texts;
    const file = {
      read: (bytes: Uint8Array, position: number): Promise<number> => this.#read(bytes, position),
    };
    if (Object.keys(chosen).length === 0) return { file, measurer, options: measureOptions };
    const aliases = { ...measureOptions.aliases, ...chosen };
    return { file, measurer, options: { ...measureOptions, aliases } };
  }

  /** Reads like a file of all requests; deleted requests yield no bytes, so the shard differs. */
  async #read(bytes: Uint8Array, position: number): Promise<number> {
    const end = position + bytes.byteLength;
    for (const task of this.tasks) {
      if (task.start >= end || task.start + task.requestBytes < position) continue;
      const request = await this.#texts.requestOf(task.number);
      const text = Buffer.alloc(task.requestBytes + 1, LINE_END);
      text.set((request ?? new Uint8Array()).subarray(0, task.requestBytes));
      const from = Math.max(0, position - task.start);
      const piece = text.subarray(from, Math.min(text.byteLength, end - task.start));
      bytes.set(piece, task.start + from - position);
    }
    return bytes.byteLength;
  }
}

function controller(isAborted: boolean): AbortController {
  const made = new AbortController();
  setMaxListeners(0, made.signal); // one listener for each waiting item
  if (isAborted) made.abort(NOT_OPEN);
  return made;
}

/** Places tasks one after the other, as if their requests were one file. */
export function placeTasks(
  posted: readonly Pick<PostedTask, "number" | "items" | "requestBytes" | "wallOffsetMs">[],
): PostedTask[] {
  let [firstLine, start] = [1, 0];
  return posted.map(({ number, items, requestBytes, wallOffsetMs }) => {
    const task = { number, items, firstLine, start, requestBytes, wallOffsetMs, isCancelled: false };
    firstLine += items;
    start += requestBytes + 1;
    return task;
  });
}
