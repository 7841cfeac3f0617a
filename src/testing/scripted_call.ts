/**
 * One call of the scripted wire: it ends once, by its answer or by its deadline.
 */
import { Buffer } from "node:buffer";
import type { Clock, Timer } from "../clock.ts";
import type { SendOptions, WireResult } from "../dispatch/transport.ts";
import type { Upload } from "../dispatch/upload.ts";

export class ScriptedCall {
  readonly #clock: Clock;
  readonly #moreMs: (() => number) | undefined;
  readonly #onEnd: (result: WireResult) => void;
  #deadlineMs: number;
  #timer: Timer | undefined;
  #isOver = false;

  constructor(clock: Clock, { timeoutMs, moreMs }: SendOptions, onEnd: (result: WireResult) => void) {
    this.#clock = clock;
    this.#moreMs = moreMs;
    this.#onEnd = onEnd;
    this.#deadlineMs = clock.nowMs() + timeoutMs;
  }

  /** Calls `then` after this time if the deadline has not passed, instead of what it waited for before. */
  wait(forMs: number, then: () => void): void {
    this.#timer?.cancel();
    const leftMs = Math.max(0, this.#deadlineMs - this.#clock.nowMs());
    this.#timer =
      forMs <= leftMs
        ? this.#clock.timer(forMs, then)
        : this.#clock.timer(leftMs, () => {
            const moreMs = this.#moreMs?.() ?? 0;
            this.#deadlineMs = this.#clock.nowMs() + moreMs;
            if (moreMs > 0) this.wait(forMs - leftMs, then);
            else this.end({ ok: false, failure: "timeout", message: "no answer in time" });
          });
  }

  /** Reads the whole request, which may take until the deadline. */
  read(upload: Upload, then: (body: Uint8Array) => void): void {
    upload.begin((message) => this.end({ ok: false, failure: "source_failed", message }));
    this.wait(Number.POSITIVE_INFINITY, () => undefined);
    void collect(upload).then((body) => {
      if (!this.#isOver) then(body);
    });
  }

  /** The first end counts. */
  end(result: WireResult): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.#onEnd(result);
  }
}

async function collect(upload: Upload): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of upload) pieces.push(piece);
  return Buffer.concat(pieces);
}
