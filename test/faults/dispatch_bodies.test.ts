/** Answers and requests of all sizes, compressed or not, and what a transport promises while it is used and closed. */
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { listen, open, pause, post, serve, textOf, verdict, whole } from "./dispatch_server.ts";

const MIB = 1024 * 1024;

/** What work resolves with, and how far resident memory rose above where it began. */
async function grownBy<T>(work: () => Promise<T>): Promise<{ results: T; grownBytes: number }> {
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 5);
  try {
    const results = await work();
    return { results, grownBytes: peak - before };
  } finally {
    clearInterval(watch);
  }
}

describe("large answers", () => {
  it("fault 61: a body of 200 MB that is announced is cut before it is read", async () => {
    const server = await serve((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${200 * MIB}\r\n\r\n`);
    });
    expect(verdict(await post(open(), server.origin))).toBe("too_large");
  });

  it("fault 61: bodies of 200 MB that are not announced are cut, and memory stays flat", async () => {
    const piece = Buffer.concat([Buffer.from("100000\r\n"), Buffer.alloc(MIB, "x"), Buffer.from("\r\n")]);
    const server = await serve((socket) => {
      let left = 200;
      const more = (): void => {
        while (left > 0 && !socket.destroyed) {
          left -= 1;
          if (!socket.write(piece)) return;
        }
      };
      socket.on("drain", more);
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      more();
    });
    const transport = open();
    await post(transport, server.origin);
    const { results, grownBytes } = await grownBy(() =>
      Promise.all(Array.from({ length: 64 }, () => post(transport, server.origin, { timeoutMs: 100_000 }))),
    );
    expect(results.map(verdict)).toEqual(Array(64).fill("too_large"));
    expect(grownBytes).toBeLessThan(110 * MIB);
  });

  it("fault 61: bodies just below a large one are bounded together, and small ones pass them by", async () => {
    const [most, rest] = [Buffer.alloc(0.9 * MIB, "x"), Buffer.alloc(MIB - Math.trunc(0.9 * MIB), "x")];
    const waiting: (() => void)[] = [];
    const server = await serve((socket, { number }) => {
      if (number > 128) return void socket.write(whole("small"));
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${MIB}\r\n\r\n`);
      socket.write(most);
      waiting.push(() => socket.write(rest));
    });
    const transport = open({ connectionsMax: 200 });
    const { results: middle, grownBytes } = await grownBy(async () => {
      const begun = Array.from({ length: 128 }, () => post(transport, server.origin, { timeoutMs: 30_000 }));
      await pause(400);
      expect(textOf(await post(transport, server.origin, { timeoutMs: 20_000 }))).toBe("small");
      return begun.map((result) => result.then((done) => done.ok && done.body.length));
    });
    for (const end of waiting) end();
    expect(await Promise.all(middle)).toEqual(Array(128).fill(MIB));
    expect(grownBytes).toBeLessThan(80 * MIB);
  });

  it("fault 61: a gzip bomb is cut at the decoded bound, and memory stays flat", async () => {
    const bomb = gzipSync(Buffer.alloc(64 * MIB));
    const server = await serve((socket) => socket.write(whole(bomb, "content-encoding: gzip\r\n")));
    const transport = open();
    await post(transport, server.origin);
    const { results, grownBytes } = await grownBy(() =>
      Promise.all(Array.from({ length: 8 }, () => post(transport, server.origin, { timeoutMs: 30_000 }))),
    );
    expect(results.map(verdict)).toEqual(Array(8).fill("too_large"));
    expect(grownBytes).toBeLessThan(110 * MIB);
  });

  it("the deadline holds for a body that waits for its place", async () => {
    const server = await serve((socket, { number }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${8 * MIB}\r\n\r\n`);
      if (number > 2) socket.write(Buffer.alloc(8 * MIB));
      else socket.write(Buffer.alloc(2 * MIB)); // holds its place and never ends
    });
    const transport = open();
    const holders = [
      post(transport, server.origin, { timeoutMs: 600 }),
      post(transport, server.origin, { timeoutMs: 600 }),
    ];
    await pause(100);
    expect(verdict(await post(transport, server.origin, { timeoutMs: 200 }))).toBe("timeout");
    const patient = await post(transport, server.origin, { timeoutMs: 5_000 });
    expect(patient.ok && patient.body.length).toBe(8 * MIB);
    expect((await Promise.all(holders)).map(verdict)).toEqual(["timeout", "timeout"]);
  });

  it("a body that is reset while it waits for its place is lost, and the place stays", async () => {
    const server = await serve((socket, { number }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${4 * MIB}\r\n\r\n`);
      if (number <= 2) setTimeout(() => socket.write(Buffer.alloc(4 * MIB)), 200);
      else if (number === 3) setTimeout(() => socket.resetAndDestroy(), 50);
      else socket.write(Buffer.alloc(4 * MIB));
    });
    const transport = open();
    const first = [post(transport, server.origin), post(transport, server.origin)];
    await pause(30);
    expect(verdict(await post(transport, server.origin))).toBe("lost");
    expect((await Promise.all(first)).map(verdict)).toEqual(["ok 200", "ok 200"]);
    const more = await Promise.all(Array.from({ length: 6 }, () => post(transport, server.origin)));
    expect(more.map((result) => result.ok && result.body.length)).toEqual(Array(6).fill(4 * MIB));
  });
});

