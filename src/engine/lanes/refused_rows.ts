/**
 * Refusals of single items, told apart from times when a key or a model is refused to everybody.
 *
 *   refused --a request sent at most a second before it was answered, and one at most a second after--> beside answers
 *   beside answers --refused again, others answered in between--> the item's own, unless chance explains it
 *   any --answered--> forgotten
 *
 * A key or a model that is refused to everybody is so for seconds. A provider may also refuse a share of all requests by chance: then
 * items that were refused beside answers are answered later. Each of them in the last 5 minutes makes two more refusals in
 * a row necessary, up to 10. Before the first one, chance explains the second refusals of all items together while it is likely enough that
 * it refuses so many of those that were sent again, answered or not:
 *
 *   s       the share of the first requests of items that were refused
 *   n, m    items that were sent again, and those of them that were refused again
 *   chance  P(Binomial(n, s) >= m) > 0.2
 *
 * Limits: 1,000 models, 64 answers each; 1,000 items. Beyond, an item is judged only by what refused_access.ts compares.
 */

const BESIDE_MS = 1_000;
/** Requests sent so shortly one after the other count as sent together: their times are known to some milliseconds. */
const BURST_MS = 100;
const ANSWERS_KEPT = 64;
const MODELS_MAX = 1_000;
const ITEMS_MAX = 1_000;
const ROW_MIN = 2;
const ROW_MAX = 10;
const RECOVERED_MS = 300_000;
/** Chance that is less likely does not explain refusals. */
const CHANCE_MAX = 0.2;
/** Beyond, older first requests count half. */
const COUNTED_MAX = 1_000;

/** An item that was refused, since its last answer. */
interface RefusedItem {
  readonly model: ModelAnswers;
  /** When the first refused request was sent; monotonic. */
  readonly sentMs: number;
  hasBefore: boolean;
  hasAfter: boolean;
  /** Refusals in a row. */
  row: number;
  /** Whether it is sent again, and its answer has not arrived. */
  isTried: boolean;
}

/** One for an engine. */
export class RefusedRows {
  readonly #models = new Map<string, ModelAnswers>();
  readonly #items = new Map<string, RefusedItem>();

  /**
   * A request of `item` for `model` that was sent at `sentMs` was refused. Returns whether its refusals are the item's own if it is
   * also proven that the key and the model were accepted between them: `chance` when others recovered after as many.
   */
  refused(nowMs: number, item: string, model: string, sentMs: number): "own" | "chance" | "unknown" {
    const known = this.#items.get(item) ?? this.#begin(item, model, sentMs);
    known.row += 1;
    const rowMin = known.model.rowMin(nowMs);
    if (known.row < rowMin) return rowMin > ROW_MIN ? "chance" : "unknown";
    if (known.row === ROW_MIN) known.model.again += 1;
    if (rowMin === ROW_MIN && this.#isByChance(known)) return "chance";
    return known.hasBefore && known.hasAfter ? "own" : "unknown";
  }

  /** The item is sent. */
  sending(item: string): void {
    const known = this.#items.get(item);
    if (known !== undefined) known.isTried = true;
  }

  /** Its request was answered, or failed. */
  returned(item: string): void {
    const known = this.#items.get(item);
    if (known !== undefined) known.isTried = false;
  }

  #isByChance({ model }: RefusedItem): boolean {
    let underway = 0;
    for (const other of this.#items.values())
      if (other.isTried && other.model === model && other.row < ROW_MIN) underway += 1;
    return atLeast(model.again, model.again + underway, model.refusedShare) > CHANCE_MAX;
  }

  /** Whether a request for the model was answered. */
  hasAnswered(model: string): boolean {
    return this.#models.get(model)?.hasAnswered === true;
  }

  /** The item has ended. */
  ended(item: string): void {
    const known = this.#items.get(item);
    if (known !== undefined) this.#forget(item, known);
  }

  /** A request of `item` for `model` that was sent at `sentMs` was answered. */
  answered(nowMs: number, item: () => string, model: string, sentMs: number): void {
    const answers = this.#answersFor(model);
    answers.answered(sentMs);
    if (this.#items.size === 0) return;
    const name = item();
    const known = this.#items.get(name);
    if (known === undefined) return;
    if (known.hasBefore && known.hasAfter) answers.recovered(nowMs);
    this.#forget(name, known);
  }

  #begin(item: string, model: string, sentMs: number): RefusedItem {
    const answers = this.#answersFor(model);
    const begun = { model: answers, sentMs, hasBefore: false, hasAfter: false, row: 0, isTried: false };
    answers.follow(begun);
    const [oldest] = this.#items;
    if (oldest !== undefined && this.#items.size >= ITEMS_MAX) this.#forget(...oldest);
    this.#items.set(item, begun);
    return begun;
  }

  #forget(item: string, known: RefusedItem): void {
    this.#items.delete(item);
    known.model.leave(known);
  }

  #answersFor(model: string): ModelAnswers {
    const known = this.#models.get(model);
    if (known !== undefined) return known;
    if (this.#models.size >= MODELS_MAX) this.#models.clear();
    const answers = new ModelAnswers();
    this.#models.set(model, answers);
    return answers;
  }
}

/** The last answers for a model. */
class ModelAnswers {
  /** When their requests were sent. */
  readonly #sentMs = new Float64Array(ANSWERS_KEPT).fill(Number.NEGATIVE_INFINITY);
  #next = 0;
  /** Those that are not known to be beside answers. */
  readonly #open = new Set<RefusedItem>();
  /** Items whose second request was refused, too, since the last one that recovered. */
  again = 0;
  /** First requests that were answered, and those that were refused. */
  #accepted = 0;
  #refused = 0;
  #recovered = 0;
  #recoveredMs = Number.NEGATIVE_INFINITY;

