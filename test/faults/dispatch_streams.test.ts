/** Streamed requests and answers over real sockets, to servers that misbehave; and the contract of a transport. */
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  type StreamOptions,
  type Transport,
  WireError,
  type WireStream,
} from "../../src/dispatch/transport.ts";
import { transportContract } from "../../src/testing/transport_contract.ts";
import { listen, open, pause, post, serve, verdict, whole } from "./dispatch_server.ts";

const MIB = 1024 * 1024;
const OPTIONS = { timeoutMs: 10_000, bytesMax: 64 * MIB };

function get(
  transport: Transport,
  origin: string,
  options: Partial<StreamOptions> = {},
): Promise<WireStream> {
  const request = { method: "GET", origin, path: "/file", headers: {}, body: new Uint8Array() } as const;
  return transport.stream(request, { ...OPTIONS, ...options });
}

function upload(
  transport: Transport,
  origin: string,
  chunks: AsyncIterable<Uint8Array>,
  lengthBytes: number,
): Promise<WireStream> {
  return transport.stream({ origin, path: "/files", headers: {}, body: { chunks, lengthBytes } }, OPTIONS);
}

/** What was read, and how the reading ended. */
async function read(stream: WireStream): Promise<{ bytes: number; end: string }> {
  let bytes = 0;
  if (!stream.ok) return { bytes, end: stream.failure };
  try {
    for await (const chunk of stream.chunks) bytes += chunk.length;
    return { bytes, end: "whole" };
  } catch (error) {
    return { bytes, end: error instanceof WireError ? error.failure : String(error) };
  }
}

/** Notes whether it was closed. */
function source(steps: () => AsyncGenerator<Uint8Array>) {
  const seen = { isClosed: false, bytes: 0 };
  async function* chunks() {
    try {
      for await (const chunk of steps()) {
        seen.bytes += chunk.length;
        yield chunk;
      }
    } finally {
      seen.isClosed = true;
    }
  }
  return { seen, chunks: chunks() };
}

async function* zeros(count: number) {
  for (let index = 0; index < count; index += 1) yield new Uint8Array(64 * 1024);
}

