/**
 * The laws that are checked when a run is over (I0 to I4, I8, I10), against the provider's own ledger.
 *
 * I0 has two sides: an item that ends in an error needs its reason in the ledger, and one that the ledger says was
 * answered, or refused for its own sake, must have ended so.
 */
import type { Summary } from "../../src/engine/items/progress.ts";
import { blamedFailures, overBlamed } from "./blame_law.ts";
import { isHeldEnd } from "./held_end_law.ts";
import type { Observer } from "./observer.ts";
import {
  answerOf,
  FINAL,
  isFinal,
  isOfTier,
  isShed,
  listUsdOf,
  type Served,
  type SimulatedProviders,
  usdOf,
} from "./provider.ts";
import type { CapsAt, OutputLine, RunBook } from "./run_book.ts";
import { wrongTier } from "./tier_law.ts";
import { wrongPause } from "./wait_law.ts";
import { INPUT_USD, OUTPUT_USD, type SimulatedLine, type Workload } from "./workload.ts";

const WINDOW_MS = 60_000;
/** How much later than it left a request may be counted by a provider. */
const ARRIVAL_MS = 250;
const ATTEMPTS_MAX = 8;
const AMBIGUOUS_MAX = 2;
/** Nothing was done, so they may be repeated at no cost. */
const FREE: ReadonlySet<string> = new Set([
  "rate_limited",
  "unavailable",
  "overloaded",
  "not_sent",
  "quota",
  "key_refused",
  "swamped",
  "down",
  "throttled",
  "shed_in_tier",
  "unknown_in_tier",
  "bad_request_in_tier",
]);
const CODES: Readonly<Record<string, readonly string[]>> = {
  filtered: ["filtered"],
  bad_request: ["invalid_request"],
  bad_request_in_tier: ["invalid_request"],
  too_long: ["context_length_exceeded", "request_too_large"],
};

export interface LawsOptions {
  readonly workload: Workload;
  readonly observer: Observer;
  readonly providers: SimulatedProviders;
}

export class Laws {
  readonly #workload: Workload;
  readonly #observer: Observer;
  readonly #providers: SimulatedProviders;
  readonly #lines: ReadonlyMap<number, SimulatedLine>;

  constructor({ workload, observer, providers }: LawsOptions) {
    this.#lines = new Map(workload.lines.map((line) => [line.id, line]));
    this.#workload = workload;
    this.#observer = observer;
    this.#providers = providers;
  }

  finished(book: RunBook, summary: Summary, output: string): void {
    const observer = this.#observer;
    const { counts, errors } = summary;
    observer.note(`run ${book.run.index} finished ${JSON.stringify(counts)} ${JSON.stringify(errors)}`);
    observer.note(output);
    const lines = observer.parse(output);
    if (!output.endsWith("\n") && output !== "") this.#violate("I4 the output does not end with a line end");
    this.#checkMultiset(book, lines);
    this.#checkCounts(summary, lines);
    this.#checkReopened(book);
    for (const line of lines) this.#checkLine(book, line);
    this.#checkMoney(book, summary);
    if (book.run.isOrdered) this.#checkOrder(book, lines);
  }

  /** When all runs are over. */
  all(endMs: number): void {
    this.#checkRates();
    this.#checkBlame();
    if (this.#workload.flex !== undefined) this.#checkTier();
    else if (this.#workload.features.size > 0) this.#checkPace(endMs);
  }

  #violate(what: string): void {
    this.#observer.violate(what);
  }

  /** I1: exactly one line per key, and one per line without key. */
  #checkMultiset({ run, lines: input, goneKeys }: RunBook, lines: readonly OutputLine[]): void {
    const nameOf = (key: string | null, line: number | undefined): string =>
      key === null ? `line ${line}` : `key ${key}`;
    const { isStream, slaMinutes } = run;
    const accepted = isStream && slaMinutes !== undefined ? lines.length : Number.POSITIVE_INFINITY;
    const expected = input
      .filter(({ kind }) => kind !== "blank")
      .slice(0, accepted) // a stream ends with its sla: what it had not given by then is not accepted
      .map(({ key, line }) => nameOf(key, line))
      .concat(goneKeys.map((key) => nameOf(key, undefined)))
      .sort();
    const found = lines.map(({ key, line }) => nameOf(key, line)).sort();
    if (JSON.stringify(expected) === JSON.stringify(found)) return;
    const missing = expected.filter((name) => !found.includes(name));
    const extra = found.filter((name, index) => !expected.includes(name) || found.indexOf(name) !== index);
    this.#violate(`I1 missing: ${missing.join(", ")}; extra: ${extra.join(", ")}`);
  }

