/**
 * What every `Transport` must do with streams: read a request from its source and close that at any end, and pass an answer on no
 * faster than its reader takes it.
 */
import assert from "node:assert/strict";
import {
  type RequestSource,
  type StreamRequest,
  type Transport,
  type WireChunks,
  WireError,
  type WireFailure,
  type WireRequest,
  type WireStream,
} from "../dispatch/transport.ts";

export interface StreamsUnderTest {
  readonly transport: Transport;
  /** Answered with status 200, a header `x-contract: yes` and the body `pong`, within `pass(50)`. */
  readonly answered: WireRequest;
  /** To where this is sent, within `pass(50)`: status 200, and in the body its method, a space, and its own body. */
  readonly echoed: WireRequest;
  /** Answered with status 200 within `pass(50)`, and bytes that never end. */
  readonly endless: WireRequest;
  /** Answered with status 200 and some bytes within `pass(50)`; then the connection is lost. */
  readonly torn: WireRequest;
  /** How many bytes were passed on towards the readers of endless answers. */
  givenBytes(): number;
  /** How many requests the other end works on. */
  inFlight(): number;
  /** Lets time pass. */
  pass(ms: number): Promise<void>;
}

const OPTIONS = { timeoutMs: 5_000, bytesMax: 1_000_000 };
/** What sockets of a real transport may hold on the way. */
const ON_THE_WAY_BYTES_MAX = 16 * 1024 * 1024;

export const streamCases: Readonly<Record<string, (tested: StreamsUnderTest) => Promise<void>>> = {
  "an answer can be read in chunks": reads,
  "a request can be read from a source": uploads,
  "a source that is shorter or longer than stated, or throws, fails the call and is closed":
    failsWithItsSource,
  "a source that waits is closed when the call ends, and one that is not needed is not read": closesSources,
  "a reader that waits is sent no more": pauses,
  "a torn answer is an error for its reader, not an end": isTorn,
  "the deadline, a signal and closing end an answer that is being read": endsWhileRead,
  "an answer beyond its bound is an error for its reader": isBounded,
  "a reader that leaves ends the call": leaves,
};

async function reads(tested: StreamsUnderTest): Promise<void> {
  const stream = await opened(tested, tested.answered);
  assert.equal(stream.status, 200);
  assert.equal(stream.headers["x-contract"], "yes");
  assert.equal(await textOf(stream.chunks), "pong");
  assert.deepEqual(await stream.chunks.next(), { done: true, value: undefined });
}

async function uploads(tested: StreamsUnderTest): Promise<void> {
  const parts = ["", "grü", "ße ".repeat(100_000), "", "x"].map((text) => new TextEncoder().encode(text));
  const lengthBytes = parts.reduce((sum, { length }) => sum + length, 0);
  for (const [chunks, bytes] of [
    [parts, lengthBytes],
    [[], 0],
  ] as const) {
    const source = new Source(chunks, bytes);
    const stream = await opened(tested, { ...tested.echoed, method: "PUT", body: source });
    const expected = chunks.map((part) => new TextDecoder().decode(part)).join("");
    assert.equal(await textOf(stream.chunks), `PUT ${expected}`);
    assert.equal(source.isClosed, true);
  }
}

async function failsWithItsSource(tested: StreamsUnderTest): Promise<void> {
  const { transport, echoed, pass } = tested;
  const chunk = new Uint8Array(10);
  for (const source of [
    new Source([chunk], 11),
    new Source([chunk, chunk], 11),
    new Source([chunk, chunk], 10),
    new Source([chunk], 0),
    new Source([chunk, new RangeError("secret")], 20),
  ]) {
    const sent = transport.stream({ ...echoed, body: source }, OPTIONS);
    await pass(50);
    const result = await sent;
    assertFailed(result, "source_failed");
    assert.ok(!JSON.stringify(result).includes("secret"));
    assert.equal(source.isClosed, true);
  }
}

async function closesSources(tested: StreamsUnderTest): Promise<void> {
  const { transport, echoed, pass } = tested;
  const abort = new AbortController();
  const waiting = (): Source => new Source([new Uint8Array(10), "wait"], 20);
  const sources = [waiting(), waiting(), waiting(), new Source([], 0), new Source([], 0)];
  const send = (index: number, options: { timeoutMs?: number; signal?: AbortSignal }): Promise<WireStream> =>
    transport.stream({ ...echoed, body: sources[index] as Source }, { ...OPTIONS, ...options });
  const late = send(0, { timeoutMs: 300 });
  const aborted = send(1, { signal: abort.signal });
  const closed = send(2, {});
  await pass(330);
  assertFailed(await late, "timeout");
  abort.abort();
  assertFailed(await aborted, "aborted");
  assertFailed(await send(3, { signal: abort.signal }), "aborted");
  await transport.close();
  assertFailed(await closed, "aborted");
  assertFailed(await send(4, {}), "aborted");
  for (const [index, source] of sources.entries()) {
    assert.equal(source.isClosed, true, `source ${index}`);
    assert.equal(source.reads > 0, index < 3);
  }
}