describe("answers of every kind", () => {
  it("what is sent is returned whole, in any size and any chunking", async () => {
    const server = await serve((socket, { body }) => {
      const step = Math.ceil(body.length / 500) + (body[0] ?? 0) * 997;
      if (body.length % 2 === 0) {
        socket.write(whole(body));
        return;
      }
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      for (let from = 0; from < body.length; from += step) {
        const piece = body.subarray(from, from + step);
        socket.write(`${piece.length.toString(16)}\r\n`);
        socket.write(piece);
        socket.write("\r\n");
      }
      socket.write("0\r\n\r\n");
    });
    const transport = open();
    const sizes = fc.oneof(
      fc.integer({ min: 0, max: 3_000 }),
      fc.constantFrom(65_535, 65_536, 262_144, 262_145, 1_048_576, 1_048_577, 3_000_001),
    );
    await fc.assert(
      fc.asyncProperty(sizes, fc.nat(255), async (size, seed) => {
        const body = Buffer.alloc(size, Buffer.from([seed, seed ^ 85, 7, 13]));
        const result = await post(transport, server.origin, { body });
        if (!result.ok) throw new Error(textOf(result));
        expect(Buffer.compare(result.body, body)).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  it.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
  ])("an answer in %s is decoded although no encoding was requested", async (encoding, compress) => {
    const server = await serve((socket) =>
      socket.write(whole(compress('{"a":1}'), `content-encoding: ${encoding}\r\n`)),
    );
    expect(textOf(await post(open(), server.origin))).toBe('{"a":1}');
    expect(server.received[0]?.head).toContain("accept-encoding: identity");
  });

  it("fault 56: a compressed answer that is damaged or cut is lost", async () => {
    const packed = gzipSync('{"a":1}'.repeat(100));
    for (const body of [Buffer.from("no gzip"), packed.subarray(0, 20)]) {
      const server = await serve((socket) => socket.write(whole(body, "content-encoding: gzip\r\n")));
      expect(verdict(await post(open(), server.origin))).toBe("lost");
    }
  });

  it("headers come in lower case, repeated ones joined, and the same twice in a row", async () => {
    const server = await serve((socket, { number }) =>
      socket.write(
        whole(
          "{}",
          `X-Request-Id: req ${number}\r\nX-Two: a\r\nx-two: b\r\nConstructor: c\r\n__proto__: d\r\n`,
        ),
      ),
    );
    const transport = open();
    for (let count = 1; count <= 12; count += 1) {
      const result = await post(transport, server.origin);
      expect(result.ok && result.headers).toEqual({
        "content-length": "2",
        "x-request-id": `req ${count}`,
        "x-two": "a, b",
        constructor: "c",
      });
    }
  });

  it("a redirect is an answer and is not followed", async () => {
    const server = await serve((socket) =>
      socket.write("HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"),
    );
    expect(verdict(await post(open(), server.origin))).toBe("ok 307");
    expect(server.received).toHaveLength(1);
  });

  it("informational answers come before the answer and are skipped", async () => {
    const server = await serve((socket) => {
      socket.write("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n");
      setTimeout(() => socket.write(whole("{}")), 300);
    });
    expect(textOf(await post(open({ downloadStallMs: 100 }), server.origin))).toBe("{}");
  });
});

describe("the use of a transport", () => {
  const proxy = process.env["HTTP_PROXY"];
  afterEach(() => {
    if (proxy === undefined) delete process.env["HTTP_PROXY"];
    else process.env["HTTP_PROXY"] = proxy;
  });

  it("takes no proxy from the environment", async () => {
    process.env["HTTP_PROXY"] = "http://127.0.0.1:1";
    const server = await serve((socket) => socket.write(whole("direct")));
    expect(textOf(await post(open(), server.origin))).toBe("direct");
  });

  it("opens no more connections than its bound, and calls beyond wait in order", async () => {
    const server = await serve((socket, { body }) => setTimeout(() => socket.write(whole(body)), 5));
    const transport = open({ connectionsMax: 3 });
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        expect(textOf(await post(transport, server.origin, { body: Buffer.from(`call ${index}`) }))).toBe(
          `call ${index}`,
        );
        order.push(index);
      }),
    );
    expect(server.connections).toBe(3);
    expect(server.received.map(({ body }) => body.toString())).toEqual(
      Array.from({ length: 60 }, (_, index) => `call ${index}`),
    );
  });

  it("a call that waits for a connection longer than its deadline is not sent", async () => {
    const server = await serve(() => {});
    const transport = open({ connectionsMax: 1 });
    const first = post(transport, server.origin, { timeoutMs: 300 });
    expect(verdict(await post(transport, server.origin, { timeoutMs: 100 }))).toBe("not_sent");
    expect(verdict(await first)).toBe("timeout");
    expect(server.received).toHaveLength(1);
  });

  it("a queue of calls to a server that refuses ends, each call by itself", async () => {
    const closed = await serve(() => {});
    const origin = closed.origin.replace(/\d+$/, "1");
    const transport = open({ connectionsMax: 2 });
    const results = await Promise.all(Array.from({ length: 300 }, () => post(transport, origin)));
    expect(new Set(results.map(verdict))).toEqual(new Set(["not_sent"]));
  });

  it("a header that HTTP does not allow is not sent, and its value is not shown", async () => {
    const result = await open({ connectionsMax: 1 }).send(
      {
        origin: "http://127.0.0.1:1",
        path: "/",
        headers: { authorization: "sk-secret\r\nx: y" },
        body: Buffer.from("{}"),
      },
      { timeoutMs: 1_000 },
    );
    expect(verdict(result)).toBe("not_sent");
    expect(JSON.stringify(result)).not.toContain("secret");
  });

  it("a signal shared by many calls ends them all, destroys their sockets and keeps no listener", async () => {
    const server = await serve((socket, { number }) => {
      if (number <= 30) socket.write(whole("{}"));
    });
    const transport = open({ connectionsMax: 10 });
    const stop = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = stop.signal;
    stop.signal.addEventListener = (...given: Parameters<typeof addEventListener>) => {
      listeners += 1;
      addEventListener.apply(stop.signal, given);
    };
    stop.signal.removeEventListener = (...given: Parameters<typeof removeEventListener>) => {
      listeners -= 1;
      removeEventListener.apply(stop.signal, given);
    };
    await Promise.all(
      Array.from({ length: 30 }, () => post(transport, server.origin, { signal: stop.signal })),
    );
    expect(listeners).toBe(0);
    const cut = Array.from({ length: 30 }, () => post(transport, server.origin, { signal: stop.signal }));
    const other = post(transport, server.origin, { timeoutMs: 400 });
    await pause(50);
    expect(listeners).toBe(1);
    stop.abort();
    expect(new Set((await Promise.all(cut)).map(verdict))).toEqual(new Set(["aborted"]));
    expect(verdict(await other)).toBe("timeout");
    expect(listeners).toBe(0);
    await pause(20);
    expect(server.sockets.size).toBe(0);
  });

  it("closing ends calls in flight, waiting and connecting, and leaves nothing open", async () => {
    const server = await serve(() => {});
    const mute = await listen((socket) => socket.resume());
    const transport = open({ connectionsMax: 2 });
    const calls = [
      ...Array.from({ length: 4 }, () => post(transport, server.origin)),
      post(transport, mute.origin.replace("http:", "https:")),
    ];
    await pause(50);
    await transport.close();
    expect((await Promise.all(calls)).map(verdict)).toEqual(Array(5).fill("aborted"));
    expect(verdict(await post(transport, server.origin))).toBe("aborted");
    await transport.close();
    await pause(20);
    expect(server.sockets.size + mute.sockets.size).toBe(0);
    expect(process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap")).toEqual([]);
  });
});
