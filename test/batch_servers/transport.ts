/**
 * A `Transport` in virtual time, answered by fake providers, one an origin: their batch APIs and their realtime endpoints.
 *
 * A request takes effect when all of it has arrived, which is at once; its answer takes as long as the fake says. A process that
 * dies in between (`restart`) has had its effect. Nothing of what was sent is kept here: the fakes have their books.
 */
import type { Clock } from "../../src/clock.ts";
import { SharedSignals } from "../../src/dispatch/shared_signals.ts";
import type {
  SendOptions,
  StreamOptions,
  StreamRequest,
  Transport,
  WireRequest,
  WireResult,
  WireStream,
} from "../../src/dispatch/transport.ts";
import { Upload } from "../../src/dispatch/upload.ts";
import { ScriptedCall } from "../../src/testing/scripted_call.ts";
import { ScriptedStream, type StreamScript, wholeOf } from "../../src/testing/scripted_stream.ts";
import type { BatchFake, FakeAnswer, FakeReply } from "./fake.ts";

const CHUNK_BYTES = 64 * 1024;
/** After which a lost or refused connection shows. */
const BROKEN_MS = 20;

export interface BatchTransport extends Transport {
  readonly inFlight: number;
  /** Calls of `send` and `stream` so far. */
  readonly calls: number;
  /** The process died and another begins: what was in flight is cut, and calls work again. */
  restart(): void;
}

/** `fakes`: by origin, such as `https://api.openai.test`. */
export function batchTransport(fakes: Readonly<Record<string, BatchFake>>, clock: Clock): BatchTransport {
  return new FakeWire(fakes, clock);
}

class FakeWire implements BatchTransport {
  readonly #fakes: Readonly<Record<string, BatchFake>>;
  readonly #clock: Clock;
  readonly #inFlight = new Set<() => void>();
  readonly #signals = new SharedSignals();
  #isClosed = false;
  #calls = 0;

  constructor(fakes: Readonly<Record<string, BatchFake>>, clock: Clock) {
    this.#fakes = fakes;
    this.#clock = clock;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  get calls(): number {
    return this.#calls;
  }

  send(request: WireRequest, options: SendOptions): Promise<WireResult> {
    return new Promise((resolve) => {
      this.#run(request, options, {
        arrived: (script, call) => call.end(wholeOf(script)),
        ended: resolve,
      });
    });
  }

  stream(request: StreamRequest, options: StreamOptions): Promise<WireStream> {
    return new Promise((resolve) => {
      let stream: ScriptedStream | undefined;
      this.#run(request, options, {
        arrived: (script, call) => {
          stream = new ScriptedStream(script, options.bytesMax, call);
          resolve(stream.head);
          stream.begin();
        },
        ended: (result) => {
          if (stream !== undefined) stream.ended(result);
          else if (!result.ok) resolve(result);
        },
      });
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const abort of [...this.#inFlight]) abort();
  }

  restart(): void {
    for (const abort of [...this.#inFlight]) abort();
    this.#isClosed = false;
  }

  #run(request: StreamRequest, options: SendOptions, caller: Caller): void {
    const { body } = request;
    const upload = "chunks" in body ? new Upload(body) : undefined;
    if (this.#isClosed || options.signal?.aborted === true) {
      upload?.end();
      caller.ended({ ok: false, failure: "aborted", message: "closed or aborted before it was sent" });
      return;
    }
    this.#calls += 1;
    const call = new ScriptedCall(this.#clock, options, (result) => {
      if (options.signal !== undefined) this.#signals.forget(options.signal, abort);
      this.#inFlight.delete(abort);
      upload?.end();
      caller.ended(result);
    });
    const abort = (): void => call.end({ ok: false, failure: "aborted", message: "aborted in flight" });
    const enter = (bytes: Uint8Array): void => {
      const answer = this.#answer(request, bytes);
      if (typeof answer === "object") {
        const script = scriptOf(answer);
        call.wait(script.afterMs, () => caller.arrived(script, call));
        return;
      }
      const failure = answer === "lost" ? "lost" : "not_sent";
      call.wait(BROKEN_MS, () => call.end({ ok: false, failure, message: "the connection broke" }));
    };
    this.#inFlight.add(abort);
    if (options.signal !== undefined) this.#signals.follow(options.signal, abort);
    if (upload === undefined) enter(body as Uint8Array);
    else call.read(upload, enter);
  }

  #answer({ method = "POST", origin, path, headers }: StreamRequest, body: Uint8Array): FakeAnswer {
    const fake = this.#fakes[origin];
    if (fake === undefined) throw new Error(`no fake provider at ${origin}: ${Object.keys(this.#fakes)}`);
    return fake.handle({ method, path, headers, body });
  }
}

interface Caller {
  arrived(script: StreamScript, call: ScriptedCall): void;
  ended(result: WireResult): void;
}

function scriptOf({ status, headers, body, afterMs = 0, tornAfterBytes }: FakeReply): StreamScript {
  const sent = tornAfterBytes === undefined ? body : body.subarray(0, tornAfterBytes);
  const isTorn = tornAfterBytes !== undefined;
  return { kind: "stream", afterMs, status, headers, chunks: chunksOf(sent), isTorn };
}

function* chunksOf(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let from = 0; from < bytes.length; from += CHUNK_BYTES) yield bytes.slice(from, from + CHUNK_BYTES);
}
