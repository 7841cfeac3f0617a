/**
 * Watches a simulated run while it goes on and says which laws it breaks (I4 to I14; each is said at its check). What can
 * only be said at the end is in laws.ts. Each law has two sides: too early is as wrong as too late.
 */
import type { Clock } from "../../src/clock.ts";
import type { Progress } from "../../src/engine/items/progress.ts";
import type { Step } from "../../src/engine/journal/journal.ts";
import { isFinal, type Served, type SimulatedProviders, usdOf } from "./provider.ts";
import { newSharedCap, type OutputLine, RunBook, type SharedCap, sinceReopened } from "./run_book.ts";
import type { SimulatedLine, Workload } from "./workload.ts";

/** Deadlines are wall times in whole milliseconds: never early, and up to 2 ms late, and 1 more for each boot (docs/decisions/0019-clocks.md). */
const DEADLINE_LATE_MS = 2;
/** For how long the commits of one trouble may find the store or the disk full. */
const FULL_MS = 100_000;
/** How long the engine may send nothing to a provider for which items wait and that nothing keeps it from. */
const IDLE_MS_MAX = 130_000;
/** What a request may take from its admission to the wire on top of commits and disks. */
const LEAVING_MS = 10;

/** What a run has written; looked at only where it may have changed. */
export interface Answers {
  /** Equal for as long as the text is; undefined where nothing is known of it. */
  readonly version: string | undefined;
  text(): string;
}

export class Observer {
  readonly violations: string[] = [];
  readonly trace: string[] = [];
  readonly books: readonly RunBook[];
  readonly sharedCap: SharedCap | undefined;
  /** Lines, by their ids, whose outcome was said to be durable while a process lived, and when. */
  readonly durable = new Map<number, { readonly status: string; readonly atMs: number }>();
  /** Answers that died with their process before they were recorded. */
  readonly lost = new Set<Served>();
  /** Requests of lines that were opened again since. */
  readonly replaced = new Set<Served>();
  deaths = 0;
  /** How long callers have not called a run again that had stopped. */
  pausedMs = 0;
  /** The provider without which the engine was configured. */
  missing: string | undefined;
  /** How often a line was open when its process died. */
  readonly #openDeaths = new Map<number, number>();
  readonly #workload: Workload;
  readonly #clock: Clock;
  readonly #providers: SimulatedProviders;
  /** Lines, by their ids, of which a step said that they are about to be sent. */
  readonly #intended = new Set<number>();
  /** Lines, by their ids, that some step has settled, those that were replayed included. */
  readonly #settled = new Set<number>();
  readonly #open = new Map<string, Served[]>();
  /** The last request to each provider. */
  readonly #lastOf = new Map<string, Served>();
  /** Of each lane, until when a 429 keeps its process from sending. */
  readonly #waits = new Map<
    string,
    { readonly process: number; readonly sinceMs: number; untilMs: number }
  >();
  /** Of each provider, until when it may have asked for a wait. */
  readonly #excusedMs = new Map<string, number>();
  #processStartedMs = 0;
  #fullUntilMs = Number.NEGATIVE_INFINITY;
  #hasRoomSinceMs = 0;
  #isFull = false;
  #hasJumped = false;
  #isCalendarLost = false;

  constructor(workload: Workload, clock: Clock, providers: SimulatedProviders) {
    this.#workload = workload;
    this.#clock = clock;
    this.#providers = providers;
    const { sharedCapUsd, runs } = workload;
    this.sharedCap = sharedCapUsd === undefined ? undefined : newSharedCap(sharedCapUsd);
    this.books = runs.map((run) => new RunBook(run, run.isCapShared ? this.sharedCap : undefined));
  }