describe("a streamed answer", () => {
  it.each([
    ["with a length, cut short", `content-length: ${2 * MIB}\r\n\r\n`, (socket: Socket) => socket.end()],
    [
      "with a length, reset",
      `content-length: ${2 * MIB}\r\n\r\n`,
      (socket: Socket) => socket.resetAndDestroy(),
    ],
    [
      "in chunks, cut short",
      "transfer-encoding: chunked\r\n\r\n100000\r\n",
      (socket: Socket) => socket.end(),
    ],
  ])("that is torn (%s) is an error for a quick reader and for a slow one", async (_, head, tear) => {
    const server = await serve((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${head}`);
      socket.write(Buffer.alloc(MIB - 1000, "x"), () => setTimeout(() => tear(socket), 20));
    });
    const transport = open();
    expect((await read(await get(transport, server.origin))).end).toBe("lost");
    const slow = await get(transport, server.origin);
    await pause(100);
    expect((await read(slow)).end).toBe("lost");
  });

  it("comes whole in any chunking, and its connection is used again", async () => {
    const server = await serve((socket, { number }) => {
      if (number === 1) return void socket.write(whole(Buffer.alloc(5 * MIB, "x")));
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      for (let count = 0; count < 5_000; count += 1) socket.write("1\r\nx\r\n");
      socket.write("0\r\n\r\n");
    });
    const transport = open();
    expect(await read(await get(transport, server.origin))).toEqual({ bytes: 5 * MIB, end: "whole" });
    const slow = await get(transport, server.origin);
    await pause(50);
    expect(await read(slow)).toEqual({ bytes: 5_000, end: "whole" });
    expect(server.connections).toBe(1);
  });

  it("that is compressed is decoded as it arrives, at the pace of its reader", async () => {
    const packed = gzipSync(Buffer.alloc(40 * MIB));
    const server = await serve((socket) => socket.write(whole(packed, "content-encoding: gzip\r\n")));
    const transport = open();
    const before = process.memoryUsage().arrayBuffers;
    const stream = await get(transport, server.origin);
    await pause(100);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4 * MIB);
    expect(await read(stream)).toEqual({ bytes: 40 * MIB, end: "whole" });
  });

  it("that is compressed and too large, damaged or cut is an error, and the next call is answered", async () => {
    const packed = gzipSync(Buffer.alloc(4 * MIB));
    const bodies = [packed, Buffer.from("no gzip"), packed.subarray(0, 2_000)];
    const server = await serve((socket, { number }) =>
      socket.write(whole(bodies[number - 1] ?? "{}", number > 3 ? "" : "content-encoding: gzip\r\n")),
    );
    const transport = open({ connectionsMax: 1 });
    const ends = [];
    for (const _ of bodies)
      ends.push((await read(await get(transport, server.origin, { bytesMax: MIB }))).end);
    expect(ends).toEqual(["too_large", "lost", "too_large"]);
    expect(verdict(await post(transport, server.origin))).toBe("ok 200");
  });

  it("without a body ends at once, also where it is said to be compressed", async () => {
    const server = await serve((socket) => socket.write(whole("", "content-encoding: gzip\r\n")));
    expect(await read(await get(open(), server.origin))).toEqual({ bytes: 0, end: "whole" });
  });

  it("that is cut within its compression is lost", async () => {
    const packed = gzipSync(Buffer.from("line\n".repeat(1_000)));
    const server = await serve((socket) =>
      socket.write(whole(packed.subarray(0, -6), "content-encoding: gzip\r\n")),
    );
    expect((await read(await get(open(), server.origin))).end).toBe("lost");
  });

  it("that announces more than its bound is refused before it is read", async () => {
    const server = await serve((socket) => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n"));
    expect(verdictOf(await get(open(), server.origin, { bytesMax: 1_000 }))).toBe("too_large");
  });

  it("that stops is given up after a while, but not while its reader waits", async () => {
    const server = await serve((socket, { number }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${MIB}\r\n\r\n`);
      socket.write(Buffer.alloc(number === 1 ? 1_000 : MIB, "x"));
    });
    const transport = open({ downloadStallMs: 200 });
    expect((await read(await get(transport, server.origin))).end).toBe("timeout");
    const slow = await get(transport, server.origin);
    await pause(600);
    expect(await read(slow)).toEqual({ bytes: MIB, end: "whole" });
  });
});

