/**
 * The only import of undici: `Transport` over HTTP/1.1, one pool of connections per origin.
 *
 * A connection is an undici `Client` with pipelining 1, kept on a stack of free ones: picking costs the same at 10
 * and at 10,000 connections, where undici's own `Pool` walks its list of clients (docs/decisions/0006-transport.md).
 *
 * Limits: `connectionsMax` per origin (more calls wait in order), `connectTimeoutMs` 10 s, answers of 32 MiB decoded,
 * one body over 1 MiB at a time, 16 MiB for all of 64 KiB to 1 MiB together, one decompression, an upload stalled for
 * 30 s, an answer that has begun and brings less than 256 bytes in 30 s, and each call's one total deadline. undici's own
 * timeouts for headers and body are off: at 300 s they would end calls that a model still works on.
 * Proxies are passed in (proxy.ts). It follows no redirects and does not retry.
 *
 * Hot path: at most 52 microseconds of CPU a request at 2,048 in flight, undici and the kernel included (42 measured on
 * a quiet machine; bench/jobs/transport.ts). One timer for all calls sweeps over their deadlines; signals are listened to once, not per call.
 */
import { Socket } from "node:net";
import type * as undici from "undici";
import type { Clock } from "../clock.ts";
import type { Connection, ConnectionClient, ConnectionSettings, WireCall } from "./connection.ts";
import { Origin } from "./origin.ts";
import { type Connect, type HttpProxy, type ProxyOf, tunnelConnector } from "./proxy.ts";
import { HeaderReader } from "./response_headers.ts";
import { StreamedAnswer } from "./streamed_answer.ts";
import { Sweeps } from "./sweeps.ts";
import { TakerSemaphore } from "./taker_semaphore.ts";
import type {
  SendOptions,
  StreamOptions,
  StreamRequest,
  Transport,
  WireRequest,
  WireResult,
  WireStream,
} from "./transport.ts";
import { UPLOAD_PIECE_BYTES, Upload } from "./upload.ts";

export interface UndiciTransportOptions {
  readonly clock: Clock;
  /** Connections per origin at most; calls beyond wait in order. */
  readonly connectionsMax: number;
  /** For DNS, TCP and TLS together. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Bytes of a response body after decoding. Default 32 MiB. */
  readonly responseBytesMax?: number;
  /** A request of which the kernel takes nothing (of 256 KiB) for this long is given up. Default 30,000. */
  readonly uploadStallMs?: number;
  /** A response that has begun and delivers fewer than 256 bytes in this time is given up. Default 30,000. */
  readonly downloadStallMs?: number;
  /** How long an idle connection is kept when the server does not say; below the 5 s of common servers. Default 4,000. */
  readonly keepAliveMs?: number;
  /** Which origins are reached through a proxy; default none. */
  readonly proxyOf?: ProxyOf;
}

const RESPONSE_BYTES_MAX = 32 * 1024 * 1024;
/** A body beyond this needs one of the places for large bodies. */
const LARGE_BYTES = 1024 * 1024;
const LARGE_BODIES_MAX = 1;
/** Bodies up to this size are never held up. */
const SMALL_BYTES = 64 * 1024;
/** Bodies between the two, together; beyond it they need the place of a large one. */
const MIDDLE_BYTES_MAX = 16 * 1024 * 1024;
const DOWNLOAD_BYTES_MIN = 256;

export interface UndiciClasses {
  readonly Client: typeof undici.Client;
  readonly buildConnector: typeof undici.buildConnector;
}

/** A transport over sockets. `close` it, or idle connections stay for some seconds. */
export function createUndiciTransport(options: UndiciTransportOptions, classes: UndiciClasses): Transport {
  return new UndiciTransport(options, classes);
}

/** The two files that are needed: the whole of undici takes 40 ms more to load and 9 MB. Its version is pinned. */
export async function loadUndici(): Promise<UndiciClasses> {
  const [client, connect] = await Promise.all([
    // @ts-expect-error: undici has no types for its files.
    import("undici/lib/dispatcher/client.js"),
    // @ts-expect-error: undici has no types for its files.
    import("undici/lib/core/connect.js"),
  ]);
  return { Client: client.default, buildConnector: connect.default };
}

class UndiciTransport implements Transport {
  readonly #undici: UndiciClasses;
  readonly #clock: Clock;
  readonly #options: UndiciTransportOptions;
  readonly #shared: Omit<ConnectionSettings, "origin" | "headers">;
  readonly #origins = new Map<string, Origin>();
  /** Heads are stable objects of the codecs: each is turned into undici's form once. */
  readonly #heads = new WeakMap<WireRequest["headers"], readonly string[]>();
  /** Signals of calls under way: how many calls have it, and our one listener. */
  readonly #signals = new Map<AbortSignal, { calls: number; readonly listener: () => void }>();
  #calls = 0;
  readonly #sweeps: Sweeps;
  #closing: Promise<void> | undefined;

