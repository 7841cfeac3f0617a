/**
 * The partitions of this process, each with a service of its own.
 *
 *   opening -> open -> finishing calls -> draining -> closing -> released
 *           -> barred for 30 s     (it could not be opened; another worker may)
 *           -> released            (another worker was faster)
 *   open -> draining               (this worker leaves: it does not finish calls)
 *   open, finishing calls, draining -> closing      (it was taken over, or its store failed)
 *
 * Finishing calls and draining are both the state "draining". In both it answers and accepts requests; only new calls of OpenAI's clients, which wait
 * for answers, are for the next owner. While it finishes calls, it goes on sending until those it has accepted have begun to be answered, for up to
 * 20 s. Then it sends nothing new to providers, refuses calls that are not in flight, and waits for what is in flight: 60 s when it is released for
 * another worker, 7 s when this worker leaves.
 *
 * A closing partition gets no new requests. Clients that wait get their tasks as they are, in at most 1 s, then its service has 5 s to close, and 8 s from
 * the beginning of the drain when this worker leaves. Then its store is closed in any case, in at most 1 s, which frees the partition: for its next owner,
 * what was in flight is unanswered. Answers that are still under way are broken off, and its files have 1 s to close. Where the store has failed, nothing
 * more can be recorded: its service has 1 s, so that this worker may take the partition again soon.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../clock.ts";
import { hasCode } from "../errors.ts";
import { until } from "../polled.ts";
import type { Handover, PerigeeService } from "../service/perigee_service.ts";
import type { SpacedStore } from "../store/threaded_store.ts";
import { BROKEN_OFF } from "./hops/hops.ts";
import { inTime } from "./in_time.ts";
import type { OwnState } from "./placement.ts";
import { type Handler, type LocalServices, refuse } from "./router.ts";

/** A partition that was opened. */
export interface OpenedPartition {
  readonly service: Pick<PerigeeService, "handler" | "failed" | "close">;
  readonly handover: Handover;
  readonly store: Pick<SpacedStore, "close">;
  /** After the service. */
  closeFiles(): Promise<void>;
}

export interface OwnedPartitionsOptions {
  readonly clock: Clock;
  /** Takes the partition and opens its service. Rejects with `data_dir_in_use` when another worker has it. */
  readonly open: (part: number) => Promise<OpenedPartition>;
  readonly onNotice: (message: string) => void;
  /** Called when a partition was opened, released, or could not be opened. */
  readonly onChange: () => void;
}

const BARRED_MS = 30_000;
/** How long requests in flight may hold up a worker that waits for the partition. */
const DRAIN_MS = 60_000;
/** How long it goes on sending for calls that wait, before that. */
const CALLS_MS = 20_000;
const LEAVING_DRAIN_MS = 7_000;
const REQUESTS_MS = 1_000;
const CLOSE_MS = 5_000;
const CLOSE_MS_MIN = 500;
const FAILED_CLOSE_MS = 1_000;
/** From when this worker begins to leave until its services must be closed. */
const LEAVING_MS = 8_000;
/** With the ones above, the partitions of a leaving worker are released within 9.5 s: their leases are given back, or end. */
const STORE_MS = 1_000;
/** The partition is free by then: only this process closes them. */
const FILES_MS = 1_000;
/** Calls that wait for their answers: nothing would send them before the partition has its next owner. */
const CALL = /^\/v1\/(chat\/completions|completions|embeddings|responses)\/?(\?|$)/;

interface OwnPartition {
  state: "opening" | "open" | "draining" | "closing";
  opened?: OpenedPartition;
  /** Ends the drain. */
  readonly cut: AbortController;
  /** Answers that are under way. */
  readonly responses: Set<ServerResponse>;
  /** Those of calls. */
  readonly calls: Set<ServerResponse>;
  /** Its store has failed, or another worker has taken it over. */
  isLost: boolean;
  readonly handler: Handler;
  done: Promise<void>;
}

