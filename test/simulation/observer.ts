/**
 * Watches a simulated run and says which laws it breaks (I1 to I14; docs of each at its check).
 */
import type { Clock } from "../../src/clock.ts";
import type { Step } from "../../src/engine/journal.ts";
import type { Progress, Summary } from "../../src/engine/progress.ts";
import { answerOf, type Served, type SimulatedProviders } from "./provider.ts";
import { INPUT_USD, OUTPUT_USD, PROVIDERS, type SimulatedLine, type Workload } from "./workload.ts";

const WINDOW_MS = 60_000;
/** How much later than it left a request may be counted by a provider. */
const ARRIVAL_MS = 250;
const ATTEMPTS_MAX = 8;
const FINAL = new Set(["answer", "slow_answer", "cut_answer", "filtered", "bad_request", "too_long"]);
const FREE = new Set(["rate_limited", "unavailable", "overloaded", "not_sent", "quota", "down"]);
const CODES: Readonly<Record<string, readonly string[]>> = {
  filtered: ["filtered"],
  bad_request: ["invalid_request"],
  too_long: ["context_length_exceeded", "request_too_large"],
};

interface OutputLine {
  readonly key: string | null;
  readonly line?: number;
  readonly output: { readonly text: string; readonly finish_reason?: string } | null;
  readonly error?: { readonly code: string; readonly attempts: number; readonly line?: number };
}

export class Observer {
  readonly violations: string[] = [];
  readonly trace: string[] = [];
  readonly #workload: Workload;
  readonly #clock: Clock;
  readonly #providers: SimulatedProviders;
  /** Lines whose outcome was said to be durable while a process lived. */
  readonly #durable = new Set<number>();
  /** Lines of an output that a kill left behind. */
  readonly #leftBehind = new Set<number>();
  readonly #lineOfKey = new Map<string, number>();
  /** Answers that died with their process before they were recorded. */
  readonly #lost = new Set<Served>();
  /** How often a line was open when its process died. */
  readonly #doubts = new Map<number, number>();
  readonly #servedOf = new Map<number, Served[]>();
  #deaths = 0;
  #processStartedMs = 0;
  #settledBefore = 0;
  #storeFullMs = Number.NEGATIVE_INFINITY;

  constructor(workload: Workload, clock: Clock, providers: SimulatedProviders) {
    this.#workload = workload;
    this.#clock = clock;
    this.#providers = providers;
    for (const { key, line } of workload.lines) if (key !== null) this.#lineOfKey.set(key, line);
  }

  violate(what: string): void {
    this.violations.push(what);
    this.note(`VIOLATION ${what}`);
  }

  note(what: string): void {
    if (what.startsWith("trouble disk_full") || what.startsWith("trouble store_full"))
      this.#storeFullMs = this.#clock.nowMs();
    this.trace.push(`${this.#clock.nowMs().toFixed(3)} ${what}`);
  }

  processStarted(): void {
    this.#processStartedMs = this.#clock.nowMs();
    this.#settledBefore = 0;
    this.note("run begins");
  }