  constructor(options: UndiciTransportOptions, classes: UndiciClasses) {
    this.#undici = classes;
    const uploadStallMs = options.uploadStallMs ?? 30_000;
    const downloadStallMs = options.downloadStallMs ?? 30_000;
    this.#clock = options.clock;
    this.#options = options;
    this.#shared = {
      responseBytesMax: options.responseBytesMax ?? RESPONSE_BYTES_MAX,
      smallBytes: SMALL_BYTES,
      largeBytes: LARGE_BYTES,
      uploadStallMs,
      downloadStallMs,
      downloadBytesMin: DOWNLOAD_BYTES_MIN,
      largeBodies: new TakerSemaphore(LARGE_BODIES_MAX),
      middleBodies: { used: 0, max: MIDDLE_BYTES_MAX },
      unpacking: new TakerSemaphore(1),
    };
    const stallMs = Math.min(uploadStallMs, downloadStallMs);
    this.#sweeps = new Sweeps(options.clock, stallMs, (nowMs) => this.#sweep(nowMs));
  }

  send(request: WireRequest, options: SendOptions): Promise<WireResult> {
    return new Promise((resolve) => this.#start(request, options, resolve));
  }

  stream(request: StreamRequest, options: StreamOptions): Promise<WireStream> {
    return new Promise((resolve) => {
      const streamed = new StreamedAnswer(options.bytesMax, resolve);
      const upload = "chunks" in request.body ? new Upload(request.body) : undefined;
      this.#start(request, options, (result) => streamed.ended(result), streamed, upload);
    });
  }

  #start(
    request: StreamRequest,
    { timeoutMs, moreMs, signal }: SendOptions,
    resolve: (result: WireResult) => void,
    streamed?: StreamedAnswer,
    upload?: Upload,
  ): void {
    if (this.#closing !== undefined || signal?.aborted === true) {
      upload?.end();
      resolve({ ok: false, failure: "aborted", message: "stopped before sending" });
      return;
    }
    const nowMs = this.#clock.nowMs();
    const deadlineMs = nowMs + timeoutMs;
    this.#calls += 1;
    this.#sweeps.watch(nowMs, deadlineMs);
    if (signal !== undefined) this.#listen(signal);
    const headers = this.#headOf(request.headers);
    this.#origin(request.origin).take({
      request,
      upload,
      streamed,
      headers,
      startedMs: nowMs,
      deadlineMs,
      moreMs,
      signal,
      resolve,
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    const origins = [...this.#origins.values()];
    await Promise.all(origins.map((origin) => origin.close()));
    this.#sweeps.stop();
    for (const [signal, { listener }] of this.#signals) signal.removeEventListener("abort", listener);
    this.#signals.clear();
  }

  /** An origin calls it when one of its calls ended. */
  #ended({ signal, upload }: WireCall): void {
    upload?.end();
    this.#calls -= 1;
    if (this.#calls === 0) this.#sweeps.stop();
    if (signal !== undefined) this.#unlisten(signal);
  }

  #origin(name: string): Origin {
    let origin = this.#origins.get(name);
    if (origin === undefined) {
      const settings = { ...this.#shared, origin: name, headers: new HeaderReader() };
      const { connectionsMax, connectTimeoutMs = 10_000, keepAliveMs = 4_000 } = this.#options;
      const { Client, buildConnector } = this.#undici;
      const direct = buildConnector({ timeout: connectTimeoutMs });
      const proxy = this.#options.proxyOf?.(name);
      const isTunnel = proxy !== undefined && name.startsWith("https:");
      const time = { clock: this.#clock, timeoutMs: connectTimeoutMs };
      // Both take what undici's clients call connectors with, of which a tunnel needs a part.
      const connect = isTunnel
        ? (tunnelConnector(proxy, direct as Connect, time) as undici.buildConnector.connector)
        : direct;
      const relay = isTunnel ? undefined : proxy;
      origin = new Origin(
        settings,
        connectionsMax,
        () => new ClientWire(Client, name, { connect, keepAliveMs, relay }),
        (call) => this.#ended(call),
      );
      this.#origins.set(name, origin);
    }
    return origin;
  }

  #headOf(headers: WireRequest["headers"]): readonly string[] {
    let head = this.#heads.get(headers);
    if (head === undefined) {
      const given = Object.entries(headers).filter(([name]) => name !== "accept-encoding");
      head = [...given.flat(), "accept-encoding", "identity"];
      this.#heads.set(headers, head);
    }
    return head;
  }

  #listen(signal: AbortSignal): void {
    const known = this.#signals.get(signal);
    if (known !== undefined) {
      known.calls += 1;
      return;
    }
    const listener = (): void => {
      for (const origin of this.#origins.values()) origin.abort(signal);
    };
    this.#signals.set(signal, { calls: 1, listener });
    signal.addEventListener("abort", listener, { once: true });
  }

  #unlisten(signal: AbortSignal): void {
    const known = this.#signals.get(signal);
    if (known === undefined) return;
    known.calls -= 1;
    if (known.calls > 0) return;
    this.#signals.delete(signal);
    signal.removeEventListener("abort", known.listener);
  }

  #sweep(nowMs: number): number | undefined {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const origin of this.#origins.values()) nextMs = Math.min(nextMs, origin.sweep(nowMs));
    return this.#calls > 0 ? nextMs : undefined;
  }
}

