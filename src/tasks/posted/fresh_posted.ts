/**
 * Sums up the use of a posted task that was accepted in this process and not retried, as its items end, so nothing is read.
 */
import type { SentFacts } from "../../engine/journal/sent_rows.ts";
import type { PostedRecord } from "../../engine/posted/posted_record.ts";
import type { EndedStatus } from "../../log/records.ts";
import type { Money } from "../../price/money.ts";
import { plusUsd } from "../../price/nano.ts";
import type { ProjectUsage } from "../usage/project_usage.ts";

/** Tokens and money of an item. */
export interface UsedByItem extends Money {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly sent?: SentFacts | undefined;
}

/** One for a task. Hot: a class, because V8 takes 3 us to copy an object whose sums get fractions. */
export class FreshPosted {
  readonly task: PostedRecord;
  completed = 0;
  failed = 0;
  expired = 0;
  cancelled = 0;
  lastWallMs: number;
  inputTokens = 0;
  outputTokens = 0;
  listUsd = 0;
  usd = 0;
  billedUsd = 0;
  ambiguousUsd = 0;
  readonly #model: string | undefined;
  #isPlain: boolean;

  constructor(task: PostedRecord) {
    this.task = task;
    this.#model = task.works[0]?.[0];
    this.#isPlain = task.works.length <= 1;
    this.lastWallMs = task.createdWallMs;
  }

  /** Whether each of its items ended with its own outcome. */
  get isWhole(): boolean {
    return this.completed + this.failed + this.expired + this.cancelled === this.task.totalItems;
  }

  /** Whether one model answered all its items in time: then its usage is all of that model, and nothing is given back. */
  get isPlain(): boolean {
    return this.#isPlain;
  }

  get usage(): ProjectUsage {
    const { inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd } = this;
    const { totalItems: items } = this.task;
    const sale = { items, inputTokens, outputTokens, listUsd, usd, billedUsd, ambiguousUsd, refundUsd: 0 };
    return this.#model === undefined ? sale : { ...sale, models: { [this.#model]: sale } };
  }

  ended(status: EndedStatus, used: UsedByItem, endedWallMs: number): void {
    this[status] += 1;
    const { as, isMet } = used.sent ?? {};
    const isSame = as === undefined || as.model === "" || as.model === this.#model;
    if (!isSame || (isMet === false && this.task.refundShare !== undefined)) this.#isPlain = false;
    this.lastWallMs = Math.max(this.lastWallMs, endedWallMs);
    this.inputTokens += used.inputTokens;
    this.outputTokens += used.outputTokens;
    this.listUsd = plusUsd(this.listUsd, used.listUsd);
    this.usd = plusUsd(this.usd, used.usd);
    this.billedUsd = plusUsd(this.billedUsd, used.billedUsd);
    this.ambiguousUsd = plusUsd(this.ambiguousUsd, used.ambiguousUsd);
  }
}
