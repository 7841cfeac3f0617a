/**
 * Opens posted work: restores lane limits from the work log, and parks the tasks that an earlier process has left open.
 *
 *   log read -> limits count what the last minute sent, and continue their waits -> open tasks parked
 */
import type { WorkLog } from "../../log/work_log.ts";
import type { EngineCore } from "../core.ts";
import { PacedCalls } from "../journal/paced_calls.ts";
import { countSent } from "../lanes/earlier_lanes.ts";
import type { Lanes } from "../lanes/lanes.ts";
import { PostedLog } from "./posted_log.ts";
import { type PostedListeners, PostedWork } from "./posted_work.ts";

/** Options of the caller that opens posted work. */
export interface PostedOptions extends PostedListeners {
  /** The log of the engine's store; its owner closes it, after the work. */
  readonly workLog: WorkLog;
}

/** Facts of lanes in the log, by their numbers. */
const COOLDOWN = 1;
const RAMP = 2;
/** Its value is the index of the reason in the list. */
const PAUSE = 3;
/** Its value is how long the lane has been in trouble. */
const TROUBLE = 4;
/** Append only, never reorder; 0 is a lane that is not paused. */
const PAUSE_REASONS = ["", "quota", "authentication", "model_unavailable"];

/** For one engine. `restores`: lanes go on as the log says, which is for the start and for once. */
export function openPosted(
  core: EngineCore,
  { workLog: log, ...listeners }: PostedOptions,
  restores: boolean,
): PostedWork {
  const { committer, observer, failures } = core.recording;
  const { clock, room } = core.storage;
  const { lanes } = core.sending;
  if (restores) restoreLanes(log, lanes, clock.nowMs());
  const held = new HeldLanes(log, lanes);
  const posted = new PostedLog({
    ...{ log, clock, room, onFailure: (error) => failures.tell(error) },
    calls: new PacedCalls(clock),
    onCommitted: (durationMs) => {
      observer?.committed(durationMs);
      committer.checkSpace();
      held.record();
    },
  });
  return new PostedWork(core, posted, listeners);
}

/** Counts what was sent in the last minute, and holds lanes back that were held back. */
function restoreLanes(log: WorkLog, lanes: Lanes, nowMs: number): void {
  const facts = [...log.facts()].sort((left, right) => right.fact - left.fact); // troubles first, because waits last as long as they do
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

/** Records in the log which lanes are held back, when that has changed. */
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
      const isGrowing = key.startsWith(`${TROUBLE} `); // its age grows by itself
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
    this.#log.learn(this.#log.number(key.slice(2)), fact, value, 0).catch(() => undefined); // the next change writes it
  }
}
