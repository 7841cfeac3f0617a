/**
 * A response of server-sent events, at the pace of its reader.
 *
 *   waiting -> begun (its first event) -> ended | left by its reader
 *
 * Limit: 16 KiB and one event wait here; `data` then resolves when the reader has taken them.
 */
import { PassThrough, type Readable } from "node:stream";
import type { FastifyReply } from "../http/fastify.ts";

/** One for a response. */
export class EventStream {
  readonly #through = new PassThrough();
  readonly begun: Promise<void>;
  #begin: (() => void) | undefined;

  constructor() {
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
  }

  /** Sends an event. What it returns resolves when the next one may follow, and when the reader has left. */
  data(json: string): Promise<void> | undefined {
    this.#begin?.();
    this.#begin = undefined;
    if (this.#through.destroyed) return undefined;
    if (this.#through.write(`data: ${json}\n\n`)) return undefined;
    return new Promise((resolve) => {
      this.#through.once("drain", resolve).once("close", resolve);
    });
  }

  /** Ends the response; OpenAI's clients know the end of a whole stream by `[DONE]`. */
  end(isWhole: boolean): void {
    if (!this.#through.destroyed) this.#through.end(isWhole ? "data: [DONE]\n\n" : undefined);
  }

  /** The response; proxies are asked to pass events on at once. */
  send(reply: FastifyReply): FastifyReply {
    const body: Readable = this.#through;
    return reply
      .headers({ "cache-control": "no-cache", "x-accel-buffering": "no" })
      .type("text/event-stream; charset=utf-8")
      .send(body);
  }
}
