/**
 * The partitions of this process, each with a service of its own.
 *
 *   opening -> open -> closing -> released
 *           -> barred for 30 s     (it could not be opened; another worker may)
 *           -> released            (another worker was faster)
 *   open    -> closing             (it was taken over, or its store failed)
 *
 * A partition that closes gets no new requests. Those under way have 3 s, then its service has 5 s to close. Then its store is closed in any case,
 * in at most 1 s, which frees the partition: for its next owner, what was in flight is unanswered. Where the store has failed, nothing more can be
 * recorded: its service has 1 s, so that this worker may take the partition again soon.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../clock.ts";
import { hasCode } from "../errors.ts";
import type { PerigeeService } from "../service/perigee_service.ts";
import type { SpacedStore } from "../store/threaded_store.ts";
import { inTime } from "./in_time.ts";
import type { OwnState } from "./placement.ts";
import type { Handler, LocalServices } from "./router.ts";

/** A partition that was opened. */
export interface OpenedPartition {
  readonly service: Pick<PerigeeService, "handler" | "failed" | "close">;
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
const REQUESTS_MS = 3_000;
const CLOSE_MS = 5_000;
const FAILED_CLOSE_MS = 1_000;
/** With the two above, a partition is released within 9 s: its lease is given back, or ends. */
const STORE_MS = 1_000;

interface OwnPartition {
  state: "opening" | "open" | "closing";
  opened?: OpenedPartition;
  /** Answers that are under way. */
  readonly responses: Set<ServerResponse>;
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

  constructor(options: OwnedPartitionsOptions) {
    this.#options = options;
  }

  get state(): Pick<OwnState, "kept" | "closing" | "barred"> {
    const nowMs = this.#options.clock.nowMs();
    const all = [...this.#owned];
    return {
      kept: all.filter(([, { state }]) => state !== "closing").map(([part]) => part),
      closing: all.filter(([, { state }]) => state === "closing").map(([part]) => part),
      barred: new Set([...this.#barredUntilMs].filter(([, ms]) => ms > nowMs).map(([part]) => part)),
    };
  }

  get first(): number | undefined {
    return [...this.#owned].find(([, { state }]) => state === "open")?.[0];
  }

  handlerOf(part: number): Handler | undefined {
    const owned = this.#owned.get(part);
    return owned?.state === "open" ? owned.handler : undefined;
  }

  /** Takes a partition; resolves when it is open, or could not be opened. Never rejects. */
  take(part: number): Promise<void> {
    if (this.#owned.has(part)) return Promise.resolve();
    const responses = new Set<ServerResponse>();
    const owned: OwnPartition = {
      ...{ state: "opening", responses, isLost: false, done: Promise.resolve() },
      handler: (request, response) => this.#handle(owned, request, response),
    };
    this.#owned.set(part, owned);
    owned.done = this.#open(part, owned);
    return owned.done;
  }

  /** Releases a partition; resolves when another worker may take it. Never rejects. */
  release(part: number): Promise<void> {
    const owned = this.#owned.get(part);
    if (owned === undefined) return Promise.resolve();
    if (owned.state === "open") {
      owned.state = "closing";
      owned.done = this.#close(part, owned);
    }
    return owned.state === "opening" ? owned.done.then(() => this.release(part)) : owned.done;
  }

  /** Releases all partitions. Never rejects. */
  async releaseAll(): Promise<void> {
    await Promise.all([...this.#owned.keys()].map((part) => this.release(part)));
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
        onNotice(`partition ${part} is given up: ${error.message}`);
        return this.release(part);
      });
    } catch (error) {
      this.#owned.delete(part);
      if (!hasCode(error, "data_dir_in_use")) {
        this.#barredUntilMs.set(part, clock.nowMs() + BARRED_MS);
        onNotice(
          `partition ${part} cannot be opened: ${error instanceof Error ? error.message : String(error)}`,
        );
      }
    }
    onChange();
  }

  #handle(owned: OwnPartition, request: IncomingMessage, response: ServerResponse): void {
    owned.responses.add(response);
    response.once("close", () => owned.responses.delete(response));
    owned.opened?.service.handler(request, response);
  }

  async #close(part: number, owned: OwnPartition): Promise<void> {
    const { clock, onNotice, onChange } = this.#options;
    const opened = owned.opened as OpenedPartition; // it was open
    if (!owned.isLost) await inTime(clock, REQUESTS_MS, answered(owned.responses));
    const closeMs = owned.isLost ? FAILED_CLOSE_MS : CLOSE_MS;
    const isClosed = (await inTime(clock, closeMs, settled(opened.service.close()))) === true;
    await inTime(clock, STORE_MS, settled(opened.store.close())); // a second call where the service has closed it
    if (isClosed) await opened.closeFiles().catch(() => undefined);
    this.#owned.delete(part);
    onNotice(`partition ${part} is given back${isClosed ? "" : ", with requests in flight"}`);
    onChange();
  }
}

async function settled(work: Promise<unknown>): Promise<true> {
  await Promise.allSettled([work]);
  return true;
}

async function answered(responses: ReadonlySet<ServerResponse>): Promise<void> {
  await Promise.all(
    [...responses].map((response) => new Promise((resolve) => response.once("close", resolve))),
  );
}
