/**
 * One attempt whose answer is passed on while it arrives, and read as any other when it has.
 *
 *   head -> no success, or no events: read whole, as without a tap
 *        -> events: each is passed on and kept -> whole: the body that the codec reads
 *                                              -> broken off, or ended by an error: ambiguous, with what was seen of it
 *   the reader leaves: the provider's stream is cut; before it was sent, it is not sent
 *
 * Limits: an answer of 32 MiB; the provider's socket is paused while the reader is slow. A provider that has said that nothing follows
 * has a second to end its response, so that the connection can be used again; then it is cut, and the answer counts.
 */
import type { Clock, Timer } from "../clock.ts";
import type { Provider } from "../providers/provider.ts";
import type { EventReader } from "../providers/streams/event_reader.ts";
import { SseReader } from "../providers/streams/sse.ts";
import { type StreamForm, streamFormOf } from "../providers/streams/stream_form.ts";
import type { AnswerTap } from "./answer_tap.ts";
import { type AttemptResult, answered } from "./attempt.ts";
import { failureOf, readWhole } from "./inserts/insert_transport.ts";
import type { SendOptions, Transport, WireRequest, WireResult, WireStream } from "./transport.ts";

const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
/** From the event after which nothing follows to the end of the response; see above. */
const LAST_MS = 1_000;
const LEFT = {
  ok: false,
  failure: "aborted",
  message: "the caller left before the end of the answer",
} as const;

/** How a streamed attempt ended; `seen`: what arrived of the answer, in the provider's own form, once a chunk was passed on. */
interface StreamedEnd {
  readonly wire: WireResult;
  readonly seen: (() => Uint8Array) | undefined;
}

interface StreamedCall {
  readonly provider: Provider;
  /** Counted. */
  readonly inputTokens: number;
}

/** How a request is sent. */
interface Sending {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly request: WireRequest;
  readonly options: SendOptions;
  /** Called before the first chunk is passed on. */
  readonly onBegun: () => void;
}

/** Sends a request for a tap; `read` understands its response. Once a chunk was passed on, a failure has the usage of what was seen. */
export async function streamedAttempt(
  call: StreamedCall,
  tap: AnswerTap,
  sending: Sending,
  read: (wire: WireResult) => AttemptResult,
): Promise<AttemptResult> {
  const { wire, seen } = await sendStreamed(call.provider, tap, sending);
  const result = read(wire);
  const isLeft = tap.left.aborted;
  if (result.class === "success" || (seen === undefined && !isLeft)) return result;
  const taken =
    seen === undefined || result.usage !== undefined
      ? {}
      : usageOf(call, result, { seen: seen(), wallMs: sending.clock.wallMs() });
  // A part of the answer has arrived: it may be billed, and it is not held to be asked for again, whatever the provider says.
  const isOwn = result.class === "permanent" && result.scope === "item";
  if (!isLeft) return { ...result, ...taken, class: isOwn ? "permanent" : "ambiguous", scope: "item" };
  const status = seen === undefined ? {} : { status: 200 }; // it may be billed
  const { latencyMs } = result;
  return {
    class: "permanent",
    code: "cancelled",
    message: LEFT.message,
    scope: "item",
    latencyMs,
    ...status,
    ...(result.usage === undefined ? {} : { usage: result.usage }),
    ...taken,
  };
}

/** Estimated: the provider may have done more than arrived. */
function usageOf(
  { provider, inputTokens }: StreamedCall,
  { latencyMs, learnt }: AttemptResult,
  { seen, wallMs }: { readonly seen: Uint8Array; readonly wallMs: number },
): Pick<AttemptResult, "usage"> {
  const decoded = provider.decode({ status: 200, headers: {}, body: seen, wallMs });
  const { usage } = answered(decoded, { status: 200, learnt, latencyMs, inputTokens });
  return usage === undefined ? {} : { usage: { ...usage, isEstimated: true } };
}

async function sendStreamed(provider: Provider, tap: AnswerTap, sending: Sending): Promise<StreamedEnd> {
  const { clock, transport, request, options } = sending;
  if (tap.left.aborted) return { wire: { ...LEFT, failure: "not_sent" }, seen: undefined };
  const last = new AbortController();
  const signals = options.signal === undefined ? [] : [options.signal];
  const signal = AbortSignal.any([...signals, tap.left, last.signal]);
  const form = streamFormOf(provider);
  if (form === undefined)
    return { wire: await transport.send(request, { ...options, signal }), seen: undefined };
  const bounded = { ...options, signal, bytesMax: ANSWER_BYTES_MAX };
  const stream = await transport.stream(asStreamed(form, request), bounded);
  if (!stream.ok) return { wire: stream, seen: undefined };
  const isEvents = stream.headers["content-type"]?.startsWith("text/event-stream") === true;
  if (stream.status !== 200 || !isEvents) return { wire: await readWhole(stream), seen: undefined };
  const reader = form.reader(Math.floor(clock.wallMs() / 1_000));
  let timer: Timer | undefined;
  const onDone = (): void => {
    timer ??= clock.timer(LAST_MS, () => last.abort(), { keepsAlive: false });
  };
  try {
    return await passOn(tap, stream, { reader, onDone, onBegun: sending.onBegun });
  } finally {
    timer?.cancel();
  }
}

function asStreamed(form: StreamForm, { origin, path, headers, body }: WireRequest): WireRequest {
  const head = form.head({ origin, path, headers });
  return { ...head, headers: { ...head.headers, accept: "text/event-stream" }, body: form.body(body) };
}

async function passOn(
  tap: AnswerTap,
  { status, headers, chunks }: WireStream & { readonly ok: true },
  {
    reader,
    onDone,
    onBegun,
  }: Pick<Sending, "onBegun"> & { readonly reader: EventReader; readonly onDone: () => void },
): Promise<StreamedEnd> {
  const events = new SseReader();
  const end = (wire: WireResult): StreamedEnd => {
    const seen = (): Uint8Array => Buffer.from(JSON.stringify(reader.seen()));
    return { wire, seen: tap.hasBegun ? seen : undefined };
  };
  const whole = (): StreamedEnd =>
    end({ ok: true, status, headers, body: Buffer.from(JSON.stringify(reader.whole())) });
  try {
    for await (const bytes of chunks) {
      for (const data of events.read(bytes)) {
        for (const chunk of reader.read(data)) {
          if (!tap.hasBegun) onBegun();
          const taken = tap.pass(chunk);
          if (taken !== undefined) await taken;
        }
      }
      if (reader.isDone) onDone();
      else if (events.isTooLong) return end(TOO_LONG);
    }
  } catch (error) {
    return reader.isDone ? whole() : end(failureOf(error));
  }
  return reader.isEnded ? whole() : end(ENDED_EARLY);
}

const TOO_LONG = {
  ok: false,
  failure: "too_large",
  message: "an event of the answer exceeds 8 MiB",
} as const;
const ENDED_EARLY = {
  ok: false,
  failure: "lost",
  message: "the stream ended before the answer did",
} as const;
