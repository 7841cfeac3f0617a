/**
 * A TCP proxy on loopback whose far end is a number of milliseconds away: each byte arrives half a round trip after it was sent, in order, as on a line
 * that is long and not narrow.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export class FarLine {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Milliseconds of a round trip from now on. */
  roundTripMs = 0;

  private constructor(server: Server, target: number) {
    this.#server = server;
    server.on("connection", (near) => {
      const far = connect(target, "127.0.0.1");
      this.#carry(near, far);
      this.#carry(far, near);
    });
  }

  /** To a port of this machine. */
  static async open(target: number): Promise<FarLine> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new FarLine(server, target);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #carry(from: Socket, to: Socket): void {
    from.setNoDelay(true);
    this.#sockets.add(from);
    const later = (arrives: () => void): void => {
      setTimeout(arrives, this.roundTripMs / 2); // equal waits end in order
    };
    from.on("data", (bytes) => later(() => to.write(bytes)));
    from.on("error", () => undefined);
    from.on("close", () => {
      this.#sockets.delete(from);
      later(() => to.destroy());
    });
  }
}
