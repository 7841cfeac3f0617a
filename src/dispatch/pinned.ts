/**
 * A client for one request to one address that was chosen before: for addresses that users name (`egress/`).
 *
 *   new -> connecting -> connected -> answered | ended
 *
 * No name is resolved, no redirect followed, nothing retried or kept, and no proxy of the environment is used.
 */
import { Socket } from "node:net";
import type { HeaderBag } from "../providers/provider.ts";
import { HeaderReader } from "./response_headers.ts";
import type { UndiciClasses } from "./undici.ts";

/** One request over one connection, to one address. */
export interface PinnedClientOptions {
  /** `https://name:443`: for the Host header, and the name that the certificate must have. */
  readonly origin: string;
  /** The address of the connection, for any name. */
  readonly address: string;
  /** For TCP and TLS together. */
  readonly connectTimeoutMs: number;
  /** Asked with the peer of the connection before a byte of the request leaves. */
  readonly isPeer: (address: string) => boolean;
}

export interface PinnedCall {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
}

/** Called in this order; `onEnd` once, also when nothing arrived, and not after `destroy`. */
export interface PinnedHandler {
  onHead(status: number, headers: HeaderBag): void;
  onChunk(chunk: Uint8Array): void;
  onEnd(isWhole: boolean): void;
}

export interface PinnedClient {
  readonly isConnected: boolean;
  /** Once. */
  send(call: PinnedCall, handler: PinnedHandler): void;
  /** Cuts the connection, in any state. */
  destroy(): void;
}

/** Nothing is opened before `send`. */
export function openPinnedClient(options: PinnedClientOptions, classes: UndiciClasses): PinnedClient {
  return new UndiciPinnedClient(options, classes);
}

class UndiciPinnedClient implements PinnedClient {
  readonly #client: InstanceType<UndiciClasses["Client"]>;
  #socket: Socket | undefined;
  #isConnected = false;
  #isDestroyed = false;

  constructor(options: PinnedClientOptions, { Client, buildConnector }: UndiciClasses) {
    const { origin, address, connectTimeoutMs, isPeer } = options;
    const connect = buildConnector({ timeout: connectTimeoutMs });
    this.#client = new Client(origin, {
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (given, callback) => {
        const socket: unknown = connect({ ...given, hostname: address }, (...[error, opened]) => {
          if (error !== null) return callback(error, null);
          // A lookup is not called for literal addresses, so that the peer's address is checked as well.
          if (!isPeer(opened.remoteAddress ?? "")) {
            opened.destroy();
            return callback(new Error("connected to another address"), null);
          }
          this.#isConnected = true;
          callback(null, opened);
        });
        // The connector returns its socket, which its types leave out.
        this.#socket = socket instanceof Socket ? socket : undefined;
      },
    });
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  send({ method, path, headers, body }: PinnedCall, handler: PinnedHandler): void {
    const reader = new HeaderReader();
    const all = { ...headers, "accept-encoding": "identity", connection: "close" };
    const end = (isWhole: boolean): void => {
      if (!this.#isDestroyed) handler.onEnd(isWhole);
    };
    this.#client.dispatch(
      // Any method is sent; undici's types name the usual ones.
      { method: method as "POST", path, headers: all, body: body ?? null },
      {
        onConnect: () => undefined,
        onHeaders: (status, raw) => {
          if (status >= 200) handler.onHead(status, reader.read(raw));
          return true;
        },
        onData: (chunk) => {
          if (!this.#isDestroyed) handler.onChunk(chunk);
          return true;
        },
        onComplete: () => end(true),
        onError: () => end(false),
      },
    );
  }

  destroy(): void {
    this.#isDestroyed = true;
    void this.#client.destroy();
    // Until it is connected the client does not know its socket and would leave it open.
    this.#socket?.destroy();
  }
}
