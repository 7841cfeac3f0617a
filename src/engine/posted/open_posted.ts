/**
 * Opens what is posted: the records of it in the work log, and the tasks that an earlier process has left open.
 *
 *   log read -> limits count what the last minute sent, and wait on where they had to -> open tasks parked
 */
import type { WorkLog } from "../../log/work_log.ts";
import type { EngineCore } from "../core.ts";
import { PacedCalls } from "../journal/paced_calls.ts";
import { countSent } from "../lanes/earlier_lanes.ts";
import type { Lanes } from "../lanes/lanes.ts";
import { PostedLog } from "./posted_log.ts";
import { type PostedListeners, PostedWork } from "./posted_work.ts";

/** What whoever opens it brings. */
export interface PostedOptions extends PostedListeners {
  /** Of the engine's store; stays its owner's to close, after the work. */
  readonly workLog: WorkLog;
}

/** Facts of lanes in the log, by their numbers. */
const COOLDOWN = 1;
const RAMP = 2;
/** Its value is the place of the reason in the list. */
const PAUSE = 3;
/** Its value is for how long the lane has been in trouble. */
const TROUBLE = 4;
/** Append only, never reorder; 0 is a lane that is not paused. */
const PAUSE_REASONS = ["", "quota", "authentication", "model_unavailable"];

/** For one engine. */
export function openPosted(core: EngineCore, { workLog: log, ...listeners }: PostedOptions): PostedWork {
  const { recorder, observer, failures } = core.recording;
  const { clock, room } = core.storage;
  const { lanes } = core.sending;
  restoreLanes(log, lanes, clock.nowMs());
  const held = new HeldLanes(log, lanes);
  const posted = new PostedLog({
    ...{ log, clock, room, onFailure: (error) => failures.tell(error) },
    calls: new PacedCalls(clock),
    onCommitted: (durationMs) => {
      observer?.committed(durationMs);
      recorder.checkSpace();
      held.record();
    },
  });
  return new PostedWork(core, posted, listeners);
}

/** Counts what was sent lately, and holds back what was held back. */
function restoreLanes(log: WorkLog, lanes: Lanes, nowMs: number): void {
  const facts = [...log.facts()].sort((left, right) => right.fact - left.fact); // troubles first: waits last as long as they do
  for (const { lane, fact, value, ageMs } of facts) {
    const key = log.text(lane);
    if (key === undefined || value === 0) continue;
    const pauseReason = fact === PAUSE ? PAUSE_REASONS[value] : undefined;
    lanes.goOn(
      {
        lane: key,
        cooldownMs: fact === COOLDOWN ? value : 0,
        ...(fact === RAMP ? { rampTokensPerMinute: value } : {}),
        ...(pauseReason === undefined ? {} : { pauseReason }),
        ...(fact === TROUBLE ? { troubleMs: value } : {}),
      },
      ageMs,
    );
  }
  const sent = log.recentlySent().flatMap(({ lane: number, ...load }) => {
    const lane = log.text(number);
    return lane === undefined ? [] : [{ ...load, lane }];
  });
  countSent(lanes, sent, nowMs);
}

/** Tells the log which lanes are held back, when that has changed. */
class HeldLanes {
  readonly #log: WorkLog;
  readonly #lanes: Lanes;
  #told = new Map<string, number>();

  constructor(log: WorkLog, lanes: Lanes) {
    this.#log = log;
    this.#lanes = lanes;
    for (const { lane, fact, value } of log.facts())
      if ((fact === PAUSE || fact === TROUBLE) && value > 0)
        this.#told.set(`${fact} ${log.text(lane) ?? ""}`, value);
  }

  record(): void {
    const now = new Map<string, number>();
    for (const { lane, cooldownMs, rampTokensPerMinute, pauseReason, troubleMs } of this.#lanes.records()) {
      if (cooldownMs > 0) now.set(`${COOLDOWN} ${lane}`, cooldownMs);
      if (rampTokensPerMinute !== undefined) now.set(`${RAMP} ${lane}`, rampTokensPerMinute);
      if (pauseReason !== undefined) now.set(`${PAUSE} ${lane}`, PAUSE_REASONS.indexOf(pauseReason));
      if (troubleMs !== undefined) now.set(`${TROUBLE} ${lane}`, troubleMs);
    }
    if (now.size === 0 && this.#told.size === 0) return;
    for (const [key, value] of now) {
      const told = this.#told.get(key);
      const isGrowing = key.startsWith(`${TROUBLE} `); // as it ages by itself
      const isOld =
        told === undefined ||
        (!isGrowing && (key.startsWith(`${COOLDOWN} `) ? value > told : value !== told));
      if (isOld) this.#learn(key, value);
    }
    for (const key of this.#told.keys()) if (!now.has(key)) this.#learn(key, 0);
    this.#told = now;
  }

  #learn(key: string, value: number): void {
    const fact = Number(key[0]);
    this.#log.learn(this.#log.number(key.slice(2)), fact, value, 0).catch(() => undefined); // with the next change, then
  }
}