export class OwnedPartitions implements LocalServices {
  readonly #options: OwnedPartitionsOptions;
  /** The oldest first. */
  readonly #owned = new Map<number, OwnPartition>();
  /** Times until which a partition is not tried again. */
  readonly #barredUntilMs = new Map<number, number>();
  /** Since when this worker leaves. */
  #leavingMs: number | undefined;

  constructor(options: OwnedPartitionsOptions) {
    this.#options = options;
  }

  get state(): Pick<OwnState, "kept" | "closing" | "barred"> {
    const nowMs = this.#options.clock.nowMs();
    const all = [...this.#owned];
    return {
      kept: all.filter(([, { state }]) => !isEnding(state)).map(([part]) => part),
      closing: all.filter(([, { state }]) => isEnding(state)).map(([part]) => part),
      barred: new Set([...this.#barredUntilMs].filter(([, ms]) => ms > nowMs).map(([part]) => part)),
    };
  }

  get first(): number | undefined {
    const answering = [...this.#owned].filter(([, { state }]) => state === "open" || state === "draining");
    return (answering.find(([, { state }]) => state === "open") ?? answering[0])?.[0];
  }

  handlerOf(part: number, request: IncomingMessage): Handler | undefined {
    const owned = this.#owned.get(part);
    if (owned?.state === "draining") return isCall(request) ? undefined : owned.handler;
    return owned?.state === "open" ? owned.handler : undefined;
  }

  isDraining(part: number): boolean {
    return this.#owned.get(part)?.state === "draining";
  }

  /** Takes a partition; resolves when it is open, or could not be opened. Never rejects. */
  take(part: number): Promise<void> {
    if (this.#owned.has(part)) return Promise.resolve();
    const cut = new AbortController();
    const owned: OwnPartition = {
      ...{ state: "opening", isLost: false, done: Promise.resolve(), cut },
      ...{ responses: new Set(), calls: new Set() },
      handler: (request, response) => this.#handle(owned, request, response),
    };
    this.#owned.set(part, owned);
    owned.done = this.#open(part, owned);
    return owned.done;
  }

  /** Releases a partition when it has drained; resolves when another worker may take it. Never rejects. */
  release(part: number): Promise<void> {
    const owned = this.#owned.get(part);
    if (owned === undefined) return Promise.resolve();
    if (owned.state === "open") {
      owned.state = "draining";
      owned.done = this.#release(part, owned);
    }
    return owned.state === "opening" ? owned.done.then(() => this.release(part)) : owned.done;
  }

  /** Releases all partitions because this worker leaves. Never rejects. */
  async releaseAll(): Promise<void> {
    const { clock } = this.#options;
    this.#leavingMs ??= clock.nowMs();
    const timer = clock.timer(LEAVING_DRAIN_MS, () => {
      for (const { cut } of this.#owned.values()) cut.abort();
    });
    await Promise.all([...this.#owned.keys()].map((part) => this.release(part)));
    timer.cancel();
  }

  async #open(part: number, owned: OwnPartition): Promise<void> {
    const { clock, open, onNotice, onChange } = this.#options;
    const startedMs = clock.nowMs();
    try {
      owned.opened = await open(part);
      owned.state = "open";
      onNotice(`partition ${part} is open, after ${Math.round(clock.nowMs() - startedMs)} ms`);
      void owned.opened.service.failed.then((error) => {
        owned.isLost = true;
        owned.cut.abort();
        onNotice(`partition ${part} is given up: ${error.message}`);
        return this.release(part);
      });
    } catch (error) {
      this.#owned.delete(part);
      if (!hasCode(error, "data_dir_in_use")) {
        this.#barredUntilMs.set(part, clock.nowMs() + BARRED_MS);
        onNotice(`partition ${part} cannot be opened: ${messageOf(error)}`);
      }
    }
    onChange();
  }

  #handle(owned: OwnPartition, request: IncomingMessage, response: ServerResponse): void {
    if (response.destroyed) return; // its `close` was emitted before: nothing would remove it
    owned.responses.add(response);
    if (isCall(request)) owned.calls.add(response);
    response.once("close", () => {
      owned.responses.delete(response);
      owned.calls.delete(response);
    });
    owned.opened?.service.handler(request, response);
  }

  async #release(part: number, owned: OwnPartition): Promise<void> {
    const { onNotice, onChange } = this.#options;
    const opened = owned.opened as OpenedPartition; // it was open
    if (!owned.isLost) {
      onNotice(`partition ${part} is draining`);
      if (this.#leavingMs === undefined) await this.#callsAnswered(owned);
      await this.#drain(part, owned, opened);
    }
    const isCut = owned.cut.signal.aborted && !owned.isLost;
    owned.state = "closing";
    await this.#close(part, owned, opened);
    this.#owned.delete(part);
    onNotice(`partition ${part} is given back${isCut ? ", with requests in flight" : ""}`);
    onChange();
  }

  /** Never rejects: the partition is for another worker in any case. */
  async #drain(part: number, { cut }: OwnPartition, { handover }: OpenedPartition): Promise<void> {
    const { clock, onNotice } = this.#options;
    const timer = clock.timer(DRAIN_MS, () => cut.abort());
    try {
      await handover.drained(cut.signal);
    } catch (error) {
      onNotice(`partition ${part} did not drain: ${messageOf(error)}`);
    }
    timer.cancel();
  }

  /** Resolves when the calls that wait have begun to be answered, after 20 s, or when this worker leaves. */
  async #callsAnswered({ calls, cut }: OwnPartition): Promise<void> {
    const { clock } = this.#options;
    const endMs = clock.nowMs() + CALLS_MS;
    const isOver = (): boolean => this.#leavingMs !== undefined || clock.nowMs() >= endMs;
    await until(clock, () => isOver() || [...calls].every(({ headersSent }) => headersSent), cut.signal);
  }

  async #close(part: number, owned: OwnPartition, opened: OpenedPartition): Promise<void> {
    const { clock, onNotice } = this.#options;
    await this.#ended(REQUESTS_MS, () => opened.handover.release()); // which takes no time, but may throw
    if (!owned.isLost) await inTime(clock, REQUESTS_MS, answered(owned.responses));
    const isClosed = await this.#ended(this.#closeMs(owned), () => opened.service.close());
    await this.#ended(STORE_MS, () => opened.store.close()); // a second call where the service has closed it
    for (const response of owned.responses) breakOff(response);
    if (isClosed) await this.#ended(FILES_MS, () => opened.closeFiles());
    else onNotice(`the service of partition ${part} did not close in time`);
  }

  /** Whether the step was over in time, also by an error: the partition is released in any case. */
  async #ended(delayMs: number, step: () => unknown): Promise<boolean> {
    const isOver = (): true => true;
    const over = (async () => step())().then(isOver, isOver);
    return (await inTime(this.#options.clock, delayMs, over)) === true;
  }

  #closeMs({ isLost }: OwnPartition): number {
    if (isLost) return FAILED_CLOSE_MS;
    if (this.#leavingMs === undefined) return CLOSE_MS;
    return Math.max(CLOSE_MS_MIN, this.#leavingMs + LEAVING_MS - this.#options.clock.nowMs());
  }
}

/** Nobody answers it any more, and its client would wait for ever. */
function breakOff(response: ServerResponse): void {
  if (response.headersSent) response.destroy();
  else refuse(response, BROKEN_OFF);
}

function isEnding(state: OwnPartition["state"]): boolean {
  return state === "draining" || state === "closing";
}

function isCall({ method, url = "/" }: IncomingMessage): boolean {
  return method === "POST" && CALL.test(url);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function answered(responses: ReadonlySet<ServerResponse>): Promise<void> {
  await Promise.all(
    [...responses].map((response) => new Promise((resolve) => response.once("close", resolve))),
  );
}
