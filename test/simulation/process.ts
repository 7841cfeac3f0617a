/**
 * A process that can be killed: what it sees of the clock, the wire and the disk ends with it, as at `kill -9`.
 */
import type { Clock } from "../../src/clock.ts";
import { sleepOn } from "../../src/clock.ts";
import type { Disk } from "../../src/disk.ts";
import type { Transport, WireRequest, WireResult } from "../../src/dispatch/transport.ts";
import type { Served, SimulatedProviders } from "./provider.ts";

export class SimulatedProcess {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly disk: Disk;
  /** Resolves when it is killed. */
  readonly died: Promise<"died">;
  /** Requests whose end it has not seen. */
  readonly #inFlight = new Set<() => void>();
  #isDead = false;
  #die: () => void = () => undefined;

  constructor(clock: Clock, wire: Transport, disk: Disk, providers: SimulatedProviders) {
    this.died = new Promise((resolve) => {
      this.#die = () => resolve("died");
    });
    this.clock = {
      nowMs: () => clock.nowMs(),
      wallMs: () => clock.wallMs(),
      moment: () => clock.moment(),
      timer: (delayMs, callback) => clock.timer(delayMs, () => this.#live(callback)),
      soon: (callback) => clock.soon(() => this.#live(callback)),
      sleep: (delayMs, options) => sleepOn(this.clock, delayMs, options?.signal),
      random: () => clock.random(),
    };
    this.disk = {
      open: (path, mode) => this.whileAlive(() => disk.open(path, mode)),
      stat: (path) => this.whileAlive(() => disk.stat(path)),
      rename: (from, to) => this.whileAlive(() => disk.rename(from, to)),
      makePrivateFolder: (path) => this.whileAlive(() => disk.makePrivateFolder(path)),
      list: (folder) => this.whileAlive(() => disk.list(folder)),
      remove: (path) => this.whileAlive(() => disk.remove(path)),
    };
    this.transport = {
      send: (request, options) => this.#send(wire, providers, request, options),
      stream: () => Promise.reject(new Error("not used")),
      close: async () => {
        for (const abort of [...this.#inFlight]) abort();
      },
    };
  }

  /** What a dead process would do does not happen, and what it waits for never comes. */
  whileAlive<T>(call: () => Promise<T>): Promise<T> {
    const never = new Promise<T>(() => undefined);
    if (this.#isDead) return never;
    return call().finally(() => (this.#isDead ? never : undefined));
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  kill(): void {
    this.#isDead = true;
    this.#die();
  }

  #live(callback: () => void): void {
    if (!this.#isDead) callback();
  }

  async #send(
    wire: Transport,
    providers: SimulatedProviders,
    request: WireRequest,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<WireResult> {
    if (this.#isDead) return new Promise(() => undefined);
    const sent = wire.send(request, options);
    const served = providers.served.at(-1) as Served;
    return new Promise((resolve) => {
      const abort = (): void => {
        served.isOver = true;
        served.overAtMs = this.clock.nowMs();
        this.#inFlight.delete(abort);
        resolve({ ok: false, failure: "aborted", message: "the transport is closed" });
      };
      this.#inFlight.add(abort);
      void sent.then((result) => {
        if (this.#isDead || served.isOver) return;
        served.isOver = true;
        served.overAtMs = this.clock.nowMs();
        served.isDelivered = result.ok;
        served.isCut = !result.ok && (result.failure === "timeout" || result.failure === "aborted");
        this.#inFlight.delete(abort);
        providers.onDelivered?.(served);
        resolve(result);
      });
    });
  }
}
