/**
 * A pilot: the first items of a run are answered, then the rest is quoted by what they took, and its caller decides.
 *
 *   first items read -> all ended -> the rest counted -> quoted -> reported -> on: recorded, and not asked again
 *                                                                      \-> not on: the run stops; the next call asks again
 *
 * They are items of the run like any others: what is answered stays, and counts as part of the pilot of a later call. A
 * stream is read to its end for the quote. Nothing of the rest is sent before the caller has decided; the sla continues.
 */
import type { KeptQuote, PlannedQuote } from "../../price/planned_quote.ts";
import type { MeasuredBlock } from "../../shard/measured.ts";
import { pickItems } from "../../shard/pick_items.ts";
import type { EngineCore } from "../core.ts";
import { encodeBody } from "../files/task_body.ts";
import type { RunState } from "../items/run_state.ts";
import type { QuoteRecords } from "../learnt/quote_records.ts";
import type { PilotListener, PilotOptions } from "./pilot_options.ts";
import { quoteRest } from "./quote.ts";
import type { OpenedRun } from "./run_open.ts";

type OpenRun = Extract<OpenedRun, { kind: "open" }>;

/** The pilot of one run. */
export class Pilot {
  readonly #core: EngineCore;
  readonly #opened: OpenRun;
  readonly #listener: PilotListener | undefined;
  readonly #stop: () => void;
  /** Items that are still to be read for it. */
  #left: number;

  private constructor(
    core: EngineCore,
    opened: OpenRun,
    { items, listener, stop }: { items: number; listener: PilotListener | undefined; stop: () => void },
  ) {
    this.#core = core;
    this.#opened = opened;
    this.#listener = listener;
    this.#stop = stop;
    this.#left = Math.max(0, items - opened.state.settings.totals.settled);
  }

  /** Undefined when the call does not want one, or a caller has let an earlier one go on. `stop` stops the run. */
  static of(
    core: EngineCore,
    opened: OpenRun,
    { pilot, onPilot }: PilotOptions,
    stop: () => void,
  ): Pilot | undefined {
    if (pilot === undefined || opened.body.isPiloted === true) return undefined;
    return new Pilot(core, opened, { items: pilot, listener: onPilot, stop });
  }

  /** Whether all its items were read. */
  get isFull(): boolean {
    return this.#left === 0;
  }

  /** The items of a block that belong to it, and lines before the last of them without items. */
  take(measured: MeasuredBlock): MeasuredBlock {
    const kept = Array.from({ length: Math.min(measured.count, this.#left) }, (_, item) => item);
    this.#left -= kept.length;
    if (kept.length === measured.count) return measured;
    const lastLine = measured.lines[kept.length - 1] as number;
    const rejected = measured.rejected.filter(({ line }) => line < lastLine);
    return { ...pickItems(measured, kept), rejected };
  }

  /** Resolves when its items have ended and the caller has the quote, with whether the run continues. */
  async decided(): Promise<boolean> {
    const { state, body, task, input } = this.#opened;
    await ended(state);
    if (!state.isOpen || state.failure !== undefined) return false;
    const { slaMinutes, model, volumeTokens } = body;
    const rest = await unlessLeft(
      quoteRest(this.#core, input.file, {
        volumeTokens,
        ...(model === undefined ? {} : { model }),
        ...(slaMinutes === undefined ? {} : { sla: slaMinutes }),
        answered: state.settings.totals.settled,
        rules: state.settings,
        schema: state.settings.measureOptions.schema,
        answersMax: state.settings.fit.answersMax,
        done: state.items.done,
        signal: state.left,
      }),
      state,
    );
    if (rest === undefined) return false;
    const isOn = rest.items === 0 || (await unlessLeft(this.#told(rest), state));
    if (isOn !== true || !state.isOpen) {
      if (isOn === false) this.#stop();
      return false;
    }
    const { room, store, clock } = this.#core.storage;
    const quoted = keptQuote(rest, state.settings.totals.billedUsd, this.#core.figures.quotes);
    state.quoted = { ...quoted, atMs: clock.nowMs() };
    const stored = { ...task, body: encodeBody({ ...body, isPiloted: true, quoted }) };
    await room
      .waitFor(() => store.putTask(stored), { signal: state.left })
      .catch((error: unknown) => {
        if (!state.left.aborted) throw error;
      });
    return state.isOpen;
  }

  async #told(rest: PlannedQuote): Promise<boolean> {
    return (await this.#listener?.(rest)) !== false;
  }
}

/** What is kept of the quote of the rest. */
function keptQuote(rest: PlannedQuote, beforeUsd: number, { cost, time }: QuoteRecords): KeptQuote {
  const { basis, finish, billed_usd: billedUsd, billed_usd_low: lowUsd, billed_usd_high: highUsd } = rest;
  const stretched = { cost: cost.stretch, time: time.stretch };
  return { basis, billedUsd, lowUsd, highUsd, beforeUsd, finish, stretched };
}

/** Resolves when nothing of a run waits or is under way, or it is left. */
async function ended(state: RunState): Promise<void> {
  state.isReading = false; // nothing is read meanwhile: what holds its items holds the run
  await new Promise<void>((resolve) => {
    const look = (): void => {
      if (state.items.isIdle || !state.isOpen || state.failure !== undefined) resolve();
    };
    state.watch(look);
    state.changed();
    look();
  });
  state.isReading = true;
}

/** As the promise; undefined when the run is left first. */
function unlessLeft<T>(work: Promise<T>, { left }: RunState): Promise<T | undefined> {
  if (left.aborted) {
    work.catch(() => undefined); // nobody waits for it
    return Promise.resolve(undefined);
  }
  return new Promise((resolve, reject) => {
    const onLeft = (): void => resolve(undefined);
    left.addEventListener("abort", onLeft, { once: true });
    work
      .then(resolve, (error: unknown) => (left.aborted ? resolve(undefined) : reject(error)))
      .finally(() => {
        left.removeEventListener("abort", onLeft);
      });
  });
}