async function pauses(tested: StreamsUnderTest): Promise<void> {
  const { endless, pass, givenBytes } = tested;
  const { chunks } = await opened(tested, endless, { ...OPTIONS, bytesMax: 1e9 });
  let before = -1;
  for (let looks = 0; looks < 20 && before !== givenBytes(); looks += 1) {
    before = givenBytes();
    await pass(200);
  }
  assert.equal(givenBytes(), before, "it never pauses");
  assert.ok(before < ON_THE_WAY_BYTES_MAX, `${before} bytes are on the way`);
  for (let bytes = 0; bytes < 2 * ON_THE_WAY_BYTES_MAX; ) bytes += (await chunks.next()).value?.length ?? 0;
  assert.ok(givenBytes() > before);
  await chunks.return();
}

async function isTorn(tested: StreamsUnderTest): Promise<void> {
  const { chunks } = await opened(tested, tested.torn);
  await assertBroken(chunks, "lost");
  await assertBroken(chunks, "lost"); // and stays so
}

async function endsWhileRead(tested: StreamsUnderTest): Promise<void> {
  const { transport, endless, pass } = tested;
  const abort = new AbortController();
  const options = { ...OPTIONS, bytesMax: 1e9 };
  const late = await opened(tested, endless, { ...options, timeoutMs: 500 });
  const aborted = await opened(tested, endless, { ...options, signal: abort.signal });
  const closed = await opened(tested, endless, options);
  await pass(550);
  await assertBroken(late.chunks, "timeout");
  abort.abort();
  await assertBroken(aborted.chunks, "aborted");
  await transport.close();
  await assertBroken(closed.chunks, "aborted");
  await settled(tested);
}

async function isBounded(tested: StreamsUnderTest): Promise<void> {
  const { endless } = tested;
  const { chunks } = await opened(tested, endless, { ...OPTIONS, bytesMax: 300_000 });
  const bytes = await assertBroken(chunks, "too_large");
  assert.ok(bytes <= 300_000);
  await settled(tested);
}

async function leaves(tested: StreamsUnderTest): Promise<void> {
  const { endless } = tested;
  const options = { ...OPTIONS, bytesMax: 1e9 };
  for await (const chunk of (await opened(tested, endless, options)).chunks) {
    assert.ok(chunk.length > 0);
    break;
  }
  const unread = await opened(tested, endless, options);
  await unread.chunks.return();
  assert.deepEqual(await unread.chunks.next(), { done: true, value: undefined });
  await settled(tested);
}

/** A source that notes what is done with it. After `wait` it gives nothing more. */
class Source implements RequestSource {
  readonly lengthBytes: number;
  readonly chunks: AsyncIterable<Uint8Array>;
  reads = 0;
  isClosed = false;

  constructor(steps: readonly (Uint8Array | Error | "wait")[], lengthBytes: number) {
    this.lengthBytes = lengthBytes;
    const left = [...steps];
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      this.reads += 1;
      const step = left.shift();
      if (step instanceof Error) throw step;
      if (step === "wait") return new Promise(() => undefined);
      return step === undefined ? { done: true, value: undefined } : { done: false, value: step };
    };
    const close = async (): Promise<IteratorResult<Uint8Array>> => {
      this.isClosed = true;
      return { done: true, value: undefined };
    };
    this.chunks = { [Symbol.asyncIterator]: () => ({ next, return: close }) };
  }
}

async function opened(
  { transport, pass }: StreamsUnderTest,
  request: StreamRequest,
  options: { timeoutMs: number; bytesMax: number; signal?: AbortSignal } = OPTIONS,
): Promise<WireStream & { readonly ok: true }> {
  const sent = transport.stream(request, options);
  await pass(50);
  const stream = await sent;
  assert.ok(stream.ok, JSON.stringify(stream));
  return stream;
}

/** The other end notices after a while that a connection was closed. */
async function settled({ pass, inFlight }: StreamsUnderTest): Promise<void> {
  for (let looks = 0; looks < 40 && inFlight() > 0; looks += 1) await pass(50);
  assert.equal(inFlight(), 0);
}

async function textOf(chunks: WireChunks): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of chunks) text += decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}

/** Reads until the error; returns how many bytes came before. */
async function assertBroken(chunks: WireChunks, failure: WireFailure): Promise<number> {
  let bytes = 0;
  await assert.rejects(
    async () => {
      for (;;) {
        const { done, value } = await chunks.next();
        if (done === true) return;
        bytes += value.length;
      }
    },
    (error) => error instanceof WireError && error.failure === failure,
  );
  return bytes;
}

function assertFailed(result: WireStream, failure: WireFailure): void {
  assert.equal(result.ok ? `status ${result.status}` : result.failure, failure);
}