describe("a streamed request", () => {
  it("is read from a file to its last byte, and the file is closed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-upload-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "file");
    writeFileSync(path, Buffer.alloc(9 * MIB + 7, "ü"));
    const server = await serve((socket) => socket.write(whole("{}")));
    const file = createReadStream(path);
    const stream = await upload(open(), server.origin, file, 9 * MIB + 7);
    expect(await read(stream)).toEqual({ bytes: 2, end: "whole" });
    expect(server.received[0]?.body.equals(Buffer.alloc(9 * MIB + 7, "ü"))).toBe(true);
    expect(file.destroyed).toBe(true);
  });

  it("is read no faster than the server takes it", async () => {
    const mute = await listen((socket) => socket.pause());
    const { seen, chunks } = source(() => zeros(1_000));
    const transport = open();
    const sent = upload(transport, mute.origin, chunks, 1_000 * 64 * 1024);
    await pause(300);
    expect(seen.bytes).toBeLessThan(16 * MIB);
    await transport.close();
    expect(verdictOf(await sent)).toBe("aborted");
    await vi.waitFor(() => expect(seen.isClosed).toBe(true));
  });

  it("whose source has a byte too many is never a whole request", async () => {
    const server = await serve((socket) => socket.write(whole("{}")));
    const { seen, chunks } = source(async function* () {
      yield new Uint8Array(10);
      await pause(100);
      yield new Uint8Array(1);
    });
    expect(verdictOf(await upload(open(), server.origin, chunks, 10))).toBe("source_failed");
    await vi.waitFor(() => expect(seen.isClosed).toBe(true));
    expect(server.received).toEqual([]);
  });

  it("that the server resets is lost, and its source is closed", async () => {
    const server = await listen((socket) => socket.once("data", () => socket.resetAndDestroy()));
    const { seen, chunks } = source(() => zeros(1_000));
    expect(verdictOf(await upload(open(), server.origin, chunks, 1_000 * 64 * 1024))).toBe("lost");
    await vi.waitFor(() => expect(seen.isClosed).toBe(true));
  });

  it("that is not read to its end by the server has its answer, and the connection is not used again", async () => {
    const server = await listen((socket) =>
      socket.once("data", () => socket.write("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}")),
    );
    const { seen, chunks } = source(() => zeros(1_000));
    const transport = open({ connectionsMax: 1 });
    const stream = await upload(transport, server.origin, chunks, 1_000 * 64 * 1024);
    expect(stream.ok && stream.status).toBe(413);
    expect(await read(stream)).toEqual({ bytes: 2, end: "whole" });
    await vi.waitFor(() => expect([seen.isClosed, server.sockets.size]).toEqual([true, 0]));
    expect((await get(transport, server.origin)).ok).toBe(true);
    expect(server.connections).toBe(2);
  });

  it("whose stream of Node hangs is destroyed with its call", async () => {
    const server = await serve(() => {});
    const hanging = new Readable({ read() {} });
    const transport = open({ connectionsMax: 1 });
    const body = { chunks: hanging, lengthBytes: 10 };
    const request = { origin: server.origin, path: "/", headers: {}, body };
    expect(verdictOf(await transport.stream(request, { ...OPTIONS, timeoutMs: 100 }))).toBe("not_sent");
    await vi.waitFor(() => expect([hanging.destroyed, server.sockets.size]).toEqual([true, 0]));
  });

  it("that waits for a connection until its deadline closes its source unread", async () => {
    const server = await serve(() => {});
    const transport = open({ connectionsMax: 1 });
    const first = post(transport, server.origin, { timeoutMs: 300 });
    const { seen, chunks } = source(() => zeros(1));
    const body = { chunks: { [Symbol.asyncIterator]: () => chunks }, lengthBytes: 65_536 };
    const request = { origin: server.origin, path: "/", headers: {}, body };
    expect(verdictOf(await transport.stream(request, { ...OPTIONS, timeoutMs: 100 }))).toBe("not_sent");
    expect(seen.bytes).toBe(0);
    expect(await chunks.next()).toEqual({ done: true, value: undefined });
    await first;
  });
});

function verdictOf(stream: WireStream): string {
  return stream.ok ? `ok ${stream.status}` : stream.failure;
}

describe("the contract of a transport", () => {
  const some = Buffer.alloc(64 * 1024);
  const cases = transportContract(async () => {
    let givenBytes = 0;
    const giveWithoutEnd = (socket: Socket): void => {
      while (!socket.destroyed) {
        givenBytes += some.length;
        if (!socket.write(some)) return void socket.once("drain", () => giveWithoutEnd(socket));
      }
    };
    const server = await serve((socket, { head, body }) => {
      const [method, path] = head.split(" ");
      if (path === "/answered") socket.write(whole("pong", "X-Contract: yes\r\n"));
      if (path === "/echoed") socket.write(whole(Buffer.concat([Buffer.from(`${method} `), body])));
      if (path === "/endless") {
        socket.write("HTTP/1.1 200 OK\r\n\r\n");
        giveWithoutEnd(socket);
      }
      if (path === "/torn") socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome bytes");
    });
    const to = (path: string) => ({ origin: server.origin, path, headers: {}, body: Buffer.from("ping") });
    return {
      transport: open(),
      answered: to("/answered"),
      unanswered: to("/unanswered"),
      echoed: to("/echoed"),
      endless: to("/endless"),
      torn: to("/torn"),
      givenBytes: () => givenBytes,
      inFlight: () => server.sockets.size,
      pass: pause,
    };
  });
  it.each(cases)("$name", ({ run }) => run());
});