  /** I2: counts are those of the lines. */
  #checkCounts(summary: Summary, lines: readonly OutputLine[]): void {
    const { completed, failed, expired, cancelled, submitted } = summary.counts;
    const answered = lines.filter(({ output }) => output !== null).length;
    const late = lines.filter(({ error }) => error?.code === "expired").length;
    const counts = [summary.items, completed, failed, expired, cancelled, submitted];
    const recount = [lines.length, answered, lines.length - answered - late, late, 0, 0];
    if (JSON.stringify(counts) !== JSON.stringify(recount))
      this.#violate(`I2 counts ${counts.join()} but lines say ${recount.join()}`);
  }

  /** I0 and I3: the text is the line's own; who fails had a reason. */
  #checkLine(book: RunBook, { key, output, error, finish_reason }: OutputLine): void {
    const id = key === null ? undefined : book.lineOfKey.get(key);
    const line = id === undefined ? undefined : this.#lines.get(id);
    if (line === undefined || line.kind !== "item") {
      if (output !== null) this.#violate(`I3 a bad line was answered: ${key}`);
      return;
    }
    const served = this.#servedOf(line);
    if (output !== null) {
      if (output.text !== answerOf(line.id)) this.#violate(`I3 wrong text for line ${line.id}`);
      const isCut = served.some(({ what }) => what === "cut_answer");
      if ((finish_reason === "length") !== isCut) this.#violate(`I3 wrong finish of line ${line.id}`);
      return;
    }
    if (error === undefined) this.#violate(`I3 line ${line.id} has neither output nor error`);
    else if (!this.#hasReason(book, line, error))
      this.#violate(`I0 line ${line.id} failed: ${JSON.stringify(error)}`);
  }

  #servedOf(line: SimulatedLine): readonly Served[] {
    return this.#observer.servedOf(line.id);
  }

  #hasReason(book: RunBook, line: SimulatedLine, error: NonNullable<OutputLine["error"]>): boolean {
    const { slaMinutes } = book.run;
    const served = this.#servedOf(line);
    const finals = served.filter(isFinal);
    const ends = served.filter((one) => one.isDelivered || isFinal(one)); // a cheaper tier's refusal ends an item, or is asked again
    if (ends.some(({ what }) => CODES[what]?.includes(error.code))) return true;
    if (finals.some((one) => !this.#observer.lost.has(one))) return false; // what was reported is its end
    if (error.code === "expired") return slaMinutes !== undefined;
    if (error.code === "budget_exceeded") return this.#isSpent(book, line, book.capsAtEnd(line.id));
    const empties = served.filter(({ what }) => what === "empty").length;
    const isAtMostOnce = this.#workload.config.delivery === "at_most_once";
    if (empties > (isAtMostOnce ? 0 : 1) && error.code === "empty_output") return true;
    if (isAtMostOnce && error.code === "ambiguous")
      return this.#observer.doubtsOf(line.id) > 0 || served.some(isDoubtful);
    if (this.#isHeldEnd(book, line, error.code)) return true;
    return isUsedUp(blamedFailures(served, this.#providers.servedTo(line.model)));
  }

  /** Under `finish`, what is held ends with its reason; what has a proof of its own does not. */
  #isHeldEnd(book: RunBook, line: SimulatedLine, code: string): boolean {
    if (!book.isFinishing) return false;
    const endMs = this.#observer.durable.get(line.id)?.atMs ?? Number.POSITIVE_INFINITY;
    const { served } = this.#providers;
    return isHeldEnd({ run: book.run, line, code, endMs, served, hasDied: this.#observer.deaths > 0 });
  }

  /** I10: what all runs of a shared cap say together is not above it. */
  sharedCap(summaries: readonly Summary[]): void {
    const { calledUsd: usd = Number.POSITIVE_INFINITY } = this.#observer.sharedCap ?? {};
    const told = summaries.reduce((sum, { cost }) => sum + cost.billed_usd + cost.ambiguous_usd, 0);
    if (told > usd + 1e-6) this.#violate(`I10 ${told} USD are reported by all runs, their cap is ${usd}`);
  }

  /** I16: what was opened again has ended again. */
  #checkReopened(book: RunBook): void {
    const left = [...book.reopened].find((id) => {
      const line = this.#lines.get(id);
      return line?.kind === "item" && book.lines.includes(line) && !this.#observer.isSettled(id);
    });
    if (left !== undefined) this.#violate(`I16 line ${left} was to be asked again, and was not`);
  }

  /** I0, late side: what fails by itself while others are answered ends after its attempts. */
  #checkBlame(): void {
    const { windows } = this.#providers;
    if (windows.length > 0 || this.#workload.troubles.length > 0) return;
    for (const line of this.#workload.lines) {
      const late = overBlamed(this.#servedOf(line), this.#providers.servedTo(line.model), isUsedUp);
      if (late !== undefined)
        this.#violate(`I0 line ${line.id} was sent at ${late.atMs} although its attempts were used up`);
    }
  }

  /** I17: a run has stopped because of what holds it. */
  paused(book: RunBook, summary: Summary, nowMs: number): void {
    const left = book.lines.filter(({ id, kind }) => kind === "item" && !this.#observer.isSettled(id));
    const providers = new Set(left.map(({ provider }) => provider));
    const { served } = this.#providers;
    const excusedMs = this.#observer.excusedMs(providers);
    const wrong = wrongPause({
      book,
      summary,
      nowMs,
      served,
      providers,
      excusedMs,
      isLeft: (id) => !this.#observer.isSettled(id),
      fromMs: this.#observer.freeFromMs(book),
    });
    if (wrong !== undefined) this.#violate(`I17 ${wrong}`);
  }

  /** I10, late side: a run that its cap has stopped has no money for any of what it has left. */
  stoppedByCap(book: RunBook, nowMs: number): void {
    const caps = book.capsAt(nowMs);
    const isLeft = ({ id, kind }: SimulatedLine): boolean => kind === "item" && !this.#observer.isSettled(id);
    const paid = book.lines.filter(isLeft).find((line) => !this.#isSpent(book, line, caps));
    if (paid !== undefined) this.#violate(`I10 its cap stopped a run that has money for line ${paid.id}`);
  }

  /** Whether a cap of the run left no room for one more request for the line at that time. */
  #isSpent(book: RunBook, line: SimulatedLine, caps: CapsAt | undefined): boolean {
    if (caps === undefined) return false;
    const { atMs, capUsd, sharedUsd } = caps;
    const most = worstUsdOf(line);
    if (most + this.#sentUsdOf(book, atMs) > capUsd) return true;
    const members = book.sharedCap?.members ?? [];
    return most + members.reduce((sum, member) => sum + this.#sentUsdOf(member, atMs), 0) > sharedUsd;
  }

  /** All that was sent for a run until then, at the most that it may have cost. */
  #sentUsdOf({ run }: RunBook, untilMs: number): number {
    let usd = 0;
    for (const one of this.#providers.served)
      if (one.line.run === run.index && one.atMs <= untilMs) usd += one.worstUsd;
    for (const one of this.#workload.lines) {
      if (one.run !== run.index) continue;
      const doubts = this.#observer.doubtsOf(one.id);
      if (doubts > 0) usd += doubts * worstUsdOf(one);
    }
    return usd;
  }

  /** I8: no sliding minute above the limit, over all processes and boots, for any jumps of the wall clock. */
  #checkRates(): void {
    for (const provider of this.#workload.providers) {
      const limit = this.#workload.config.limits?.[provider]?.requestsPerMinute;
      if (limit === undefined) continue;
      const sent = this.#providers.served.filter((one) => one.provider === provider).map((one) => one.atMs);
      for (let index = limit; index < sent.length; index += 1) {
        const spanMs = (sent[index] ?? 0) - (sent[index - limit] ?? 0);
        if (spanMs >= WINDOW_MS - ARRIVAL_MS) continue;
        this.#violate(`I8 ${provider}: ${limit + 1} requests within ${spanMs} ms, limit ${limit} a minute`);
        break;
      }
    }
  }

  /** I8, late side: where nothing goes wrong, limits are the only thing that is waited for. */
  #checkPace(endMs: number): void {
    const { runs } = this.#workload;
    if (!this.#isCalm()) return;
    const needMs = this.#needMs();
    const startMs = Math.max(...runs.map((run) => run.startMs));
    const lateMs = endMs - startMs - this.#observer.pausedMs - needMs * 1.2 - 10_000;
    if (lateMs > 0)
      this.#violate(`I8 the runs took ${lateMs} ms longer than their limits and places ask for`);
  }

  /** I18: where only the cheaper tier goes wrong, it makes nothing late, and is left neither too early nor too late. */
  #checkTier(): void {
    const wrong = wrongTier({
      books: this.#observer.books,
      served: this.#providers.served,
      endOf: (id) => this.#observer.durable.get(id),
      needMs: this.#isCalm() ? this.#needMs() : undefined,
    });
    for (const what of wrong) this.#violate(`I18 ${what}`);
  }

  /** Whether nothing goes wrong but what a cheaper tier does. */
  #isCalm(): boolean {
    const { runs, troubles } = this.#workload;
    const { served, windows } = this.#providers;
    const isPlain = runs.every(
      (run) => run.maxCostUsd === undefined && !run.isCapShared && !run.isStream && run.again.length === 0,
    );
    const isHarmless = (one: Served): boolean =>
      FINAL.has(one.what) || isOfTier(one) || one.what === "error_in_tier";
    const isQuiet = troubles.length === 0 && windows.length === 0 && this.#observer.deaths === 0;
    return isPlain && isQuiet && served.every(isHarmless);
  }

  /** Milliseconds that all lines take in realtime, one provider beside the other. */
  #needMs(): number {
    const { lines, latencyMs, commitMs, diskLatencyMs, config, providers } = this.#workload;
    let needMs = 0;
    for (const provider of providers) {
      const own = lines.filter((line) => line.provider === provider);
      const places = Math.min(config.limits?.[provider]?.concurrency ?? 1e9, config.maxInFlight ?? 1e9);
      const rate = config.limits?.[provider]?.requestsPerMinute ?? Number.POSITIVE_INFINITY;
      const slow = own.filter(({ ending }) => ending === "slow_answer").length;
      const itemMs = 1.5 * latencyMs + 3 * commitMs + 8 * diskLatencyMs;
      const placesMs = (own.length * itemMs + slow * 20_000) / places + 20_000;
      needMs = Math.max(needMs, placesMs + (own.length / rate) * WINDOW_MS * 1.05);
    }
    return needMs;
  }

  /** I10: usage and money are those of the book; a cap is never overshot. */
  #checkMoney(book: RunBook, summary: Summary): void {
    const { index } = book.run;
    const served = this.#providers.served.filter((one) => one.line.run === index);
    const billedUsd = sumUsdOf(served);
    const told = served.filter((one) => one.tellsUsage && one.isDelivered && !this.#observer.lost.has(one));
    const { usage, cost } = summary;
    const mostUsd = cost.billed_usd + cost.ambiguous_usd;
    if (billedUsd > mostUsd + 1e-6)
      this.#violate(`I10 ${billedUsd} USD were billed, at most ${mostUsd} are reported`);
    const { capUsd = Number.POSITIVE_INFINITY } = book;
    if (mostUsd > capUsd + 1e-6) this.#violate(`I10 ${mostUsd} USD are reported, the cap is ${capUsd}`);
    const isTold = served.every((one) => one.tellsUsage);
    if (isTold && cost.billed_usd > billedUsd + 1e-6)
      this.#violate(`I10 ${cost.billed_usd} USD are reported as billed, the book has ${billedUsd}`);
    if (this.#observer.deaths > 0) return;
    const inputTokens = told.reduce((sum, one) => sum + one.inputTokens, 0);
    const outputTokens = told.reduce((sum, one) => sum + one.outputTokens, 0);
    const attempts = served.filter((one) => !isShed(one)).length;
    if (usage.attempts !== attempts)
      this.#violate(`I10 ${usage.attempts} attempts told, ${attempts} were made`);
    if (usage.input_tokens !== inputTokens || usage.output_tokens !== outputTokens)
      this.#violate(
        `I10 usage ${usage.input_tokens}+${usage.output_tokens}, book ${inputTokens}+${outputTokens}`,
      );
    const listUsd = told.reduce((sum, one) => sum + listUsdOf(one), 0);
    if (Math.abs(cost.list_usd - listUsd) > 1e-6) this.#violate(`I10 cost ${cost.list_usd}, book ${listUsd}`);
    if (Math.abs(cost.billed_usd - sumUsdOf(told)) > 1e-6)
      this.#violate(`I10 ${cost.billed_usd} USD billed by what answers say, book ${sumUsdOf(told)}`);
  }

  #checkOrder(book: RunBook, lines: readonly OutputLine[]): void {
    const numberOf = (key: string | null): number =>
      book.goneKeys.includes(key ?? "") // they are after all others
        ? Number.POSITIVE_INFINITY
        : (this.#lines.get(book.lineOfKey.get(key ?? "") ?? 0)?.line ?? 0);
    const numbers = lines.map(({ key, line }) => line ?? numberOf(key));
    if (numbers.some((number, index) => number < (numbers[index - 1] ?? 0)))
      this.#violate("I1 the output is not in the order of the input");
  }
}

/** It may have been processed. */
function isDoubtful({ what, isCut }: Served): boolean {
  return isCut || !FREE.has(what);
}

/** Whether failures that count are all that an item may have. */
function isUsedUp(blamed: readonly Served[]): boolean {
  return blamed.length >= ATTEMPTS_MAX || blamed.filter(isDoubtful).length > AMBIGUOUS_MAX;
}

/** The most that one request for a line can cost. */
function worstUsdOf({ text }: SimulatedLine): number {
  const tokens = Number(/"max_output_tokens":(\d+)/.exec(text)?.[1]);
  return (text.length * INPUT_USD + tokens * OUTPUT_USD) / 1e6;
}

function sumUsdOf(served: readonly Served[]): number {
  return served.reduce((sum, one) => sum + usdOf(one), 0);
}
