/**
 * A server of raw bytes for the wire's tests: it reads whole requests and lets each test answer as wrongly as it likes.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { Transport, WireResult } from "../../src/dispatch/transport.ts";
import { createUndiciTransport, loadUndici, type UndiciTransportOptions } from "../../src/dispatch/undici.ts";

/** A request as it came. */
export interface Received {
  readonly head: string;
  readonly body: Buffer;
  /** Which request of all that this server got, from 1. */
  readonly number: number;
}

export interface RawServer {
  readonly origin: string;
  readonly received: Received[];
  readonly sockets: Set<Socket>;
  connections: number;
}

/** Calls `answer` for each whole request. */
export function serve(answer: (socket: Socket, request: Received) => void): Promise<RawServer> {
  return listen((socket, server) => {
    let bytes = Buffer.alloc(0);
    socket.on("data", (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (;;) {
        const end = bytes.indexOf("\r\n\r\n");
        if (end < 0) return;
        const head = bytes.subarray(0, end).toString("latin1");
        const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
        if (bytes.length < end + 4 + length) return;
        const request = {
          head,
          body: bytes.subarray(end + 4, end + 4 + length),
          number: server.received.length + 1,
        };
        bytes = bytes.subarray(end + 4 + length);
        server.received.push(request);
        answer(socket, request);
      }
    });
  });
}

/** Calls `onSocket` for each connection, before anything was read. */
export async function listen(
  onSocket: (socket: Socket, server: RawServer) => void,
  server: Server = createServer({ allowHalfOpen: true }),
): Promise<RawServer> {
  const sockets = new Set<Socket>();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const raw: RawServer = { origin: `http://127.0.0.1:${port}`, received: [], sockets, connections: 0 };
  server.on("connection", (socket: Socket) => {
    raw.connections += 1;
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("end", () => socket.end());
    socket.on("close", () => sockets.delete(socket));
    onSocket(socket, raw);
  });
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return raw;
}

const undici = await loadUndici();

export function open(options: Partial<UndiciTransportOptions> = {}): Transport {
  const transport = createUndiciTransport({ clock: systemClock, connectionsMax: 64, ...options }, undici);
  onTestFinished(() => transport.close());
  return transport;
}

export function post(
  transport: Transport,
  origin: string,
  options: { readonly body?: Uint8Array; readonly timeoutMs?: number; readonly signal?: AbortSignal } = {},
): Promise<WireResult> {
  const { body = Buffer.from('{"prompt":"secret prompt"}'), timeoutMs = 10_000, signal } = options;
  const headers = { "content-type": "application/json", authorization: "Bearer sk-secret" };
  return transport.send({ origin, path: "/v1/chat/completions", headers, body }, { timeoutMs, signal });
}

/** A whole answer. */
export function whole(body: string | Buffer, headers = ""): Buffer {
  const bytes = Buffer.from(body as string);
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n${headers}\r\n`),
    bytes,
  ]);
}

/** `ok 200`, or the failure. */
export function verdict(result: WireResult): string {
  return result.ok ? `ok ${result.status}` : result.failure;
}

export function textOf(result: WireResult): string {
  return result.ok ? Buffer.from(result.body).toString() : `${result.failure}: ${result.message}`;
}

export function pause(ms: number): Promise<void> {
  return systemClock.sleep(ms);
}
