/**
 * The stream of a call, in parts of the AI SDK: they arrive with the provider's chunks, or after the whole answer where it was not streamed.
 *
 *   waiting -> begun (the first chunk) -> answered (recorded): tool calls, facts, `finish`
 *                                      -> failed: an `error` part; what was passed on is not asked for again
 *   waiting -> answered (no chunk arrived: all of it at once) | failed (the call rejects)
 *   begun   -> left: its reader cancels the stream, or the call's signal aborts
 *
 * At most a chunk waits here: the provider's socket is paused while the reader takes no more.
 */
import type { JsonObject } from "../work/json.ts";
import { ChunkParts, type DeltaPart } from "./chunk_parts.ts";
import type { CallFacts, FinishOf, Generated, UsageOf, WarningOf } from "./generated.ts";
import type { ModelVersion } from "./model_call.ts";

/** A part of a streamed answer. */
export type StreamedPart<V extends ModelVersion> =
  | DeltaPart
  | { type: "stream-start"; warnings: WarningOf<V>[] }
  | { type: "response-metadata"; id?: string; modelId?: string }
  | { type: "tool-call"; toolCallId: string; toolName: string; input: string }
  | { type: "error"; error: unknown }
  | {
      type: "finish";
      usage: UsageOf<V>;
      finishReason: FinishOf<V>;
      providerMetadata: { perigee: CallFacts };
    };

/** Asks; `signal` aborts when nobody reads any more. */
type AsksInChunks<V extends ModelVersion> = (
  onChunk: (chunk: JsonObject) => Promise<void> | undefined,
  signal: AbortSignal,
) => Promise<Generated<V>>;

/** Resolves with the stream once it has begun. `warnings`: of the call, which are known before its answer. Rejects as `ask` before that. */
export async function streamOf<V extends ModelVersion>(
  ask: AsksInChunks<V>,
  warnings: WarningOf<V>[],
  signal: AbortSignal | undefined,
): Promise<ReadableStream<StreamedPart<V>>> {
  const stream = new CallStream(warnings);
  const left = signal === undefined ? stream.left : AbortSignal.any([signal, stream.left]);
  const ended = ask((chunk) => stream.take(chunk), left).then(
    (answer) => stream.answered(answer),
    (error: unknown) => stream.failed(error, left),
  );
  await Promise.race([stream.begun, ended]);
  return stream.parts;
}

class CallStream<V extends ModelVersion> {
  /** Resolves with the first chunk. */
  readonly begun: Promise<void>;
  readonly parts: ReadableStream<StreamedPart<V>>;
  readonly #warnings: WarningOf<V>[];
  readonly #chunks = new ChunkParts();
  readonly #left = new AbortController();
  #out!: ReadableStreamDefaultController<StreamedPart<V>>; // `start` is called by the constructor of the stream
  /** Resolves the wait of `take` until more is read. */
  #isRead: () => void = () => undefined;
  #begin: (() => void) | undefined;

  constructor(warnings: WarningOf<V>[]) {
    this.#warnings = warnings;
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
    this.parts = new ReadableStream({
      start: (out) => {
        this.#out = out;
      },
      pull: () => this.#isRead(),
      cancel: (reason) => {
        this.#left.abort(reason);
        this.#isRead();
      },
    });
  }

  /** Aborts when its reader has left. */
  get left(): AbortSignal {
    return this.#left.signal;
  }

  /** What it returns resolves when the next chunk may follow. */
  take(chunk: JsonObject): Promise<void> | undefined {
    if (this.left.aborted) return undefined;
    this.#start(this.#warnings);
    for (const part of this.#chunks.of(chunk)) this.#out.enqueue(part);
    if ((this.#out.desiredSize ?? 1) > 0) return undefined;
    return new Promise((resolve) => {
      this.#isRead = resolve;
    });
  }

  answered({ content, warnings, response, usage, finishReason, providerMetadata }: Generated<V>): void {
    if (this.left.aborted) return;
    this.#start(warnings);
    const rest: StreamedPart<V>[] = [{ type: "response-metadata", ...response }, ...this.#chunks.end()];
    for (const part of content) {
      if (part.type === "tool-call") rest.push(part);
      else if (!this.#chunks.seen.has(part.type)) rest.push(...this.#chunks.whole(part.type, part.text));
    }
    for (const part of rest) this.#out.enqueue(part);
    this.#out.enqueue({ type: "finish", usage, finishReason, providerMetadata });
    this.#out.close();
  }

  /** Throws before it has begun. */
  failed(error: unknown, { aborted }: AbortSignal): void {
    if (this.left.aborted) return;
    if (this.#begin !== undefined) throw error;
    if (aborted) {
      this.#out.error(error);
      return;
    }
    this.#out.enqueue({ type: "error", error });
    this.#out.close();
  }

  #start(warnings: WarningOf<V>[]): void {
    const begin = this.#begin;
    this.#begin = undefined;
    if (begin === undefined) return;
    this.#out.enqueue({ type: "stream-start", warnings });
    begin();
  }
}
