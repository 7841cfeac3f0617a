/**
 * A TCP proxy on loopback between two programs, whose connections can be cut, held, slowed and torn.
 *
 *   open       bytes pass
 *   cut        connections are reset, new ones are closed at once
 *   held       nothing passes in either direction, not even the end of a connection; new ones are accepted. What was sent arrives when it is open
 *              again, as TCP sends it again after a partition.
 *   up_held    nothing passes to the server, its answers still arrive
 *   down_held  the server receives everything, nothing of what it answers arrives
 *   slow       each chunk arrives 20 to 150 ms late, in order: a far server, not one behind a narrow line
 *   torn       each connection is reset in the middle of one of its next chunks
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export type ProxyMode = "open" | "cut" | "held" | "up_held" | "down_held" | "slow" | "torn";

interface Chunk {
  readonly bytes: Buffer;
  readonly arrivedMs: number;
}

/** Of one connection. */
interface Pipe {
  readonly from: Socket;
  readonly to: Socket;
  readonly isUp: boolean;
  /** What has not been passed yet; `undefined` is the end. */
  readonly waiting: (Chunk | undefined)[];
  /** Chunks until it is torn. */
  tearIn: number;
  isPassing: boolean;
}

const TORN_AFTER_MAX = 12;

interface Target {
  readonly host: string;
  readonly port: number;
}

export class TcpProxy {
  readonly #server: Server;
  readonly #target: Target;
  readonly #random: () => number;
  readonly #pipes = new Set<Pipe>();
  #mode: ProxyMode = "open";

  private constructor(server: Server, target: Target, random: () => number) {
    this.#server = server;
    this.#target = target;
    this.#random = random;
    server.on("connection", (socket) => this.#accept(socket));
  }

  static async open(target: Target, random: () => number): Promise<TcpProxy> {
    const server = createServer({ allowHalfOpen: true });
    const proxy = new TcpProxy(server, target, random);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  set mode(mode: ProxyMode) {
    this.#mode = mode;
    if (mode === "cut") for (const { from } of this.#pipes) from.resetAndDestroy();
    for (const pipe of this.#pipes) {
      pipe.tearIn = Math.floor(this.#random() * TORN_AFTER_MAX);
      void this.#pass(pipe);
    }
  }

  close(): void {
    this.mode = "cut";
    this.#server.close();
  }

  #accept(client: Socket): void {
    if (this.#mode === "cut") {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ ...this.#target, allowHalfOpen: true });
    const pipes = [this.#pipe(client, server, true), this.#pipe(server, client, false)];
    const end = (): void => {
      for (const pipe of pipes) this.#pipes.delete(pipe);
      client.destroy();
      server.destroy();
    };
    client.once("error", end).once("close", () => this.#left(server, end));
    server.once("error", end).once("close", () => this.#left(client, end));
  }

  /** One end is closed. While nothing passes, the other end does not learn it. */
  #left(other: Socket, end: () => void): void {
    if (this.#mode === "open" || this.#mode === "cut" || other.destroyed) {
      end();
      return;
    }
    const timer = setInterval(() => {
      if (this.#mode !== "open" && this.#mode !== "cut" && !other.destroyed) return;
      clearInterval(timer);
      end();
    }, 50);
    timer.unref();
  }

  #pipe(from: Socket, to: Socket, isUp: boolean): Pipe {
    const tearIn = Math.floor(this.#random() * TORN_AFTER_MAX);
    const pipe: Pipe = { from, to, isUp, waiting: [], tearIn, isPassing: false };
    this.#pipes.add(pipe);
    from.setNoDelay(true);
    from.on("data", (chunk: Buffer) => {
      pipe.waiting.push({ bytes: chunk, arrivedMs: performance.now() });
      void this.#pass(pipe);
    });
    from.once("end", () => {
      pipe.waiting.push(undefined);
      void this.#pass(pipe);
    });
    return pipe;
  }

  #isHeld({ isUp }: Pipe): boolean {
    return this.#mode === "held" || this.#mode === (isUp ? "up_held" : "down_held");
  }

  async #pass(pipe: Pipe): Promise<void> {
    if (pipe.isPassing) return;
    pipe.isPassing = true;
    const { from, to, waiting } = pipe;
    while (waiting.length > 0 && !this.#isHeld(pipe)) {
      if (this.#mode === "slow") await this.#late(waiting[0]);
      if (this.#isHeld(pipe)) break;
      const chunk = waiting.shift()?.bytes;
      if (chunk === undefined) {
        to.end();
        break;
      }
      if (this.#mode === "torn" && pipe.tearIn-- <= 0 && chunk.byteLength > 1) {
        to.write(chunk.subarray(0, chunk.byteLength >> 1), () => {
          from.resetAndDestroy();
          to.resetAndDestroy();
        });
        break;
      }
      if (!to.destroyed && !to.write(chunk)) {
        from.pause();
        await Promise.race([once(to, "drain"), once(to, "close")]).catch(() => undefined);
        from.resume();
      }
    }
    if (this.#isHeld(pipe) && waiting.length > 64) from.pause();
    else from.resume();
    pipe.isPassing = false;
  }

  /** Its delay counts from its arrival: those that wait behind another one are late together. */
  async #late(chunk: Chunk | undefined): Promise<void> {
    const sinceMs = chunk === undefined ? 0 : performance.now() - chunk.arrivedMs;
    const lateMs = 20 + 130 * this.#random() - sinceMs;
    if (lateMs > 0) await new Promise((resolve) => setTimeout(resolve, lateMs));
  }
}