  get hasAnswered(): boolean {
    return this.#sentMs[0] !== Number.NEGATIVE_INFINITY;
  }

  /** The share of first requests that were refused, 0 to 1. */
  get refusedShare(): number {
    return this.#refused / (this.#refused + this.#accepted);
  }

  answered(sentMs: number): void {
    this.#count(1, 0);
    this.#sentMs[this.#next] = sentMs;
    this.#next = (this.#next + 1) % ANSWERS_KEPT;
    for (const item of this.#open) this.#compare(item, sentMs);
  }

  follow(item: RefusedItem): void {
    this.#count(0, 1);
    this.#open.add(item);
    for (const sentMs of this.#sentMs) this.#compare(item, sentMs);
  }

  leave(item: RefusedItem): void {
    this.#open.delete(item);
  }

  #count(accepted: number, refused: number): void {
    this.#accepted += accepted;
    this.#refused += refused;
    if (this.#accepted + this.#refused < COUNTED_MAX) return;
    this.#accepted /= 2;
    this.#refused /= 2;
  }

  /** An item that was refused beside answers was answered. */
  recovered(nowMs: number): void {
    this.again = 0;
    this.#recovered = this.rowMin(nowMs) === ROW_MIN ? 1 : this.#recovered + 1;
    this.#recoveredMs = nowMs;
  }

  /** Refusals in a row that are an item's own. */
  rowMin(nowMs: number): number {
    if (nowMs - this.#recoveredMs > RECOVERED_MS) return ROW_MIN;
    return Math.min(ROW_MAX, ROW_MIN + 2 * this.#recovered);
  }

  #compare(item: RefusedItem, sentMs: number): void {
    const afterMs = sentMs - item.sentMs;
    if (afterMs >= -BURST_MS && afterMs <= BESIDE_MS) item.hasAfter = true;
    if (afterMs <= BURST_MS && afterMs >= -BESIDE_MS) item.hasBefore = true;
    if (item.hasBefore && item.hasAfter) this.#open.delete(item);
  }
}

/** The probability that at least `min` of `count` happen that happen with the probability `share` each. */
function atLeast(min: number, count: number, share: number): number {
  let below = 0;
  let term = (1 - share) ** count;
  for (let index = 0; index < min; index += 1) {
    below += term;
    term *= ((count - index) / (index + 1)) * (share / (1 - share));
  }
  return 1 - below;
}
