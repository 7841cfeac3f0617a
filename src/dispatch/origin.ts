/**
 * The connections of one origin and the calls that wait for one, in order.
 */
import {
  Connection,
  type ConnectionClient,
  type ConnectionOwner,
  type ConnectionSettings,
  isOver,
  type WireCall,
} from "./connection.ts";

export class Origin implements ConnectionOwner {
  readonly #settings: ConnectionSettings;
  readonly #connectionsMax: number;
  /** Makes the client of a new connection; it connects when it is first used. */
  readonly #open: () => ConnectionClient;
  /** Called whenever a call ended. */
  readonly #onEnded: (call: WireCall) => void;
  readonly #connections = new Set<Connection>();
  /** The last used is taken first: it is warm, and the others may close. */
  readonly #free: Connection[] = [];
  /** A `Set` keeps the order and lets a call leave without a scan. */
  readonly #waiting = new Set<WireCall>();
  /** Sockets of discarded connections that are still closing. */
  readonly #closing = new Set<Promise<void>>();
  #isClosed = false;

  constructor(
    settings: ConnectionSettings,
    connectionsMax: number,
    open: () => ConnectionClient,
    onEnded: (call: WireCall) => void,
  ) {
    this.#settings = settings;
    this.#connectionsMax = connectionsMax;
    this.#open = open;
    this.#onEnded = onEnded;
  }

  /** Starts the call, or queues it when all connections are busy. */
  take(call: WireCall): void {
    const connection = this.#free.pop() ?? this.#connect();
    if (connection === undefined) this.#waiting.add(call);
    else connection.start(call);
  }

  /** Ends the calls that have this signal. */
  abort(signal: AbortSignal): void {
    for (const call of this.#waiting) if (call.signal === signal) this.#drop(call, "aborted");
    for (const connection of this.#connections)
      if (connection.signal === signal) connection.cancel("aborted", "stopped by the caller");
  }

  /** Ends what is past its deadline or stalled; returns when to look again. */
  sweep(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const connection of this.#connections) nextMs = Math.min(nextMs, connection.sweep(nowMs));
    for (const call of this.#waiting) {
      if (isOver(call, nowMs)) this.#drop(call, "not_sent");
      else nextMs = Math.min(nextMs, call.deadlineMs);
    }
    return nextMs;
  }

  /** Ends everything; resolves when every socket is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const call of this.#waiting) this.#drop(call, "aborted");
    for (const connection of this.#connections) connection.cancel("aborted", "the transport was closed");
    await Promise.all(this.#closing);
  }

  released(connection: Connection, call: WireCall): void {
    this.#onEnded(call);
    if (this.#waiting.size === 0) this.#free.push(connection);
    else this.#startOn(connection);
  }

  discarded(connection: Connection, call: WireCall | undefined, closed: Promise<void>): void {
    this.#connections.delete(connection);
    this.#closing.add(closed);
    void closed.finally(() => this.#closing.delete(closed));
    if (call !== undefined) this.#onEnded(call);
    // Later, so that a queue of calls that all fail at once does not nest.
    if (this.#waiting.size > 0) queueMicrotask(() => this.#startNext());
  }

  #startNext(): void {
    if (this.#waiting.size === 0) return;
    const connection = this.#free.pop() ?? this.#connect();
    if (connection !== undefined) this.#startOn(connection);
  }

  /** The call that has waited longest. */
  #startOn(connection: Connection): void {
    for (const next of this.#waiting) {
      this.#waiting.delete(next);
      connection.start(next);
      return;
    }
  }

  #connect(): Connection | undefined {
    if (this.#isClosed || this.#connections.size >= this.#connectionsMax) return undefined;
    const connection = new Connection(this.#open(), this, this.#settings);
    this.#connections.add(connection);
    return connection;
  }

  #drop(call: WireCall, failure: "aborted" | "not_sent"): void {
    this.#waiting.delete(call);
    this.#onEnded(call);
    const { origin } = this.#settings;
    const message =
      failure === "aborted" ? "stopped before sending" : `no connection to ${origin} was free in time`;
    call.resolve({ ok: false, failure, message });
  }
}
