/**
 * From lines on the disk to a batch at the provider.
 *
 *   spooled -> uploading --answered--> uploaded -> creating --answered--> running
 *                 |  \--lost: the file is looked for by its name-->  uploaded | uploading
 *                 |                                \--lost: the batch is searched for, for `adoptMs`--> running | creating
 *   any --refused for good, or its file is gone too often--> its items go back
 *
 * A create is never repeated blindly: only after an answer that says that it had no effect, or a search that found nothing for as
 * long as providers take to list a new batch. Where nothing can be listed (deferred requests), it is not repeated at all: its items are
 * sent in realtime, and what it may cost is in doubt.
 */
import type { BatchFailure, RemoteBatch, UploadStep } from "../../providers/batches/batch_wire.ts";
import type { WireAnswer } from "../../providers/provider.ts";
import { type LinesFile, lostFailure } from "./batch_calls.ts";
import type { BatchReason } from "./batch_record.ts";
import { cancelTwin, findBatch, isSure } from "./batch_search.ts";
import type { KeptBatch } from "./kept_batch.ts";

/** How long between two searches. */
const SEARCH_MS_MAX = 15_000;
const UPLOADS_MAX = 3;

/** `running`: it has a batch id. `back`: it was not created, and why. `doubt`: it may have been, and nobody can wait for it. */
export type Created =
  | { readonly is: "running" | "doubt" }
  | { readonly is: "back"; readonly why: Pick<BatchFailure, "is" | "message" | "status"> };

/** What decides when a batch is created, and whether at all. */
export interface CreationTerms {
  /** Whether a batch at the provider is another record's. */
  isTaken(batchId: string): boolean;
  /**
   * `go`, or for how many milliseconds it waits for what its provider takes at once; `late`: its items must go another way now;
   * `split`: its provider never takes so many tokens at once.
   */
  turn(): "go" | "late" | "split" | { readonly waitMs: number; readonly why: BatchReason };
  /** Whether its items can wait no longer, even if it may exist. */
  isLast(): boolean;
}

const TOO_LARGE = {
  is: "too_large",
  message: "too many tokens for its provider at once",
  status: 0,
} as const;
const LATE = { is: "refused", message: "its deadline is near, or its run is over", status: 0 } as const;

/** One for a batch that has no id yet. */
export class BatchCreation {
  readonly #kept: KeptBatch;
  readonly #terms: CreationTerms;
  /** Whether an attempt of this process or an earlier one may have taken effect. */
  #isInDoubt: boolean;
  #uploads = 0;

  constructor(kept: KeptBatch, terms: CreationTerms) {
    this.#kept = kept;
    this.#terms = terms;
    this.#isInDoubt = kept.record.state === "uploading" || kept.record.state === "creating";
  }

