/**
 * The sender: between the lanes and the dispatcher. It makes calls, keeps limits and money settled, learns from every
 * attempt, pauses what must pause, and hands outcomes to be recorded.
 *
 *   lane admits -> send -> dispatcher -> attempted (each attempt) -> outcome  -> recorded -> place freed
 *                                                                 -> returned -> waits in its lane
 *
 * A place in flight is held from the intent to the end of a failed attempt, or to the staged outcome of an answered one.
 * Commits keep the order of staging, and a request leaves only after its intent is durable: so when it leaves, the
 * outcome that gave it its place is durable too, and the answers that a kill can lose are never more than the places
 * (docs/decisions/0009-commits.md).
 */
import type { Clock } from "../clock.ts";
import { addUsage } from "../dispatch/attempt.ts";
import type { Admission, AttemptResult, Dispatcher, DispatchResult } from "../dispatch/dispatcher.ts";
import { type FailureCode, PerigeeError } from "../errors.ts";
import { worstCaseUsd } from "../price/cost.ts";
import type { PriceBook } from "../price/price_book.ts";
import { type FamilySettings, familyOf, type LaneKey, laneKey, realtimeLane } from "../schedule/lanes.ts";
import { InputRatios, OutputLengths } from "../schedule/output_lengths.ts";
import type { Shard } from "../shard/shard.ts";
import { NO_USAGE, type Usage } from "../work/outcome.ts";
import { parseModelId } from "../work/request.ts";
import { signalOf, tokensTaken } from "./attempt_signal.ts";
import type { ShardTicket } from "./backlog.ts";
import { ItemCall } from "./item_call.ts";
import type { Lane } from "./lane.ts";
import type { EngineObserver } from "./observer.ts";
import type { AttemptsMade } from "./recover.ts";
import type { RunState } from "./run_state.ts";
import { endMessage, RunStopped } from "./run_stopped.ts";
import { costOfUsage, settleOutcome, settleUnsent, spentWith } from "./settle.ts";
import type { Wires } from "./wires.ts";

/** Models that have a lane by their family; all further ones of a provider share one lane, so that memory is bounded. */
const MODELS_MAX = 1_000;
const CROWD_FAMILY = "other";

/** Authentication failures in a row that stop a provider. */
const AUTHENTICATION_FAILURES_MAX = 3;

export interface SenderOptions {
  readonly clock: Clock;
  readonly wires: Wires;
  readonly prices: PriceBook;
  readonly families: FamilySettings;
  /** Ambiguous attempts that may be repeated. */
  readonly ambiguousMax: number;
  readonly laneOf: (key: LaneKey) => Lane;
  /** Called when a lane has a place again, and a run money. */
  readonly onFree: (lane: Lane) => void;
  /** Called when something may have ended: a run, a pause, a wait for money. */
  readonly onChange: (run: RunState) => void;
  readonly observer?: EngineObserver | undefined;
}

/** Where a model's requests go. */
export interface ModelLane {
  readonly provider: string;
  readonly family: string;
  readonly key: LaneKey;
}

