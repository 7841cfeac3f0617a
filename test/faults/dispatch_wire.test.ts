/** The wire when servers and networks misbehave: real sockets on loopback, short real times. */
import { createRequire } from "node:module";
import { createServer as createTlsServer } from "node:tls";
import { describe, expect, it } from "vitest";
import type { WireResult } from "../../src/dispatch/transport.ts";
import { listen, open, pause, post, serve, textOf, verdict, whole } from "./dispatch_server.ts";

// Made only for this test: expired on the second of January 2020.
const EXPIRED_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgX7nF2kM98Ds/Z+hh
FQ77C9NTNRLzU0D6Cnit4IefhYahRANCAAQOkMGM70qrcILzwCvBdpkCiSKqkjii
bbMgv247u2pR5OeqVzC7J0B10dW1x5z2u5knz6ndubmbVXDx7ig2SxCu
-----END PRIVATE KEY-----`;
const EXPIRED_CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBDzCBtgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwHhcN
MjAwMTAxMDAwMDAwWhcNMjAwMTAyMDAwMDAwWjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQOkMGM70qrcILzwCvBdpkCiSKq
kjiibbMgv247u2pR5OeqVzC7J0B10dW1x5z2u5knz6ndubmbVXDx7ig2SxCuMAoG
CCqGSM49BAMCA0gAMEUCICRoe0cU1SqQC9ekntyq5gVjXcCrXQB7P8qEHGrnLXpT
AiEA6uy875Pv6wjWH0VHvIt8/ZjpX9hhO8w8ac1CWkQx0sM=
-----END CERTIFICATE-----`;

describe("connections that do not come about", () => {
  it("fault 50: a refused connection is not sent", async () => {
    const closed = await serve(() => {});
    const origin = closed.origin.replace(/\d+$/, "1"); // port 1: nothing listens
    const result = await post(open(), origin);
    expect(verdict(result)).toBe("not_sent");
    expect(textOf(result)).toContain("ECONNREFUSED");
  });

  it("fault 50: a name that does not resolve is not sent", async () => {
    expect(verdict(await post(open(), "http://no-such-host.invalid", { timeoutMs: 5_000 }))).toBe("not_sent");
  });

  it("fault 50: an expired certificate is not sent", async () => {
    const server = await listen(() => {}, createTlsServer({ key: EXPIRED_KEY, cert: EXPIRED_CERTIFICATE }));
    const result = await post(open(), server.origin.replace("http:", "https:"));
    expect(verdict(result)).toBe("not_sent");
    expect(textOf(result)).toMatch(/CERT|SELF_SIGNED/);
  });

  it("fault 50: a handshake that never ends is not sent, and leaves no socket", async () => {
    const server = await listen((socket) => socket.resume());
    const transport = open({ connectTimeoutMs: 300 });
    const result = await post(transport, server.origin.replace("http:", "https:"));
    expect(verdict(result)).toBe("not_sent");
    await transport.close();
    await pause(20);
    expect(server.sockets.size).toBe(0);
  });

  it("a deadline that passes during the handshake is not sent, and closes the socket at once", async () => {
    const server = await listen((socket) => socket.resume());
    const result = await post(open(), server.origin.replace("http:", "https:"), { timeoutMs: 100 });
    expect(verdict(result)).toBe("not_sent");
    await pause(20);
    expect(server.sockets.size).toBe(0);
  });
});

describe("a long answer", () => {
  // asked for in openai/openai-node#2153: undici by itself ends calls whose headers or next bytes take 300 s
  it("is not ended by the client's own timeouts, neither before its headers nor within its body", async () => {
    const timers = createRequire(import.meta.url)("undici/lib/util/timers.js") as { tick(ms: number): void };
    const passAnHour = () => {
      timers.tick(0); // arms what was set since the last tick
      timers.tick(3_600_000); // only for undici, not for the transport's clock
    };
    const server = await serve(async (socket) => {
      await pause(20);
      passAnHour();
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nlong ");
      await pause(20);
      passAnHour();
      socket.write("work");
    });
    expect(textOf(await post(open(), server.origin))).toBe("long work");
  });
});