/** One undici client, which is one connection at a time, and its socket. */
class ClientWire implements ConnectionClient {
  readonly #client: undici.Client;
  /** The prefix of the path, and more headers, for requests that a proxy forwards. */
  readonly #prefix: string = "";
  readonly #proxyHeaders: readonly string[] = [];
  #socket: Socket | undefined;
  #isConnecting = false;

  constructor(
    Client: typeof undici.Client,
    origin: string,
    {
      connect,
      keepAliveMs,
      relay,
    }: {
      readonly connect: undici.buildConnector.connector;
      readonly keepAliveMs: number;
      readonly relay: HttpProxy | undefined;
    },
  ) {
    if (relay !== undefined) {
      this.#prefix = origin;
      this.#proxyHeaders = ["host", new URL(origin).host];
      if (relay.authorization !== undefined)
        this.#proxyHeaders = [...this.#proxyHeaders, "proxy-authorization", relay.authorization];
    }
    this.#client = new Client(urlOf(relay?.origin ?? origin), {
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: keepAliveMs,
      connect: (options, callback) => this.#open(connect, options, callback),
    });
  }

  get socket(): Socket | undefined {
    return this.#socket;
  }

  dispatch({ request, upload, headers }: WireCall, handler: Connection): void {
    const { method = "POST", path } = request;
    const whole = request.body as Uint8Array; // without an upload
    const lengthBytes = upload === undefined ? whole.length : upload.lengthBytes;
    const isWhole = upload === undefined && lengthBytes <= UPLOAD_PIECE_BYTES;
    const parts = upload ?? (isWhole ? whole : pieces(whole));
    this.#client.dispatch(
      {
        method,
        path: this.#prefix + path,
        headers: this.#headersOf(headers, isWhole ? undefined : lengthBytes),
        // undici also takes iterables of bytes, which its types leave out.
        body: parts as Uint8Array,
        blocking: false,
      },
      handler,
    );
  }

  #headersOf(headers: readonly string[], lengthBytes: number | undefined): string[] {
    if (lengthBytes === undefined && this.#proxyHeaders.length === 0) return headers as string[]; // undici does not change them
    const length = lengthBytes === undefined ? [] : ["content-length", String(lengthBytes)];
    return [...headers, ...this.#proxyHeaders, ...length];
  }

  async destroy(): Promise<void> {
    const socket = this.#socket;
    const isOpen = socket !== undefined && !socket.closed;
    const closed = isOpen ? new Promise<void>((resolve) => socket.once("close", () => resolve())) : undefined;
    const destroyed = this.#client.destroy();
    // Until it is connected the client does not know its socket and would leave it open.
    if (this.#isConnecting) socket?.destroy(new Error("call ended"));
    await destroyed;
    await closed;
  }

  #open(
    connect: undici.buildConnector.connector,
    options: undici.buildConnector.Options,
    callback: undici.buildConnector.Callback,
  ): void {
    this.#isConnecting = true;
    const socket: unknown = connect(options, (...result) => {
      this.#isConnecting = false;
      if (result[1] instanceof Socket) this.#socket = result[1]; // that of a tunnel
      callback(...result);
    });
    // The connector returns its socket, which its types leave out.
    this.#socket = socket instanceof Socket ? socket : undefined;
  }
}

/** undici asks for the origin at every request, and Node builds it again each time: 0.45 us. */
function urlOf(origin: string): URL {
  const url = new URL(origin);
  return Object.defineProperty(url, "origin", { value: url.origin });
}

function* pieces(body: Uint8Array): Generator<Uint8Array> {
  for (let from = 0; from < body.length; from += UPLOAD_PIECE_BYTES)
    yield body.subarray(from, from + UPLOAD_PIECE_BYTES);
}
