/**
 * Where users reach the service: what `output_url` begins with.
 *
 *   configured                -> that
 *   listening                 -> its own address
 *   mounted in another server -> where its first request arrived: the address of that server, and the path it is mounted at
 *
 * It reads the address of the socket, not the header Host, which callers can choose.
 */
import type { IncomingMessage } from "node:http";

/** Until anything is known. */
const UNKNOWN = "http://127.0.0.1";

export class PublicUrl {
  readonly #configured: string | undefined;
  #found: string | undefined;

  /** Without a slash at its end. */
  constructor(configured: string | undefined) {
    this.#configured = configured;
  }

  get text(): string {
    return this.#configured ?? this.#found ?? UNKNOWN;
  }

  listensOn(address: string): void {
    this.#found = address;
  }

  /** A request arrived through the handler. */
  came(request: IncomingMessage): void {
    if (this.#configured === undefined) this.#found ??= mountedAt(request);
  }
}

/** Undefined when the path does not show it. Express and Connect keep the whole path in `originalUrl`. */
function mountedAt(request: IncomingMessage & { readonly originalUrl?: string }): string | undefined {
  const { url = "/", originalUrl = url, socket } = request;
  const { localAddress, localPort } = socket;
  if (localAddress === undefined || localPort === undefined) return undefined;
  if (!originalUrl.startsWith("/") || !originalUrl.endsWith(url)) return undefined;
  const address = localAddress.replace(/^::ffff:(?=\d+\.)/, "");
  const host = address.includes(":") ? `[${address}]` : address;
  const scheme = "encrypted" in socket ? "https" : "http";
  return `${scheme}://${host}:${localPort}${originalUrl.slice(0, -url.length)}`;
}