  sent(served: Served): void {
    const { line } = served;
    this.note(`send ${line} ${served.what}`);
    if (this.#durable.has(line)) this.violate(`I5 line ${line} was sent after its outcome was durable`);
    if (this.#leftBehind.has(line))
      this.violate(`I5 line ${line} was sent although its output line was there`);
    const before = this.#servedOf.get(line) ?? [];
    for (const one of before) {
      if (FINAL.has(one.what) && one.isDelivered && !this.#lost.has(one))
        this.violate(`I5/I6 line ${line} was sent again after "${one.what}" had arrived`);
    }
    this.#servedOf.set(line, [...before, served]);
    const tries = [...before, served].filter(({ what }) => what !== "quota").length; // a probe of the account is no try
    if (tries > ATTEMPTS_MAX) this.violate(`I7 line ${line} was sent ${tries} times`);
    this.#checkConcurrency(served);
  }

  /** A durable step, live (0) or replayed. */
  step(sequence: number, step: Step): void {
    if (sequence !== 0) return;
    for (const { line, status } of step.outcomes) {
      if (this.#durable.has(line)) this.violate(`I11 line ${line} was settled twice`);
      this.#durable.add(line);
      this.note(`durable ${line} ${status}`);
      if (status === "expired") this.#checkDeadline(line);
    }
  }

  /** `answers` is what a killed process had written, undefined when it may be lost. */
  processDied(answers: string | undefined): void {
    this.#deaths += 1;
    this.note("process died");
    let open = 0;
    for (const { line } of this.#workload.lines) {
      if (this.#durable.has(line)) continue;
      this.#doubts.set(line, (this.#doubts.get(line) ?? 0) + 1);
      const last = this.#servedOf.get(line)?.at(-1);
      if (last === undefined) continue;
      if (!last.isOver || (last.isDelivered && FINAL.has(last.what) && !this.#lost.has(last))) open += 1;
      if (last.isDelivered) this.#lost.add(last);
      last.isOver = true;
    }
    const most = PROVIDERS.length * (this.#workload.config.maxInFlight ?? 512);
    if (open > most) this.violate(`I5 ${open} answers were in doubt at a kill, at most ${most} may be`);
    if (answers === undefined) return;
    for (const { key } of this.#parse(answers)) {
      const line = key === null ? undefined : this.#lineOfKey.get(key);
      if (line !== undefined) this.#leftBehind.add(line);
    }
  }

  /** A run stopped; what was still in flight is in doubt. */
  stopped(reason: string | undefined): void {
    this.note(`stopped ${reason}`);
    for (const [line, served] of this.#servedOf) {
      if (served.every(({ isOver }) => isOver) || this.#durable.has(line)) continue;
      this.#doubts.set(line, (this.#doubts.get(line) ?? 0) + 1);
    }
  }

  polled(progress: Progress, answers: string): void {
    this.#parse(answers);
    if (progress.settled < this.#settledBefore) this.violate("I11 the count of settled lines fell");
    this.#settledBefore = progress.settled;
  }

  finished(summary: Summary, output: string): void {
    this.note(`finished ${JSON.stringify(summary.counts)} ${JSON.stringify(summary.errors)}`);
    this.note(output);
    const lines = this.#parse(output);
    if (!output.endsWith("\n") && output !== "") this.violate("I4 the output does not end with a line end");
    this.#checkMultiset(lines);
    this.#checkCounts(summary, lines);
    for (const line of lines) this.#checkLine(line);
    this.#checkRates();
    this.#checkMoney(summary);
    if (this.#workload.isOrdered) this.#checkOrder(lines);
  }

  /** I4: every whole line is JSON. */
  #parse(text: string): OutputLine[] {
    const whole = text.slice(0, text.lastIndexOf("\n") + 1);
    return whole.split("\n").flatMap((line) => {
      if (line === "") return [];
      try {
        return [JSON.parse(line) as OutputLine];
      } catch {
        this.violate(`I4 a line of the output is not JSON: ${JSON.stringify(line.slice(0, 80))}`);
        return [];
      }
    });
  }

  /** I1: exactly one line per key, and one per line without key. */
  #checkMultiset(lines: readonly OutputLine[]): void {
    const nameOf = (key: string | null, line: number | undefined): string =>
      key === null ? `line ${line}` : `key ${key}`;
    const { isStream, slaMinutes } = this.#workload;
    const accepted = isStream && slaMinutes !== undefined ? lines.length : Number.POSITIVE_INFINITY;
    const expected = this.#workload.lines
      .filter(({ kind }) => kind !== "blank")
      .slice(0, accepted) // a stream ends with its sla: what it had not given by then is not accepted
      .map(({ key, line }) => nameOf(key, line))
      .sort();
    const found = lines.map(({ key, line }) => nameOf(key, line)).sort();
    if (JSON.stringify(expected) === JSON.stringify(found)) return;
    const missing = expected.filter((name) => !found.includes(name));
    const extra = found.filter((name, index) => !expected.includes(name) || found.indexOf(name) !== index);
    this.violate(`I1 missing: ${missing.join(", ")}; extra: ${extra.join(", ")}`);
  }

  /** I2: counts are those of the lines. */
  #checkCounts(summary: Summary, lines: readonly OutputLine[]): void {
    const { completed, failed, expired, cancelled, submitted } = summary.counts;
    const answered = lines.filter(({ output }) => output !== null).length;
    const late = lines.filter(({ error }) => error?.code === "expired").length;
    const counts = [summary.items, completed, failed, expired, cancelled, submitted];
    const recount = [lines.length, answered, lines.length - answered - late, late, 0, 0];
    if (JSON.stringify(counts) !== JSON.stringify(recount))
      this.violate(`I2 counts ${counts.join()} but lines say ${recount.join()}`);
  }

  /** I0 and I3: the text is the line's own; who fails had a reason. */
  #checkLine({ key, output, error }: OutputLine): void {
    const number = key === null ? undefined : this.#lineOfKey.get(key);
    const line = this.#workload.lines[(number ?? 0) - 1];
    if (line === undefined || line.kind !== "item") {
      if (output !== null) this.violate(`I3 a bad line was answered: ${key}`);
      return;
    }
    if (output !== null) {
      if (output.text !== answerOf(line.line)) this.violate(`I3 wrong text for line ${line.line}`);
      const isCut = this.#servedOf.get(line.line)?.some(({ what }) => what === "cut_answer") === true;
      if ((output.finish_reason === "length") !== isCut) this.violate(`I3 wrong finish of line ${line.line}`);
      return;
    }
    if (error === undefined) this.violate(`I3 line ${line.line} has neither output nor error`);
    else if (!this.#hasReason(line, error))
      this.violate(`I0 line ${line.line} failed: ${JSON.stringify(error)}`);
  }

  #hasReason(line: SimulatedLine, error: NonNullable<OutputLine["error"]>): boolean {
    const { slaMinutes, maxCostUsd, config } = this.#workload;
    if (error.code === "expired") return slaMinutes !== undefined;
    if (error.code === "budget_exceeded") return maxCostUsd !== undefined;
    const served = this.#servedOf.get(line.line) ?? [];
    const last = served.at(-1);
    if (last !== undefined && CODES[last.what]?.includes(error.code) === true) return true;
    const doubts = this.#doubts.get(line.line) ?? 0;
    const ambiguous = served.filter(
      (one) => !FREE.has(one.what) && !(FINAL.has(one.what) && one.isDelivered),
    );
    if (ambiguous.length + doubts > (config.delivery === "at_most_once" ? 0 : 2)) return true;
    if (served.filter(({ what }) => what === "empty").length > 1) return true;
    if (slaMinutes !== undefined) return served.length > 0; // no time was left for one more attempt
    return served.length + doubts >= ATTEMPTS_MAX;
  }

  /** I8: no sliding minute above the limit, over all processes and boots, whatever the wall clock does. */
  #checkRates(): void {
    for (const provider of PROVIDERS) {
      const limit = this.#workload.config.limits?.[provider]?.requestsPerMinute;
      if (limit === undefined) continue;
      const sent = this.#providers.served.filter((one) => one.provider === provider).map((one) => one.atMs);
      for (let index = limit; index < sent.length; index += 1) {
        const spanMs = (sent[index] ?? 0) - (sent[index - limit] ?? 0);
        if (spanMs >= WINDOW_MS - ARRIVAL_MS) continue;
        this.violate(`I8 ${provider}: ${limit + 1} requests within ${spanMs} ms, limit ${limit} a minute`);
        break;
      }
    }
  }

  #checkConcurrency(served: Served): void {
    const { limits, maxInFlight } = this.#workload.config;
    const most = Math.min(limits?.[served.provider]?.concurrency ?? 1e9, maxInFlight ?? 1e9);
    const open = this.#providers.served.filter(
      (one) => one.provider === served.provider && !one.isOver,
    ).length;
    if (open > most) this.violate(`I8 ${served.provider}: ${open} in flight, at most ${most}`);
  }

  /** I10: usage and money are those of the book; a cap is never overshot. */
  #checkMoney(summary: Summary): void {
    const { maxCostUsd } = this.#workload;
    const billedUsd = this.#providers.billedUsd();
    if (maxCostUsd !== undefined && billedUsd > maxCostUsd + 1e-9)
      this.violate(`I10 ${billedUsd} USD were billed, the cap was ${maxCostUsd}`);
    if (this.#deaths > 0) return;
    const told = this.#providers.served.filter((one) => one.tellsUsage && one.isDelivered);
    const inputTokens = told.reduce((sum, one) => sum + one.inputTokens, 0);
    const outputTokens = told.reduce((sum, one) => sum + one.outputTokens, 0);
    const listUsd = (inputTokens * INPUT_USD + outputTokens * OUTPUT_USD) / 1e6;
    const { usage, cost } = summary;
    if (usage.attempts !== this.#providers.served.length)
      this.violate(`I10 ${usage.attempts} attempts told, ${this.#providers.served.length} were made`);
    if (usage.input_tokens !== inputTokens || usage.output_tokens !== outputTokens)
      this.violate(
        `I10 usage ${usage.input_tokens}+${usage.output_tokens}, book ${inputTokens}+${outputTokens}`,
      );
    if (Math.abs(cost.list_usd - listUsd) > 1e-6) this.violate(`I10 cost ${cost.list_usd}, book ${listUsd}`);
  }

  #checkOrder(lines: readonly OutputLine[]): void {
    const numbers = lines.map(({ key, line }) => line ?? this.#lineOfKey.get(key ?? "") ?? 0);
    if (numbers.some((number, index) => number < (numbers[index - 1] ?? 0)))
      this.violate("I1 the output is not in the order of the input");
  }

  /** I14: an expired line is settled within a second after the sla, or after the start of the process that finds it. */
  #checkDeadline(line: number): void {
    const { slaMinutes } = this.#workload;
    if (slaMinutes === undefined) return;
    const nowMs = this.#clock.nowMs();
    const dueMs = Math.max(slaMinutes * 60_000, this.#processStartedMs);
    const isExcused = nowMs - this.#storeFullMs < 100_000;
    if (nowMs > dueMs + 1_000 && !isExcused)
      this.violate(`I14 line ${line} expired ${nowMs - dueMs} ms after its sla`);
  }
}
