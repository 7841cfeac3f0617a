/**
 * Requests to addresses that users name: only public ones (and the operator's allow-list), even if the name's address changes.
 *
 *   checked (`destination.ts`) -> resolved -> every address checked -> connected to one of them -> peer checked -> sent
 *        \-> blocked_destination             \-> blocked_destination        \-> the next one
 *
 * `connect` does the same for protocols other than HTTP, at any port.
 *
 * Each request resolves and checks again, and connects to an address that it checked, never to a name: a name that
 * changes between check and connection (DNS rebinding) gains nothing. Redirects are answers like others, proxies of the
 * environment are not used, and connections are not kept.
 *
 * Limits: one deadline over everything, 5 s for connecting to one address, four addresses tried, and of the answer's body the
 * first `responseBytesMax`; then the connection is cut.
 */
import assert from "node:assert/strict";
import { isIP, isIPv6, Socket } from "node:net";
import type { Clock, Timer } from "../clock.ts";
import { openPinnedClient } from "../dispatch/pinned.ts";
import { loadUndici, type UndiciClasses } from "../dispatch/undici.ts";
import type { HeaderBag } from "../providers/provider.ts";
import { AllowList, isGlobalAddress, isSameAddress } from "./address.ts";
import { type Blocked, type Destination, destinationOf } from "./destination.ts";
import { type Resolve, resolveName } from "./resolve.ts";

export interface EgressOptions {
  readonly clock: Clock;
  /** Networks of the operator's own that may be reached too. Default: none. */
  readonly allow?: AllowList;
  /** Ports besides 80, 443 and 8443. */
  readonly ports?: readonly number[];
  /** Default: name servers, and the system for local names. */
  readonly resolve?: Resolve;
}

export interface GuardedRequest {
  readonly url: string;
  readonly method: string;
  /** Lower-case names; `host` and what frames the message are set here. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** From the call to the last byte, names included. */
  readonly timeoutMs: number;
  readonly responseBytesMax: number;
  /** Takes the answer's body as it arrives, in place of the result, where it is empty then. The bound is the same. */
  readonly onBody?: (chunk: Uint8Array, status: number) => void;
  readonly signal?: AbortSignal;
}

/** `not_sent`: no byte of the request left. `lost`: the connection ended before there was a status. */
export type GuardedFailure = "blocked_destination" | "not_sent" | "lost" | "timeout" | "aborted";

export type GuardedResult =
  | {
      readonly ok: true;
      readonly status: number;
      readonly headers: HeaderBag;
      /** Its first bytes. */
      readonly body: Uint8Array;
      /** False when it was longer than wanted, or the connection or the time ended within it. */
      readonly isWhole: boolean;
    }
  /** The message does not show addresses. */
  | { readonly ok: false; readonly failure: GuardedFailure; readonly message: string };

/** May be used concurrently; never rejects, never retries, follows nothing. */
export interface Egress {
  /** What can be checked without asking a name server. */
  check(url: string): Destination | Blocked;
  request(request: GuardedRequest): Promise<GuardedResult>;
  /** A connection for other protocols, to one checked address of the host; TLS is the caller's, under the host's name. */
  connect(wanted: GuardedConnection): Promise<ConnectionResult>;
}

