/**
 * A scripted answer that is read as a stream: each chunk is drawn from the script when its reader takes it.
 */
import { Buffer } from "node:buffer";
import { AnswerReader } from "../dispatch/answer_reader.ts";
import type { WireResult, WireStream } from "../dispatch/transport.ts";
import type { HeaderBag } from "../providers/provider.ts";
import type { ScriptedCall } from "./scripted_call.ts";

/** An answer in chunks, which may go on for ever if it is read as a stream. */
export interface StreamScript {
  readonly kind: "stream";
  readonly afterMs: number;
  readonly status: number;
  readonly headers: HeaderBag;
  readonly chunks: Iterable<Uint8Array>;
  /** Whether the connection breaks after them. */
  readonly isTorn?: boolean;
}

type AnsweredScript = { readonly kind: "answer"; readonly result: WireResult } | StreamScript;

/** What `Transport` keeps of a whole answer. */
const WHOLE_BYTES_MAX = 32 * 1024 * 1024;
const TORN = { ok: false, failure: "lost", message: "the connection was lost within the answer" } as const;
const TOO_LARGE = { ok: false, failure: "too_large", message: "the answer exceeds its bound" } as const;

export class ScriptedStream {
  readonly head: WireStream & { readonly ok: true };
  readonly #reader: AnswerReader;
  readonly #chunks: Iterator<Uint8Array>;
  readonly #isTorn: boolean;
  readonly #bytesMax: number;
  readonly #call: ScriptedCall;
  #lengthBytes = 0;

  /** Its answer must not be a failure. The deadline of the call goes on. */
  constructor(script: AnsweredScript, bytesMax: number, call: ScriptedCall) {
    const { status, headers, chunks, isTorn = false } = streamOf(script);
    this.#chunks = chunks[Symbol.iterator]();
    this.#isTorn = isTorn;
    this.#bytesMax = bytesMax;
    this.#call = call;
    this.#reader = new AnswerReader({
      more: () => this.#pour(),
      left: () => call.end({ ok: false, failure: "aborted", message: "left by its reader" }),
    });
    this.head = { ok: true, status, headers, chunks: this.#reader };
  }

  /** Once its owner knows it: a short answer may end at once. */
  begin(): void {
    this.#call.wait(Number.POSITIVE_INFINITY, () => undefined);
    this.#pour();
  }

  ended(result: WireResult): void {
    if (result.ok) this.#reader.finish();
    else this.#reader.fail(result);
  }

  #whole(): WireResult {
    const { status, headers } = this.head;
    return { ok: true, status, headers, body: new Uint8Array() };
  }

  /** As much as the reader has space for. */
  #pour(): void {
    let end: WireResult | undefined;
    while (end === undefined) {
      const { done, value } = this.#chunks.next();
      this.#lengthBytes += value?.length ?? 0;
      if (done === true) end = this.#isTorn ? TORN : this.#whole();
      else if (this.#lengthBytes > this.#bytesMax) end = TOO_LARGE;
      else if (value.length > 0 && !this.#reader.add(value)) return;
    }
    this.#call.end(end);
  }
}

/** A script of chunks, answered whole. */
export function wholeOf({ status, headers, chunks, isTorn }: StreamScript): WireResult {
  const parts: Uint8Array[] = [];
  let lengthBytes = 0;
  for (const chunk of chunks) {
    lengthBytes += chunk.length;
    if (lengthBytes > WHOLE_BYTES_MAX) return TOO_LARGE;
    parts.push(chunk);
  }
  return isTorn === true ? TORN : { ok: true, status, headers, body: Buffer.concat(parts) };
}

function streamOf(script: AnsweredScript): Omit<StreamScript, "kind" | "afterMs"> {
  if (script.kind === "stream") return script;
  const { result } = script;
  if (!result.ok) throw new TypeError("a failure has no stream");
  return { status: result.status, headers: result.headers, chunks: [result.body] };
}