  /** A finished run is about to be called again, so that these lines are open. */
  reopened(book: RunBook, ids: readonly number[]): void {
    for (const id of ids) {
      book.reopen(id);
      this.durable.delete(id);
      this.#settled.delete(id);
      for (const one of this.#providers.servedOf.get(id) ?? []) this.replaced.add(one);
    }
    book.windowFromMs = this.#clock.nowMs();
    book.acceptedMs = undefined;
    book.answers = "";
    this.note(`run ${book.run.index} is called again for ${ids.join()}`);
  }

  /** Requests for a line since it was opened for the last time. */
  servedOf(id: number): readonly Served[] {
    return sinceReopened(this.#providers.servedOf.get(id), this.replaced);
  }

  /** How often nobody could know whether it had been sent: it was about to be, as its journal says, when its process died. */
  doubtsOf(id: number): number {
    return this.#intended.has(id) ? (this.#openDeaths.get(id) ?? 0) : 0;
  }

  /** When a run was called, or its disk had room again, whichever was later. */
  freeFromMs({ calledMs }: RunBook): number {
    return this.#isFull ? this.#clock.nowMs() : Math.max(calledMs, this.#hasRoomSinceMs);
  }

  /** Until when some of these providers may have asked for a wait. */
  excusedMs(providers: ReadonlySet<string>): number {
    return Math.max(0, ...[...providers].map((provider) => this.#excusedMs.get(provider) ?? 0));
  }

  /** Whether some step has settled the line. */
  isSettled(id: number): boolean {
    return this.#settled.has(id);
  }

  violate(what: string): void {
    this.violations.push(what);
    this.note(`VIOLATION ${what}`);
  }

  note(what: string): void {
    this.trace.push(`${this.#clock.nowMs().toFixed(3)} ${what}`);
  }

  /** Requests of a line that may be under way when another one leaves. */
  get #besideMax(): number {
    return this.#workload.config.hedge === true ? 1 : 0;
  }

  /** A disk has no room from now on, or has it again. */
  room(hasRoom: boolean): void {
    this.#isFull = !hasRoom;
    if (hasRoom) this.#hasRoomSinceMs = this.#clock.nowMs();
    else this.#fullUntilMs = Math.max(this.#clock.nowMs(), this.#fullUntilMs) + FULL_MS; // one after the other
  }

  /** The wall clock was moved; after another boot nothing on the machine tells by how much, and deadlines go by it. */
  wallJumped(): void {
    this.#hasJumped = true;
    for (const book of this.books) book.wallJumped();
  }

  runCalled(book: RunBook): void {
    book.called(this.#clock.nowMs());
    this.#processStartedMs = this.#clock.nowMs();
    this.note(`run ${book.run.index} begins`);
  }

  sent(served: Served): void {
    const { line, model, provider } = served;
    const { id } = line;
    this.note(`send ${id} ${served.what}${served.isInTier ? " (flex)" : ""}`);
    const book = this.books[line.run] as RunBook;
    served.call = book.calls;
    if (this.durable.has(id)) this.violate(`I5 line ${id} was sent after its outcome was durable`);
    if (book.leftBehind.has(id)) this.violate(`I5 line ${id} was sent although its output line was there`);
    let underWay = 0;
    for (const one of this.servedOf(id)) {
      if (one === served) continue;
      if (!one.isOver) underWay += 1;
      if (isFinal(one) && !this.lost.has(one))
        this.violate(`I5/I6 line ${id} was sent again after "${one.what}" had arrived`);
    }
    if (underWay > this.#besideMax)
      this.violate(`I6 line ${id} was sent while ${underWay} of its requests were under way`);
    if (provider === this.missing) this.violate(`I15 line ${id} was sent to ${provider}, which is missing`);
    this.#checkCap(book, served);
    this.#checkDeadlineOf(book, served);
    this.#checkWait(served, model);
    const open = (this.#open.get(provider) ?? []).filter(({ isOver }) => !isOver);
    open.push(served);
    this.#open.set(provider, open);
    this.#lastOf.set(provider, served);
    this.#checkConcurrency(provider, open.length);
  }

  /** A request has ended, in the eyes of a process that lives. */
  delivered(served: Served): void {
    const waitMs = Math.max(served.mayWaitMs, served.retryAfterMs ?? 0);
    const excusedMs = Math.max(this.#excusedMs.get(served.provider) ?? 0, this.#clock.nowMs() + waitMs);
    this.#excusedMs.set(served.provider, excusedMs);
    if (!served.isDelivered || (served.what !== "rate_limited" && served.what !== "throttled")) return;
    if (served.retryAfterMs === undefined) return;
    const nowMs = this.#clock.nowMs();
    const before = this.#waits.get(served.model);
    const untilMs = nowMs + served.retryAfterMs;
    if (before?.process === served.process && before.untilMs > nowMs)
      before.untilMs = Math.max(before.untilMs, untilMs);
    else this.#waits.set(served.model, { process: served.process, sinceMs: nowMs, untilMs });
  }

  /** I10: at no moment is more billed than the caps allow, what is under way included. */
  #checkCap(book: RunBook, served: Served): void {
    book.billedUsd += usdOf(served);
    const { sharedCap } = book;
    if (sharedCap !== undefined) {
      sharedCap.billedUsd += usdOf(served);
      if (sharedCap.billedUsd > sharedCap.calledUsd + 1e-9)
        this.violate(
          `I10 line ${served.line.id} makes it ${sharedCap.billedUsd} USD of all runs, their cap is ${sharedCap.calledUsd}`,
        );
    }
    const { billedUsd, capUsd = Number.POSITIVE_INFINITY } = book;
    if (billedUsd > capUsd + 1e-9)
      this.violate(`I10 line ${served.line.id} makes it ${billedUsd} USD, the cap is ${capUsd}`);
  }

  /** I8, early side: what a 429 tells to wait is waited for by all of its lane; what was on its way leaves all the same. */
  #checkWait(served: Served, model: string): void {
    const wait = this.#waits.get(model);
    const nowMs = this.#clock.nowMs();
    if (wait === undefined || wait.process !== served.process || nowMs >= wait.untilMs - 1) return;
    const { commitMs, diskLatencyMs } = this.#workload;
    const leavingMs = LEAVING_MS + 3 * commitMs + 8 * diskLatencyMs;
    if (nowMs <= wait.sinceMs + leavingMs || wait.sinceMs <= this.#hasRoomSinceMs + leavingMs || this.#isFull)
      return;
    this.violate(
      `I8 line ${served.line.id} was sent ${wait.untilMs - nowMs} ms before a Retry-After of ${model} was over`,
    );
  }

  /** A durable step, live (0) or replayed. */
  step(book: RunBook, sequence: number, step: Step): void {
    const idOf = (line: number): number => book.idAt(line) ?? -1; // a line of a key that is gone
    for (const { line } of step.intents) this.#intended.add(idOf(line));
    for (const id of step.outcomes.map(({ line }) => idOf(line))) {
      this.#settled.add(id);
      book.ended(id, this.#clock.nowMs(), sequence !== 0);
    }
    if (sequence !== 0) return;
    for (const { line, status } of step.outcomes) {
      const id = idOf(line);
      if (id < 0) continue;
      if (this.durable.has(id)) this.violate(`I11 line ${id} was settled twice`);
      this.durable.set(id, { status, atMs: this.#clock.nowMs() });
      this.note(`durable ${id} ${status}`);
      if (status === "expired") this.#checkExpired(book, id);
    }
  }

  /** `answers` is what a killed process had written, by runs, undefined when it may be lost. */
  processDied(answersOf: ((book: RunBook) => string) | undefined): void {
    this.deaths += 1;
    this.note("process died");
    let open = 0;
    for (const { id } of this.#workload.lines) {
      if (this.durable.has(id)) continue;
      this.#openDeaths.set(id, (this.#openDeaths.get(id) ?? 0) + 1);
      const last = this.servedOf(id).slice(-this.#besideMax - 1);
      for (const served of last) {
        if (!served.isOver || (isFinal(served) && !this.lost.has(served))) open += 1;
        if (served.isDelivered) this.lost.add(served);
        served.isOver = true;
      }
    }
    const most = this.#workload.providers.length * (this.#workload.config.maxInFlight ?? 512);
    if (open > most) this.violate(`I5 ${open} answers were in doubt at a kill, at most ${most} may be`);
    for (const book of this.books) {
      book.isAtWork = false;
      if (answersOf !== undefined)
        for (const id of this.#idsIn(book, answersOf(book))) book.leftBehind.add(id);
    }
  }

  /** What the cut has left: what an earlier kill had left behind it may have been nowhere but in memory. */
  powerCut(answersOf: (book: RunBook) => string): void {
    this.#isCalendarLost ||= this.#hasJumped;
    for (const book of this.books) {
      book.rebooted();
      const lines = answersOf(book).split("\n");
      const torn = lines.findIndex((line) => !isJson(line));
      const left = new Set(this.#idsIn(book, `${lines.slice(0, torn).join("\n")}\n`));
      for (const id of [...book.leftBehind]) if (!left.has(id)) book.leftBehind.delete(id);
    }
  }

  /** A run could not go on; the next process does. */
  failed(book: RunBook): void {
    book.isAtWork = false;
    this.note(`run ${book.run.index} failed`);
    this.deaths += 1;
    for (const { id } of book.lines) {
      if (this.durable.has(id)) continue;
      this.#openDeaths.set(id, (this.#openDeaths.get(id) ?? 0) + 1);
      for (const one of this.#providers.servedOf.get(id) ?? []) this.lost.add(one); // also what arrives after it
    }
  }

  /** I1: a run is over; of its lines only those are left that a stream had not given by the deadline. */
  completed(book: RunBook): void {
    book.isAtWork = false;
    const left = book.lines.find(({ id, kind }) => kind === "item" && !this.#settled.has(id));
    if (left === undefined || this.#isLost(book)) return;
    const { isStream, slaMinutes = Number.POSITIVE_INFINITY } = book.run;
    if (!isStream || this.#clock.nowMs() < book.windowFromMs + slaMinutes * 60_000)
      this.violate(`I1 run ${book.run.index} is over, and line ${left.id} is left`);
  }

  /** A run stopped; what was still in flight is in doubt. */
  stopped(book: RunBook, reason: string | undefined): void {
    book.isAtWork = false;
    this.note(`run ${book.run.index} stopped ${reason}`);
    for (const [id, served] of this.#providers.servedOf) {
      if (served[0]?.line.run !== book.run.index) continue;
      if (served.every(({ isOver }) => isOver) || this.durable.has(id)) continue;
      this.#openDeaths.set(id, (this.#openDeaths.get(id) ?? 0) + 1);
    }
  }

  /** I4 and I11: every whole line of the answers is JSON at any time, and what is settled stays so. */
  polled(book: RunBook, progress: () => Progress, answers: Answers): void {
    for (const provider of this.#workload.providers) this.#checkIdle(provider);
    if (answers.version === undefined || answers.version !== book.answersVersion) {
      const text = answers.text();
      const whole = text.slice(0, text.lastIndexOf("\n") + 1);
      this.parse(whole.startsWith(book.answers) ? whole.slice(book.answers.length) : whole);
      book.answers = whole;
      book.answersVersion = answers.version;
      const { settled } = progress();
      if (settled < book.settledBefore) this.violate("I11 the count of settled lines fell");
      book.settledBefore = settled;
    }
  }

  parse(text: string): OutputLine[] {
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

  #idsIn(book: RunBook, answers: string): number[] {
    return this.parse(answers).flatMap((line) => {
      const id = book.lineOfKey.get(line.key ?? "");
      return id === undefined || (!this.durable.has(id) && book.isToBeReplaced(id, line)) ? [] : id;
    });
  }

  #checkConcurrency(provider: string, open: number): void {
    const { limits, maxInFlight } = this.#workload.config;
    const most = Math.min(limits?.[provider]?.concurrency ?? 1e9, maxInFlight ?? 1e9);
    if (open > most) this.violate(`I8 ${provider}: ${open} in flight, at most ${most}`);
  }

  /** I8 and I13, late side: a provider for which items wait gets requests again as soon as its own troubles are over. */
  #checkIdle(provider: string): void {
    const nowMs = this.#clock.nowMs();
    if (this.#isFull || nowMs - Math.max(this.#processStartedMs, this.#hasRoomSinceMs) < IDLE_MS_MAX) return;
    const last = this.#lastOf.get(provider);
    if (last !== undefined && (!last.isOver || nowMs - (last.overAtMs ?? 0) < IDLE_MS_MAX)) return;
    const open = this.#open.get(provider) ?? [];
    if (open.some(({ isInTier, isOver }) => isInTier && !isOver)) return; // it may take 15 minutes, and others wait for its place
    if (nowMs - (this.#excusedMs.get(provider) ?? 0) < IDLE_MS_MAX) return;
    const window = this.#providers.windows.findLast((one) => one.window.provider === provider);
    if (window !== undefined && nowMs - window.untilMs < IDLE_MS_MAX) return;
    const isWaiting = ({ id, provider: own }: SimulatedLine): boolean =>
      own === provider && own !== this.missing && !this.#settled.has(id);
    const waiting = this.books
      .filter((book) => book.isAtWork && book.isUncapped)
      .flatMap(({ lines }) => lines.find(isWaiting) ?? [])[0];
    if (waiting === undefined) return;
    this.violate(`I13 line ${waiting.id} waits, and nothing was sent to ${provider} for ${IDLE_MS_MAX} ms`);
  }

  /** Whether its deadline cannot be checked, because it depends on a clock that jumped. */
  #isLost({ isCalendarLost }: RunBook): boolean {
    return isCalendarLost || this.#isCalendarLost;
  }

  /** I14: nothing is sent after its deadline, measured from when its run was accepted. */
  #checkDeadlineOf(book: RunBook, { line }: Served): void {
    const { slaMinutes } = book.run;
    if (slaMinutes === undefined || book.acceptedMs === undefined || this.#isLost(book)) return;
    const lateMs = this.#clock.nowMs() - book.acceptedMs - slaMinutes * 60_000;
    if (lateMs > DEADLINE_LATE_MS + this.deaths)
      this.violate(`I14 line ${line.id} was sent ${lateMs} ms after its deadline`);
  }

  /** I14: an expired line is settled within a second after the sla, or after the start of the process that finds it; not before. */
  #checkExpired(book: RunBook, id: number): void {
    const { slaMinutes } = book.run;
    if (slaMinutes === undefined || this.#isLost(book)) return;
    const nowMs = this.#clock.nowMs();
    if (nowMs < book.windowFromMs + slaMinutes * 60_000)
      this.violate(`I14 line ${id} expired before its sla was over`);
    const acceptedMs = book.acceptedMs ?? nowMs;
    const dueMs = Math.max(acceptedMs + slaMinutes * 60_000, this.#processStartedMs);
    const isExcused = this.#isFull || nowMs < this.#fullUntilMs;
    if (nowMs > dueMs + 1_000 && !isExcused)
      this.violate(`I14 line ${id} expired ${nowMs - dueMs} ms after its sla`);
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