/** One for an engine; `dispatcher` is set once, right after construction, because the two know each other. */
export class Sender implements Admission<ItemCall> {
  dispatcher: Dispatcher<ItemCall> | undefined;
  readonly #options: SenderOptions;
  readonly #outputLengths = new OutputLengths();
  readonly #inputRatios = new InputRatios();
  readonly #laneOfModel = new Map<string, ModelLane>();
  readonly #stoppedModels = new Map<string, string>();
  readonly #authenticationFailures = new Map<LaneKey, number>();
  readonly #answeredLanes = new Set<LaneKey>();

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** The lane of a model, `<provider>:<name>`. */
  laneFor(model: string): ModelLane {
    const known = this.#laneOfModel.get(model);
    if (known !== undefined) return known;
    const { provider = "", name = "" } = parseModelId(model) ?? {};
    const isCrowded = this.#laneOfModel.size >= MODELS_MAX;
    const family = isCrowded ? CROWD_FAMILY : familyOf(provider, name, this.#options.families);
    const found = { provider, family, key: laneKey(realtimeLane(provider, family)) };
    if (!isCrowded) this.#laneOfModel.set(model, found);
    return found;
  }

  /** Output tokens that the items of a shard are expected to take together. */
  expectedOutputTokens(shard: Shard): number {
    const limit = Math.ceil(shard.maxOutputTokensTotal / shard.count);
    return shard.count * this.expectedOutputTokensOf(shard.model, limit);
  }

  /** Output tokens that one item is expected to take; `maxOutputTokens` is its own limit, 0 for none. */
  expectedOutputTokensOf(model: string, maxOutputTokens: number): number {
    return this.#outputLengths.expect(model, maxOutputTokens);
  }

  /** Output tokens of a mean answer; 0 before any is known. */
  meanOutputTokensOf(model: string): number {
    return this.#outputLengths.mean(model) ?? 0;
  }

  /** Whether a lane has ever been answered with success in this process. */
  hasAnswered(key: LaneKey): boolean {
    return this.#answeredLanes.has(key);
  }

  prepare(ticket: ShardTicket, index: number): ItemCall | undefined {
    const { run, shard } = ticket;
    const wire = this.#options.wires.of(shard.model);
    const ratio = this.#inputRatios.ratio(shard.model, shard.group.isEstimated);
    const call = new ItemCall(run, shard, index, wire, {
      inputTokens: Math.ceil((shard.inputTokens[index] ?? 0) * ratio),
      outputTokens: this.expectedOutputTokensOf(shard.model, shard.maxOutputTokens[index] ?? 0),
    });
    if (!run.isOpen || run.settings.done.has(call.line) || run.claimed.has(call.line)) {
      run.waitingItems = Math.max(0, run.waitingItems - 1);
      return undefined; // its run was ended while the shard came here, and what it had left is ended with it
    }
    const refusal = this.#refusalOf(call);
    if (refusal === undefined) return call;
    run.waitingItems -= 1;
    run.claimed.add(call.line);
    this.refuse(call, refusal.code, refusal.message);
    return undefined;
  }

  refuseUnwanted(call: ItemCall): boolean {
    const message = this.#stoppedModels.get(call.model);
    if (message === undefined && !call.isSkipped) return false;
    call.run.waitingItems -= 1;
    call.run.claimed.add(call.line);
    if (call.isSkipped) this.#end(call, "cancelled");
    else this.refuse(call, "model_not_found", message ?? "");
    return true;
  }

  refuse(call: ItemCall, code: FailureCode, message: string): void {
    settleUnsent(call.run, call.line, call.keyJson, { status: "failed", code, message }, () =>
      this.#options.onChange(call.run),
    );
  }

  reserveMoney(call: ItemCall): "ok" | "wait" | "exhausted" | "unpriced" {
    const { budget } = call.run.settings;
    if (budget === undefined || call.reservation !== undefined) return "ok";
    const worstUsd = this.#worstCaseUsd(call);
    if (worstUsd === undefined) return "unpriced";
    const reserved = budget.reserve(worstUsd);
    if (!reserved.ok) return reserved.reason;
    call.reservation = reserved.reservation;
    return "ok";
  }

  returnMoney(call: ItemCall): void {
    this.#settleMoney(call, 0);
  }

  send(call: ItemCall): void {
    call.run.requestsSent += 1;
    if (this.dispatcher === undefined) throw new Error("the sender has no dispatcher");
    this.dispatcher.run(call).then(
      (result) => this.#ended(call, result),
      (error: unknown) => {
        call.run.claimed.delete(call.line); // in doubt: nobody knows how far it came
        this.#free(call, this.#options.laneOf(this.laneFor(call.model).key));
        call.run.fail(faultOf(error));
      },
    );
  }

  /** The run of a call left before it was sent; the item waits for the next time. */
  giveUp(call: ItemCall): void {
    const { attempts, ambiguousAttempts } = call;
    const unsent = { attempts, ambiguousAttempts, usage: NO_USAGE, message: "" };
    this.#ended(call, { kind: "returned", reason: "stopped", ...unsent });
  }

  /** Admission: a retry passes limits, money and the journal again. */
  admit(
    call: ItemCall,
    made: { readonly attempts: number; readonly ambiguousAttempts: number },
  ): Promise<void> {
    const { run } = call;
    if (!run.isOpen || call.isSkipped) return Promise.reject(new RunStopped());
    const lane = this.#options.laneOf(this.laneFor(call.model).key);
    const attempt = made.attempts + call.accountRefusals + 1;
    const admitted = lane.admitAgain(call, attempt, made.ambiguousAttempts);
    this.#options.onChange(run); // it may wait in a lane that is stopped now
    return admitted.then(() => {
      run.requestsSent += 1;
    });
  }

  /** Admission: after each attempt, before any retry. */
  attempted(call: ItemCall, result: AttemptResult): void {
    const nowMs = this.#options.clock.nowMs();
    const key = this.laneFor(call.model).key;
    const lane = this.#options.laneOf(key);
    const { permit } = call;
    this.#options.observer?.attempted({
      project: call.run.settings.project,
      lane: key,
      model: call.model,
      code: result.code,
      usage: result.usage,
      latencyMs: result.latencyMs,
    });
    if (permit !== undefined) lane.limits.settle(nowMs, permit, tokensTaken(result));
    lane.limits.observe(nowMs, signalOf(result));
    if (result.learnt !== undefined) lane.limits.learn(nowMs, result.learnt);
    this.#settleMoney(call, this.#spentUsd(call, result));
    if (result.class === "success") {
      this.#answeredLanes.add(key);
      this.#authenticationFailures.delete(key);
      this.#learnLengths(call, lane, result);
      return;
    }
    if (result.class !== "permanent") this.#close(call, result);
    this.#pauseFor(call, key, lane, result);
    this.#free(call, lane);
  }

  /** Says that an attempt is over: a crash while its item waits for the next one leaves nothing in doubt. */
  #close(call: ItemCall, result: AttemptResult): void {
    const { attempts, ambiguousAttempts, usage } = call.failed ?? {
      attempts: call.attempts,
      ambiguousAttempts: call.ambiguousAttempts,
      usage: NO_USAGE,
    };
    call.failed = {
      attempts: attempts + 1,
      ambiguousAttempts: ambiguousAttempts + (result.class === "ambiguous" ? 1 : 0),
      usage: result.usage === undefined ? usage : addUsage(usage, result.usage),
    };
    if (call.run.phase !== "done") this.#recordClosed(call, call.failed);
  }

  #recordClosed(
    call: ItemCall,
    made: { readonly attempts: number; readonly ambiguousAttempts: number; readonly usage: Usage },
    accountRefusals: number = call.accountRefusals,
  ): AttemptsMade {
    const { ambiguousAttempts, usage } = made;
    const attempts = made.attempts + call.accountRefusals;
    const { prices, clock } = this.#options;
    const spent = spentWith(call, usage, costOfUsage(prices, call, usage, clock.wallMs()));
    const counts = { attempts, ambiguousAttempts, accountRefusals };
    call.run.settings.log.closed({ ...spent, ...counts, line: call.line });
    return { ...counts, isInDoubt: false, spent };
  }

  /** Why an item must not be sent at all. */
  #refusalOf(call: ItemCall): { readonly code: FailureCode; readonly message: string } | undefined {
    const stopped = this.#stoppedModels.get(call.model);
    if (stopped !== undefined) return { code: "model_not_found", message: stopped };
    const made = call.run.made.size === 0 ? undefined : call.run.made.get(call.line);
    if (made === undefined || !made.isInDoubt || made.ambiguousAttempts <= this.#options.ambiguousMax)
      return undefined;
    return {
      code: "ambiguous",
      message: "its request was under way when the process ended, and may have been answered and billed",
    };
  }

  #ended(call: ItemCall, result: DispatchResult): void {
    const { run } = call;
    const lane = this.#options.laneOf(this.laneFor(call.model).key);
    if (run.phase === "done") {
      this.#free(call, lane); // it came after its run had stopped waiting: in doubt, as after a crash
      return;
    }
    if (result.kind === "outcome") {
      const { outcome } = result;
      const cost = costOfUsage(this.#options.prices, call, outcome.usage, this.#options.clock.wallMs());
      settleOutcome(call, outcome, cost, () => this.#options.onChange(run));
      this.#free(call, lane); // behind its outcome: who gets the place is recorded after it, and sent after that
      return;
    }
    this.#free(call, lane);
    this.#keep(call, lane, result);
    this.#options.onChange(run);
  }

  /** An item that came back without an outcome: kept for later, or ended with its run. */
  #keep(call: ItemCall, lane: Lane, made: Extract<DispatchResult, { kind: "returned" }>): void {
    const { run, line } = call;
    const isAccountStop = made.reason !== "stopped" && lane.limits.isPaused;
    const refusals = call.accountRefusals + (isAccountStop ? 1 : 0);
    // Its intent is durable: without a record of its end the next call would take it for sent, and perhaps answered.
    const attempts = made.attempts + (call.isUnsent && run.phase === "stopping" ? 1 : 0);
    if (attempts + refusals > 0)
      run.made.set(line, this.#recordClosed(call, { ...made, attempts }, refusals));
    const status = run.isOpen && call.isSkipped ? "cancelled" : run.phase;
    if (status === "expired" || status === "cancelled") {
      this.#end(call, status);
      return;
    }
    run.claimed.delete(line);
    if (!run.isOpen) return;
    run.waitingItems += 1;
    lane.giveBack(
      new ItemCall(run, call.shard, call.index, call, {
        inputTokens: call.expectedInputTokens,
        outputTokens: call.expectedOutputTokens,
      }),
    );
  }

  /** Ends an item that is not sent, or not again. */
  #end(call: ItemCall, status: "expired" | "cancelled"): void {
    const end = { status, code: status, message: endMessage(status) };
    settleUnsent(call.run, call.line, call.keyJson, end, () => this.#options.onChange(call.run));
  }

  #free(call: ItemCall, lane: Lane): void {
    if (call.permit === undefined) return;
    lane.release(call, call.permit);
    call.permit = undefined;
    call.run.inFlight -= 1;
    this.#options.onFree(lane);
  }

  #learnLengths(call: ItemCall, lane: Lane, { usage, latencyMs }: AttemptResult): void {
    lane.answered(latencyMs);
    if (usage === undefined || usage.isEstimated) return;
    const moreInput = Math.max(0, usage.inputTokens - call.expectedInputTokens);
    const moreOutput = Math.max(0, usage.outputTokens - call.expectedOutputTokens);
    if (moreInput + moreOutput > 0) call.run.settings.log.sentMore(lane.key, moreInput, moreOutput);
    this.#outputLengths.observe(call.model, usage.outputTokens);
    this.#inputRatios.observe(call.model, call.inputTokens, usage.inputTokens);
  }

  #pauseFor(call: ItemCall, key: LaneKey, lane: Lane, result: AttemptResult): void {
    if (result.class !== "permanent") return;
    const nowMs = this.#options.clock.nowMs();
    if (result.scope === "model") this.#stoppedModels.set(call.model, result.message);
    if (result.scope !== "provider") return;
    if (result.code !== "authentication_failed") {
      lane.limits.pause(nowMs, "quota");
      return;
    }
    const failures = (this.#authenticationFailures.get(key) ?? 0) + 1;
    this.#authenticationFailures.set(key, failures);
    if (failures >= AUTHENTICATION_FAILURES_MAX) lane.limits.pause(nowMs, "authentication");
  }

  /** An upper bound for one attempt; undefined when the model has no known price. */
  #worstCaseUsd(call: ItemCall): number | undefined {
    const id = parseModelId(call.model);
    const price = id === undefined ? undefined : this.#options.prices.price(id, this.#options.clock.wallMs());
    const slack = call.shard.group.isEstimated ? 1.5 : 1;
    const inputTokens = Math.ceil(call.inputTokens * slack) + 16;
    return price === undefined
      ? undefined
      : worstCaseUsd({ inputTokens, maxOutputTokens: call.maxOutputTokens }, price);
  }

  /** Money that an attempt may have taken: the whole reservation where nobody can know. */
  #spentUsd(call: ItemCall, result: AttemptResult): number {
    if (call.reservation === undefined) return 0;
    const { usage } = result;
    if (usage !== undefined && (usage.inputTokens > 0 || usage.outputTokens > 0)) {
      const { prices, clock } = this.#options;
      return costOfUsage(prices, call, usage, clock.wallMs(), result.servedTier).providerUsd;
    }
    return result.class === "ambiguous" || result.class === "success" ? call.reservation.usd : 0;
  }

  #settleMoney(call: ItemCall, usd: number): void {
    if (call.reservation === undefined) return;
    call.run.settings.budget?.settle(call.reservation, usd);
    call.reservation = undefined;
  }
}

/** What a fault of ours in the middle of a call means for its run. */
function faultOf(error: unknown): PerigeeError {
  if (error instanceof PerigeeError) return error;
  return new PerigeeError("internal_error", "a fault of perigee ended the run; please report it", {
    cause: error,
  });
}