describe("connections that break", () => {
  it("fault 51: a reset before or after the request was read looks the same: lost, and not sent again", async () => {
    const before = await listen((socket) => socket.once("readable", () => socket.resetAndDestroy()));
    expect(verdict(await post(open(), before.origin))).toBe("lost");
    expect(before.connections).toBe(1);
    const after = await serve((socket) => socket.resetAndDestroy());
    expect(verdict(await post(open(), after.origin))).toBe("lost");
    expect(after.received).toHaveLength(1);
  });

  it("fault 52: a connection that the server closed while idle is replaced before anything is sent on it", async () => {
    const server = await serve((socket) => {
      socket.write(whole("one"));
      setImmediate(() => socket.destroy());
    });
    const transport = open();
    for (let count = 0; count < 5; count += 1) {
      expect(textOf(await post(transport, server.origin))).toBe("one");
      await pause(10);
    }
    expect(server.connections).toBe(5);
  });

  it("fault 52: a connection that is reset at the moment of its reuse is lost or not sent, never sent twice", async () => {
    const server = await serve((socket) => {
      socket.write(whole("one"), () => socket.resetAndDestroy());
    });
    const transport = open();
    const verdicts = [];
    for (let count = 0; count < 10; count += 1) verdicts.push(verdict(await post(transport, server.origin)));
    expect(verdicts.every((text) => ["ok 200", "lost", "not_sent"].includes(text))).toBe(true);
    const answered = verdicts.filter((text) => text === "ok 200").length;
    expect(server.received.length).toBeLessThanOrEqual(10);
    expect(answered).toBeGreaterThanOrEqual(1);
  });

  it("fault 52: a reset that arrives before the first byte is written is not sent", async () => {
    const server = await serve((socket) => socket.write(whole("one")));
    const transport = open();
    const verdicts = [];
    for (let count = 0; count < 20; count += 1) {
      await post(transport, server.origin);
      for (const socket of server.sockets) socket.resetAndDestroy();
      verdicts.push(verdict(await post(transport, server.origin)));
    }
    expect(verdicts).not.toContain("lost");
    // Nothing was received that was not answered.
    expect(server.received).toHaveLength(20 + verdicts.filter((text) => text === "ok 200").length);
  });

  it("fault 52: idle connections are given up before servers of five seconds do", async () => {
    const server = await serve((socket) => socket.write(whole("one")));
    const transport = open({ keepAliveMs: 100 });
    await post(transport, server.origin);
    expect(server.sockets.size).toBe(1);
    await pause(250);
    expect(server.sockets.size).toBe(0);
  });

  it("fault 53: a hang ends at the deadline and its socket is destroyed", async () => {
    const server = await serve(() => {});
    const startMs = performance.now();
    expect(verdict(await post(open(), server.origin, { timeoutMs: 200 }))).toBe("timeout");
    expect(performance.now() - startMs).toBeLessThan(400);
    await pause(20);
    expect(server.sockets.size).toBe(0);
  });

  it("an answer that arrived while this process was blocked is not timed out", async () => {
    const server = await serve((socket, { number }) => {
      socket.write(whole("in time"));
      const untilMs = performance.now() + (number === 2 ? 200 : 0);
      while (performance.now() < untilMs);
    });
    const transport = open();
    await post(transport, server.origin);
    expect(textOf(await post(transport, server.origin, { timeoutMs: 100 }))).toBe("in time");
  });

  it("fault 54: headers that drip end by the watch, long before the deadline", async () => {
    const server = await serve((socket) => drip(socket, "HTTP/1.1 200 OK\r\n", "x"));
    const result = await post(open({ downloadStallMs: 300 }), server.origin);
    expect(textOf(result)).toContain("timeout: answer of");
  });

  it("fault 54: a body that drips ends by the watch, long before the deadline", async () => {
    const server = await serve((socket) =>
      drip(socket, "HTTP/1.1 200 OK\r\ncontent-length: 90000\r\n\r\n{", " "),
    );
    const result = await post(open({ downloadStallMs: 300 }), server.origin);
    expect(textOf(result)).toContain("timeout: answer of");
  });

  it("fault 54: comments forever end at the total deadline", async () => {
    const server = await serve((socket) =>
      drip(
        socket,
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        `200\r\n${": still here\n".padEnd(512)}\r\n`,
      ),
    );
    expect(verdict(await post(open({ downloadStallMs: 300 }), server.origin, { timeoutMs: 700 }))).toBe(
      "timeout",
    );
  });

  it("blank lines before an answer are a sign of life, not a drip", async () => {
    const server = await serve((socket) => {
      const stop = drip(socket, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\n\n\r\n");
      setTimeout(() => {
        stop();
        socket.write("2\r\n{}\r\n0\r\n\r\n");
      }, 700);
    });
    expect(textOf(await post(open({ downloadStallMs: 200 }), server.origin)).trim()).toBe("{}");
  });

  it("fault 55: an upload that stalls ends by its watch", async () => {
    const server = await listen((socket) => socket.pause());
    const body = Buffer.alloc(64 * 1024 * 1024, "x");
    const result = await post(open({ uploadStallMs: 400 }), server.origin, { body });
    expect(textOf(result)).toContain("timeout: request to");
  });

  it("fault 55: an upload that is slow but moves is completed", async () => {
    let bytes = 0;
    const server = await listen((socket) => {
      socket.on("data", (chunk) => {
        bytes += chunk.length;
        socket.pause();
        setTimeout(() => socket.resume(), 2);
        if (bytes > 12 * 1024 * 1024) socket.write(whole("done"));
      });
    });
    const body = Buffer.alloc(12 * 1024 * 1024, "x");
    expect(textOf(await post(open({ uploadStallMs: 300 }), server.origin, { body }))).toBe("done");
  });

  it("fault 55: a server that ends its half without an answer loses the request at once", async () => {
    const server = await serve((socket) => socket.end());
    expect(verdict(await post(open(), server.origin, { timeoutMs: 5_000 }))).toBe("lost");
  });

  it("fault 55: a server that ends its half right after a whole answer has answered", async () => {
    const server = await serve((socket) => socket.end(whole("bye", "connection: close\r\n")));
    expect(textOf(await post(open(), server.origin))).toBe("bye");
    const untold = await serve((socket) => socket.end(whole("bye")));
    expect(textOf(await post(open(), untold.origin))).toBe("bye");
  });

  it.each([
    ["a body shorter than announced", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}"],
    ["a cut chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\n{}"],
    ["no last chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"],
    ["cut headers", "HTTP/1.1 200 OK\r\ncontent-le"],
    [
      "a body shorter than announced before a promised close",
      "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 100\r\n\r\n{}",
    ],
    ["something that is not HTTP", "220 smtp.test ESMTP\r\n"],
    ["headers of 64 KiB", `HTTP/1.1 200 OK\r\nx: ${"y".repeat(65_536)}\r\n\r\n`],
  ])("fault 56: %s is lost, never an answer", async (_name, bytes) => {
    const server = await serve((socket) => socket.end(bytes));
    expect(verdict(await post(open(), server.origin, { timeoutMs: 5_000 }))).toBe("lost");
  });

  it("fault 62: a second answer to one request never reaches the next request", async () => {
    const server = await serve((socket, { number }) => {
      socket.write(Buffer.concat([whole(`answer ${number}`), whole("forged")]));
    });
    const transport = open({ connectionsMax: 1 });
    for (let count = 1; count <= 5; count += 1) {
      const result = await post(transport, server.origin);
      expect(["forged"]).not.toContain(textOf(result));
      if (result.ok) expect(textOf(result)).toBe(`answer ${server.received.length}`);
    }
  });

  it("fault 67: each send is one request on the wire, with any result", async () => {
    const server = await serve((socket, { number }) => {
      if (number % 3 === 0) socket.write(whole("ok"));
      else if (number % 3 === 1) socket.resetAndDestroy();
      else socket.end("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    });
    const transport = open();
    const results: WireResult[] = [];
    for (let count = 0; count < 9; count += 1) results.push(await post(transport, server.origin));
    expect(server.received).toHaveLength(9);
    expect(results.map(verdict)).toEqual(Array(3).fill(["lost", "ok 503", "ok 200"]).flat());
  });

  it("messages hold no key, no prompt and no body", async () => {
    const servers = [
      await serve((socket) =>
        socket.end(
          'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"error":"Bearer sk-secret, secret prompt"}',
        ),
      ),
      await serve((socket) => socket.resetAndDestroy()),
      await serve((socket) => socket.end("sk-secret secret prompt\r\n\r\n")),
    ];
    for (const { origin } of servers) {
      const result = await post(open(), origin);
      expect(result.ok).toBe(false);
      expect(JSON.stringify(result)).not.toMatch(/secret/);
    }
  });
});

/** Writes `head`, then `piece` every 20 ms until the socket closes. */
function drip(socket: import("node:net").Socket, head: string, piece: string): () => void {
  socket.write(head);
  const timer = setInterval(() => socket.write(piece), 20);
  const stop = (): void => clearInterval(timer);
  socket.on("close", stop);
  return stop;
}