  /** Resolves when it runs or cannot; rejects when the batch is left. */
  async run(): Promise<Created> {
    for (;;) {
      this.#kept.left.throwIfAborted();
      const { state } = this.#kept.record;
      const isCreating = state === "creating" && this.#isInDoubt;
      if (isCreating && (this.#isNeverListed || this.#terms.isLast())) return { is: "doubt" };
      const turn = isCreating ? "go" : this.#terms.turn();
      if (turn === "late") return { is: "back", why: LATE };
      if (turn === "split") return { is: "back", why: TOO_LARGE };
      if (turn !== "go") {
        await this.#kept.waitFor(turn);
        continue;
      }
      const end = await (state === "spooled" || state === "uploading" ? this.#upload() : this.#create());
      if (end !== undefined) return end;
    }
  }

  async #upload(): Promise<Created | undefined> {
    const kept = this.#kept;
    const { wire } = kept.way;
    const step = wire.upload(kept.payload);
    if (step === undefined) {
      await kept.put({ state: "uploaded" });
      return undefined;
    }
    if (kept.record.state === "spooled") await kept.put({ state: "uploading" });
    else if (this.#isInDoubt && (await this.#findFile())) return undefined;
    this.#uploads += 1;
    const uploaded = await this.#uploadFrom(step);
    if (uploaded.ok) {
      kept.healed();
      this.#isInDoubt = false;
      await kept.put({ state: "uploaded", file: uploaded.file });
      return undefined;
    }
    this.#isInDoubt = uploaded.is === "unknown";
    return this.#after(uploaded);
  }

  async #uploadFrom(first: UploadStep): Promise<{ readonly ok: true; readonly file: string } | BatchFailure> {
    const { calls, lines } = this.#kept.way;
    for (let step = first; ; ) {
      const answer = await calls.send(step.request, this.#kept.left, lines);
      this.#kept.left.throwIfAborted();
      const read = answer.ok ? step.read(answer) : lostFailure(answer);
      if (!read.ok || "file" in read) return read;
      step = read.next;
    }
  }

  /** Whether a file was found whose answer was lost. */
  async #findFile(): Promise<boolean> {
    const kept = this.#kept;
    const search = kept.way.wire.findFile?.(kept.payload);
    if (search === undefined) return false;
    const answer = await kept.way.calls.send(search.request, kept.left);
    kept.left.throwIfAborted();
    const read = answer.ok ? search.read(answer) : lostFailure(answer);
    if (!read.ok || read.file === undefined) return false;
    await kept.put({ state: "uploaded", file: read.file });
    this.#isInDoubt = false;
    return true;
  }

  async #create(): Promise<Created | undefined> {
    const kept = this.#kept;
    const { clock } = kept;
    if (kept.record.state === "creating" && this.#isInDoubt) {
      const found = await this.#search();
      if (found !== "nothing") return found;
    }
    const nowWallMs = clock.wallMs();
    const createdFromWallMs = this.#isInDoubt ? (kept.record.createdFromWallMs ?? nowWallMs) : nowWallMs;
    const mayHaveTwin = this.#isInDoubt || kept.record.mayHaveTwin === true;
    await kept.put({ state: "creating", createdFromWallMs, createdWallMs: nowWallMs, mayHaveTwin });
    const { wire, calls, lines } = kept.way;
    const answer = await calls.send(wire.create(kept.payload, kept.record.file), kept.left, lines);
    if (kept.left.aborted) this.#isInDoubt = true;
    kept.left.throwIfAborted();
    const read = answer.ok ? wire.read(answer) : lostFailure(answer);
    if (read.ok) {
      kept.healed();
      return (await this.#fill(read.batch)) ?? this.#runs(read.batch);
    }
    this.#isInDoubt = read.is === "unknown";
    if (read.is === "gone" && wire.upload(kept.payload) !== undefined) {
      await kept.put({ state: "spooled" });
      if (this.#uploads < UPLOADS_MAX) return undefined;
    }
    return this.#after(read);
  }

  /** Searches once, and waits before the next time; `nothing` once it was searched for long enough. */
  async #search(): Promise<Created | undefined | "nothing"> {
    const kept = this.#kept;
    const { adoptMs } = kept.way.times;
    const found = await findBatch(kept, (id) => this.#terms.isTaken(id));
    if (!found.ok) return this.#after(found);
    kept.healed();
    if (found.batch !== undefined) {
      for (const twin of found.twins) await cancelTwin(kept, twin);
      const filled = await this.#fill(found.batch);
      if (filled !== undefined) return filled;
      return this.#runs(found.batch, found.twins.length > 0);
    }
    const { createdWallMs = 0 } = kept.record;
    const leftMs = createdWallMs + adoptMs - kept.clock.wallMs();
    if (leftMs <= 0 || leftMs > 2 * adoptMs) {
      this.#isInDoubt = true;
      return "nothing"; // the wall clock may have been set
    }
    await kept.wait(Math.min(leftMs, SEARCH_MS_MAX));
    return undefined;
  }

  async #runs(batch: RemoteBatch, hasTwin = false): Promise<Created> {
    const { id } = batch;
    const isUnconfirmed = this.#isInDoubt && !isSure(batch, this.#kept);
    this.#isInDoubt = false;
    await this.#kept.put({
      state: "running",
      batchId: id,
      ...(isUnconfirmed ? { isUnconfirmed } : {}),
      ...(hasTwin ? { hasTwin } : {}),
    });
    this.#kept.asked();
    return { is: "running" };
  }

  /** Adds the lines to a batch that was created empty; adding one again changes nothing. Undefined once all are in it. */
  async #fill({ id }: RemoteBatch): Promise<Created | undefined> {
    const kept = this.#kept;
    const { wire, calls, lines } = kept.way;
    const { add, readAdded, limits } = wire;
    if (add === undefined || readAdded === undefined) return undefined;
    const { items } = kept.payload;
    for (let from = 0; from < items; ) {
      const count = fitting(lines, from, items, limits.addBytesMax, limits.addItemsMax);
      const answer = await calls.send(add.call(wire, kept.payload, id, from, count), kept.left, lines);
      kept.left.throwIfAborted();
      const read = answer.ok ? readAdded.call(wire, answer as WireAnswer) : lostFailure(answer);
      if (read.ok) {
        kept.healed();
        from += count;
      } else if (read.is === "permanent" || read.is === "too_large" || read.is === "gone")
        return this.#back(read);
      else await kept.waitAfter(read);
    }
    return undefined;
  }

  /** What follows from a failure: another attempt after a wait, or none. */
  async #after(failure: BatchFailure): Promise<Created | undefined> {
    if (failure.is === "unknown" && this.#isNeverListed) return { is: "doubt" };
    if (failure.is === "permanent" || failure.is === "too_large" || failure.is === "gone")
      return this.#back(failure);
    // A key may have no right to batches. Whether it is accepted at all, realtime finds out.
    const mayExist = this.#isInDoubt || this.#kept.record.mayHaveTwin === true;
    if (failure.isDenied === true && !mayExist) return this.#back(failure);
    await this.#kept.waitAfter(failure);
    return undefined;
  }

  get #isNeverListed(): boolean {
    return this.#kept.way.wire.list === undefined;
  }

  #back(why: BatchFailure): Created {
    return { is: "back", why };
  }
}

/** How many lines from a place on fit into one step, at least one. */
function fitting(
  { endOf = () => 0 }: LinesFile,
  from: number,
  items: number,
  bytesMax = Number.POSITIVE_INFINITY,
  itemsMax = Number.POSITIVE_INFINITY,
): number {
  const start = from === 0 ? 0 : endOf(from - 1);
  let to = from + 1;
  while (to < items && to - from < itemsMax && endOf(to) - start <= bytesMax) to += 1;
  return to - from;
}
