/** Requests over guarded egress, with real receivers on the loopback interface that only an allow-list opens. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { createSecureContext, createServer as createTlsServer } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { AllowList, isGlobalAddress, parseAllowList } from "../../src/egress/address.ts";
import { createEgress, type EgressOptions, type GuardedRequest } from "../../src/egress/egress.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function listen(
  server: Server | ReturnType<typeof createTcpServer>,
  host = "127.0.0.1",
): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  closing.push(() => {
    server.close();
    if ("closeAllConnections" in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

function receiver(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<number> {
  return listen(createServer(answer));
}

function egress(options: Partial<EgressOptions> = {}) {
  return createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.0/8"]), ...options });
}

function post(url: string, given: Partial<GuardedRequest> = {}): GuardedRequest {
  return { url, method: "POST", headers: {}, timeoutMs: 5_000, responseBytesMax: 65_536, ...given };
}

describe("an allowed destination", () => {
  it("gets the request unchanged, and returns its answer", async () => {
    let seen: unknown;
    const port = await receiver(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      seen = {
        method: request.method,
        url: request.url,
        host: request.headers.host,
        x: request.headers["x-y"],
        body,
      };
      response.writeHead(201, { "x-answer": "yes" }).end("thanks");
    });
    const body = new TextEncoder().encode('{"a":1}');
    const result = await egress().request(
      post(`http://127.0.0.1:${port}/hook?a=b#c`, { body, headers: { "x-y": "z", host: "evil" } }),
    );
    expect(seen).toEqual({
      method: "POST",
      url: "/hook?a=b",
      host: `127.0.0.1:${port}`,
      x: "z",
      body: '{"a":1}',
    });
    expect(result).toMatchObject({ ok: true, status: 201, headers: { "x-answer": "yes" }, isWhole: true });
    expect(result.ok && Buffer.from(result.body).toString()).toBe("thanks");
  });

  it("is reached by a name whose addresses are all allowed, under that name", async () => {
    let host: string | undefined;
    const port = await receiver((request, response) => {
      host = request.headers.host;
      response.end();
    });
    const resolve = async () => ["127.0.0.1"];
    const { request } = egress({ resolve });
    expect(await request(post(`http://hooks.corp.internal:${port}/`))).toMatchObject({ ok: true });
    expect(host).toBe(`hooks.corp.internal:${port}`);
    const mixed = egress({ resolve: async () => ["127.0.0.1", "10.0.0.1"] });
    expect(await mixed.request(post(`http://hooks.corp.internal:${port}/`))).toMatchObject({
      failure: "blocked_destination",
    });
  });

  it("is reached as localhost, which the system resolves", async () => {
    const port = await receiver((_request, response) => response.end());
    const { request } = egress({ allow: new AllowList(["127.0.0.0/8", "::1"]) });
    expect(await request(post(`http://localhost:${port}/`))).toMatchObject({ ok: true, status: 200 });
  });

  it("is tried at its next address when the first takes no connection", async () => {
    const port = await receiver((_request, response) => response.end());
    const { request } = egress({ resolve: async () => ["127.0.0.2", "127.0.0.1"] });
    // Nothing listens on 127.0.0.2.
    expect(await request(post(`http://a.internal:${port}/`))).toMatchObject({ ok: true, status: 200 });
  });

  it("is requested by its name in TLS", async () => {
    const names: string[] = [];
    const server = createTlsServer({
      SNICallback: (name, done) => {
        names.push(name);
        done(null, createSecureContext());
      },
    });
    server.on("tlsClientError", () => undefined);
    const port = await listen(server);
    const { request } = egress({ resolve: async () => ["127.0.0.1"] });
    expect(await request(post(`https://hooks.example.org.:${port}/`))).toMatchObject({ failure: "not_sent" });
    expect(names).toEqual(["hooks.example.org"]);
  });
});

describe("a redirect", () => {
  it("is an answer, and nothing follows it", async () => {
    let calls = 0;
    const port = await receiver((_request, response) => {
      calls += 1;
      response.writeHead(307, { location: "http://169.254.169.254/latest/meta-data/" }).end();
    });
    expect(await egress().request(post(`http://127.0.0.1:${port}/`))).toMatchObject({
      ok: true,
      status: 307,
    });
    expect(calls).toBe(1);
  });
});

describe("a name that changes its address between two requests", () => {
  it("is refused as soon as the address is not allowed, and its address is pinned within a request", async () => {
    let hits = 0;
    const port = await receiver((_request, response) => {
      hits += 1;
      response.end();
    });
    const answers = [["127.0.0.1"], ["10.1.2.3"], ["127.0.0.1"]];
    let asked = 0;
    const { request } = egress({ resolve: async () => answers[asked++] ?? [] });
    const url = `http://rebind.attacker.net:${port}/`;
    expect(await request(post(url))).toMatchObject({ ok: true });
    expect(await request(post(url))).toMatchObject({ failure: "blocked_destination" });
    expect(await request(post(url))).toMatchObject({ ok: true });
    expect([asked, hits]).toEqual([3, 2]);
  });
});

describe("a bad receiver", () => {
  it("that never answers ends with the deadline", async () => {
    const port = await receiver(() => undefined);
    const result = await egress().request(post(`http://127.0.0.1:${port}/`, { timeoutMs: 100 }));
    expect(result).toMatchObject({ ok: false, failure: "timeout" });
  });

  it("that drips a head forever ends with the deadline", async () => {
    const drips: NodeJS.Timeout[] = [];
    const port = await listen(
      createTcpServer((socket) => {
        socket.on("error", () => undefined);
        socket.write("HTTP/1.1 200 OK\r\n");
        drips.push(setInterval(() => socket.write("x"), 10));
      }),
    );
    const result = await egress().request(post(`http://127.0.0.1:${port}/`, { timeoutMs: 150 }));
    for (const drip of drips) clearInterval(drip);
    expect(result).toMatchObject({ ok: false, failure: "timeout" });
  });

  it("that sends 10 GB is cut after the bytes that are wanted", async () => {
    let written = 0;
    const closed: Promise<void>[] = [];
    const port = await receiver((request, response) => {
      closed.push(new Promise((resolve) => request.socket.once("close", () => resolve())));
      response.writeHead(200, { "content-length": String(10 * 2 ** 30) });
      const chunk = Buffer.alloc(65_536);
      const pump = (): void => {
        while (!response.destroyed && response.write(chunk)) written += chunk.length;
      };
      response.on("drain", pump);
      pump();
    });
    const result = await egress().request(post(`http://127.0.0.1:${port}/`, { responseBytesMax: 65_536 }));
    expect(result).toMatchObject({ ok: true, status: 200, isWhole: false });
    expect(result.ok && result.body.length).toBe(65_536);
    await Promise.all(closed);
    expect(written).toBeLessThan(64 * 2 ** 20);
  });

  it("is passed on as it arrives to a caller that asks for that, within the same bound", async () => {
    const port = await receiver((_request, response) => {
      response.writeHead(200);
      response.write("first ");
      setTimeout(() => response.end("second, and more than is wanted"), 50);
    });
    const parts: string[] = [];
    const onBody = (chunk: Uint8Array, status: number): void => {
      parts.push(`${status} ${Buffer.from(chunk)}`);
    };
    const call = post(`http://127.0.0.1:${port}/`, { responseBytesMax: 12, onBody });
    const result = await egress().request(call);
    expect(parts).toEqual(["200 first ", "200 second"]);
    expect(result).toMatchObject({ ok: true, isWhole: false, body: Buffer.alloc(0) });
  });

  it("that resets after its head has still said its status", async () => {
    const port = await listen(
      createTcpServer((socket: Socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => {
          socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart");
          setTimeout(() => socket.resetAndDestroy(), 20);
        });
      }),
    );
    const result = await egress().request(post(`http://127.0.0.1:${port}/`));
    expect(result).toMatchObject({ ok: true, status: 200, isWhole: false });
  });

  it("that resets before its head is lost, and one that is not there was not sent to", async () => {
    const port = await listen(
      createTcpServer((socket: Socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => socket.resetAndDestroy());
      }),
    );
    expect(await egress().request(post(`http://127.0.0.1:${port}/`))).toMatchObject({ failure: "lost" });
    expect(await egress().request(post("http://127.0.0.1:1/"))).toMatchObject({ failure: "not_sent" });
  });

  it("is given up when the signal fires", async () => {
    const port = await receiver(() => undefined);
    const stop = new AbortController();
    const result = egress().request(post(`http://127.0.0.1:${port}/`, { signal: stop.signal }));
    setTimeout(() => stop.abort(), 20);
    expect(await result).toMatchObject({ failure: "aborted" });
  });
});

describe("a header that would split the request", () => {
  it("is not sent", async () => {
    const port = await receiver((_request, response) => response.end());
    const headers = { "x-a": "b\r\nx-evil: c" };
    const result = await egress().request(post(`http://127.0.0.1:${port}/`, { headers }));
    expect(result).toMatchObject({ ok: false });
  });
});

describe("an allow-list", () => {
  it("is read from text, and refuses an invalid network", () => {
    const list = parseAllowList(" 10.0.0.0/8, fd00::/8 192.0.2.7");
    expect(["10.9.9.9", "fd12::1", "192.0.2.7"].map((address) => list.has(address))).toEqual([
      true,
      true,
      true,
    ]);
    expect(["11.0.0.1", "192.0.2.8", "::ffff:10.0.0.1"].map((address) => list.has(address))).toEqual([
      false,
      false,
      false,
    ]);
    for (const text of [
      "10.0.0.0/33",
      "10/8",
      "example.com",
      "10.0.0.0/8/8",
      "fe80::1%eth0/64",
      "0x7f.0.0.1",
    ])
      expect(() => parseAllowList(text)).toThrow(/an allowed network must be a CIDR/);
    expect(parseAllowList(undefined).isEmpty).toBe(true);
  });
});

describe("global addresses", () => {
  it("are distinguished from special ones at the edges of the ranges", () => {
    const global = [
      "1.1.1.1",
      "9.255.255.255",
      "11.0.0.0",
      "100.128.0.0",
      "126.255.255.255",
      "172.15.255.255",
    ].concat([
      "172.32.0.0",
      "223.255.255.255",
      "2001:4860:4860::8888",
      "2606:4700::1111",
      "2001:200::1",
      "3ffe::1",
    ]);
    expect(global.filter((address) => !isGlobalAddress(address))).toEqual([]);
    const special = [
      "0.1.2.3",
      "100.127.255.255",
      "169.254.0.0",
      "172.31.255.255",
      "198.19.255.255",
      "224.0.0.1",
    ]
      .concat([
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "64:ff9b:1::1",
      ])
      .concat([
        "100::1",
        "2001::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff:fff::1",
        "4000::1",
      ])
      .concat([
        "fc00::1",
        "fe80::1",
        "fe80::1%lo",
        "fec0::1",
        "ff02::1",
        "1.1.1",
        "01.1.1.1",
        "0x1.1.1.1",
        "1",
        "",
      ]);
    expect(special.filter(isGlobalAddress)).toEqual([]);
  });
});