export interface GuardedConnection {
  /** A name, or an address (IPv6 without brackets). */
  readonly host: string;
  /** Whichever the protocol has; 1 to 65,535. */
  readonly port: number;
  /** Until it is connected, the name server included. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

export type ConnectionResult =
  /** Connected, paused, and the caller's to close. */
  { readonly ok: true; readonly socket: Socket } | Failed;

const CONNECT_MS = 5_000;
const ADDRESSES_TRIED = 4;
/** Set here, or by nobody. */
const OWN_HEADERS: readonly string[] = [
  "host",
  "connection",
  "content-length",
  "transfer-encoding",
  "upgrade",
  "te",
];

export function createEgress(options: EgressOptions): Egress {
  const { clock, allow = new AllowList([]), ports = [], resolve = resolveName } = options;
  const check = (url: string): Destination | Blocked => destinationOf(url, { allow, ports });
  return {
    check,
    async request(request) {
      const destination = check(request.url);
      if (!destination.ok) return failed("blocked_destination", destination.message);
      const classes = await loadUndici();
      const end = new CallEnd(clock, request);
      try {
        const found = await Promise.race([addressesOf(destination, { allow, resolve }), end.reached]);
        if ("ok" in found) return found;
        return await sendToFirst(found, { destination, request, end, classes });
      } finally {
        end.cancel();
      }
    },
    async connect(wanted) {
      const { host, port } = wanted;
      const destination = destinationOf(urlOf(host, port), { allow, ports: [port] });
      if (!destination.ok) return failed("blocked_destination", destination.message);
      const end = new CallEnd(clock, wanted);
      try {
        const found = await Promise.race([addressesOf(destination, { allow, resolve }), end.reached]);
        if ("ok" in found) return found;
        return await connectToFirst(found, port, end);
      } finally {
        end.cancel();
      }
    },
  };
}

/** For `destinationOf`, which knows addresses by their URL. */
function urlOf(host: string, port: number): string {
  return `http://${isIPv6(host) ? `[${host}]` : host}:${port}/`;
}

type Failed = Extract<GuardedResult, { ok: false }>;

/** All addresses of the destination, or why it may not be called. */
async function addressesOf(
  { host, isAddress, isAllowedOnly }: Destination,
  { allow, resolve }: { readonly allow: AllowList; readonly resolve: Resolve },
): Promise<readonly string[] | Failed> {
  if (isAddress) return [host];
  let addresses: readonly string[];
  try {
    addresses = await resolve(host, { isLocal: isAllowedOnly && !allow.isEmpty });
  } catch {
    addresses = [];
  }
  if (addresses.length === 0) return failed("not_sent", "the name has no address");
  const mayReach = (address: string): boolean =>
    allow.has(address) || (!isAllowedOnly && isGlobalAddress(address));
  if (!addresses.every(mayReach))
    return failed("blocked_destination", "the url does not lead to a public address");
  return addresses;
}

interface Sending {
  readonly destination: Destination;
  readonly request: GuardedRequest;
  readonly end: CallEnd;
  readonly classes: UndiciClasses;
}

async function sendToFirst(addresses: readonly string[], sending: Sending): Promise<GuardedResult> {
  let result: GuardedResult = failed("not_sent", "no connection was made");
  for (const address of addresses.slice(0, ADDRESSES_TRIED)) {
    result = await send(address, sending);
    if (result.ok || result.failure !== "not_sent") break;
  }
  return result;
}

async function send(
  address: string,
  { destination, request, end, classes }: Sending,
): Promise<GuardedResult> {
  const options = {
    origin: destination.origin,
    address,
    connectTimeoutMs: CONNECT_MS,
    isPeer: (peer: string) => isSameAddress(peer, address),
  };
  const client = openPinnedClient(options, classes);
  const answer = new Answer(request);
  const over = new Promise<GuardedResult>((resolve) => {
    client.send(
      {
        method: request.method,
        path: destination.path,
        headers: Object.fromEntries(
          Object.entries(request.headers).filter(([name]) => !OWN_HEADERS.includes(name)),
        ),
        body: request.body,
      },
      {
        onHead: (status, headers) => answer.begin(status, headers),
        onChunk: (chunk) => {
          if (!answer.add(chunk)) resolve(answer.result(false));
        },
        onEnd: (isWhole) =>
          resolve(
            answer.hasBegun
              ? answer.result(isWhole)
              : client.isConnected
                ? failed("lost", "the connection ended without an answer")
                : failed("not_sent", "no connection was made"),
          ),
      },
    );
  });
  const result = await Promise.race([over, end.reached]);
  client.destroy();
  return !result.ok && answer.hasBegun ? answer.result(false) : result;
}

async function connectToFirst(
  addresses: readonly string[],
  port: number,
  end: CallEnd,
): Promise<ConnectionResult> {
  for (const address of addresses.slice(0, ADDRESSES_TRIED)) {
    const attempt = openSocket(address, port);
    const result = await Promise.race([attempt.connected, end.reached]);
    if (result === true) return { ok: true, socket: attempt.socket };
    attempt.socket.destroy();
    if (result !== false) return result;
  }
  return failed("not_sent", "no connection was made");
}

/** Connects to an address and to nothing else: anything but an address would be resolved again. */
function openSocket(
  address: string,
  port: number,
): { readonly socket: Socket; readonly connected: Promise<boolean> } {
  assert(isIP(address) !== 0);
  const socket = new Socket();
  const connected = new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(isSameAddress(socket.remoteAddress ?? "", address)));
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false));
  });
  socket.pause().connect({ host: address, port, autoSelectFamily: false });
  return { socket, connected };
}

/** The head of an answer and the first bytes of its body. */
class Answer {
  readonly #bytesMax: number;
  readonly #onBody: GuardedRequest["onBody"];
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  #head: { readonly status: number; readonly headers: HeaderBag } | undefined;

  constructor({ responseBytesMax, onBody }: Pick<GuardedRequest, "responseBytesMax" | "onBody">) {
    this.#bytesMax = responseBytesMax;
    this.#onBody = onBody;
  }

  get hasBegun(): boolean {
    return this.#head !== undefined;
  }

  begin(status: number, headers: HeaderBag): void {
    this.#head = { status, headers };
  }

  /** False when there is more than wanted. */
  add(chunk: Uint8Array): boolean {
    const wanted = chunk.subarray(0, Math.max(0, this.#bytesMax - this.#bytes));
    if (this.#onBody === undefined) this.#chunks.push(wanted);
    else this.#onBody(wanted, this.#head?.status ?? 0);
    this.#bytes += chunk.length;
    return this.#bytes <= this.#bytesMax;
  }

  result(isWhole: boolean): GuardedResult {
    if (this.#head === undefined) return failed("lost", "the connection ended without an answer");
    return { ok: true, ...this.#head, body: Buffer.concat(this.#chunks), isWhole };
  }
}

/** The deadline and the signal of a call, as one promise. */
class CallEnd {
  readonly reached: Promise<Failed>;
  #cancel: () => void = () => undefined;

  constructor(clock: Clock, { timeoutMs, signal }: Pick<GuardedRequest, "timeoutMs" | "signal">) {
    this.reached = new Promise((resolve) => {
      const onAbort = (): void => resolve(failed("aborted", "stopped"));
      const timer: Timer = clock.timer(timeoutMs, () => resolve(failed("timeout", "no answer in time")));
      if (signal?.aborted === true) onAbort();
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#cancel = () => {
        timer.cancel();
        signal?.removeEventListener("abort", onAbort);
      };
    });
  }

  cancel(): void {
    this.#cancel();
  }
}

function failed(failure: GuardedFailure, message: string): Failed {
  return { ok: false, failure, message };
}
