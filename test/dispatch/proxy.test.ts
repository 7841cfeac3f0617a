/** Proxies from the environment: which origins go through which, and requests through real ones on loopback. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server } from "node:http";
import { createServer as createSecureServer, request as requestSecurely } from "node:https";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { proxiesFrom } from "../../src/dispatch/proxy.ts";
import type { Transport } from "../../src/dispatch/transport.ts";
import { createUndiciTransport, loadUndici } from "../../src/dispatch/undici.ts";
import { proxyAgents } from "../../src/engine/media/proxy_agents.ts";
import { CERTIFICATE, KEY } from "../satellites/builtin/mail_server.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const answer = (heard: IncomingMessage, reply: { end(text: string): void }): void => {
  heard.resume().on("end", () => reply.end(`answered ${heard.url} for ${heard.headers.host}`));
};

interface TestProxy {
  readonly address: string;
  /** What it was asked for, with its authorization. */
  readonly asked: string[];
}

async function proxy(): Promise<TestProxy> {
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((heard, reply) => {
    asked.push(`${heard.method} ${heard.url} ${heard.headers["proxy-authorization"] ?? ""}`);
    const onward = request(heard.url ?? "", { method: "POST", headers: heard.headers }, (got) =>
      got.pipe(reply),
    );
    heard.pipe(onward);
  });
  server.on("connect", (heard, socket: Socket) => {
    asked.push(`CONNECT ${heard.url} ${heard.headers["proxy-authorization"] ?? ""}`);
    if (heard.url?.startsWith("refused.test")) {
      socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
      return;
    }
    const port = Number(heard.url?.split(":").at(-1));
    const onward = connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(onward).pipe(socket);
    });
    for (const one of [socket, onward]) {
      sockets.add(one);
      one.on("error", () => undefined);
    }
  });
  const port = await listening(server);
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
  });
  return { address: `http://user:pass%20word@127.0.0.1:${port}`, asked };
}

const undici = await loadUndici();

function transport(env: Record<string, string>): Transport {
  const options = { clock: systemClock, connectionsMax: 4, proxyOf: proxiesFrom(env) };
  const made = createUndiciTransport(options, undici);
  closers.push(() => made.close());
  return made;
}

async function post(wire: Transport, origin: string): Promise<string> {
  const body = new TextEncoder().encode("x".repeat(300_000));
  const sent = await wire.send(
    { origin, path: "/v1/x", headers: { "x-a": "b" }, body },
    { timeoutMs: 10_000 },
  );
  return sent.ok ? new TextDecoder().decode(sent.body) : `${sent.failure}: ${sent.message}`;
}

const BASIC = `Basic ${Buffer.from("user:pass word").toString("base64")}`;

describe("a request to a provider", () => {
  it("over http goes to the proxy with its whole address", async () => {
    const port = await listening(createServer(answer));
    const { address, asked } = await proxy();
    const wire = transport({ HTTP_PROXY: address });
    expect(await post(wire, `http://127.0.0.1:${port}`)).toBe(`answered /v1/x for 127.0.0.1:${port}`);
    expect(asked).toEqual([`POST http://127.0.0.1:${port}/v1/x ${BASIC}`]);
  });

  it("over https goes through a tunnel of the proxy, which is kept", async () => {
    const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    closers.push(() => {
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
    });
    const port = await listening(createSecureServer({ key: KEY, cert: CERTIFICATE }, answer));
    const { address, asked } = await proxy();
    const wire = transport({ https_proxy: address });
    for (let count = 0; count < 2; count += 1)
      expect(await post(wire, `https://localhost:${port}`)).toBe(`answered /v1/x for localhost:${port}`);
    expect(asked).toEqual([`CONNECT localhost:${port} ${BASIC}`]);
  });

  it("over https of a client of Node's agents goes through the same tunnel, or directly where NO_PROXY says so", async () => {
    const port = await listening(createSecureServer({ key: KEY, cert: CERTIFICATE }, answer));
    const { address, asked } = await proxy();
    const got = async (env: Record<string, string>, host: string): Promise<string> => {
      const { httpAgent, httpsAgent } = proxyAgents(proxiesFrom(env), systemClock);
      closers.push(() => {
        httpAgent.destroy();
        httpsAgent.destroy();
      });
      const options = { agent: httpsAgent, rejectUnauthorized: false, method: "HEAD" };
      const asked = requestSecurely(`https://${host}:${port}/a`, options);
      asked.end();
      const [response] = (await once(asked, "response")) as [IncomingMessage];
      return String(response.statusCode);
    };
    expect(await got({ HTTPS_PROXY: address }, "localhost")).toBe("200");
    expect(asked).toEqual([`CONNECT localhost:${port} ${BASIC}`]);
    expect(await got({ HTTPS_PROXY: address, NO_PROXY: "localhost" }, "localhost")).toBe("200");
    expect(asked).toHaveLength(1);
    await expect(got({ HTTPS_PROXY: address }, "refused.test")).rejects.toThrow("answered 403 to CONNECT");
  });

  it("of a client that is not undici has its whole address for the proxy of HTTP_PROXY, unless NO_PROXY names its host", async () => {
    const port = await listening(createServer(answer));
    const { address, asked } = await proxy();
    const got = async (env: Record<string, string>): Promise<string> => {
      const { httpAgent } = proxyAgents(proxiesFrom(env), systemClock);
      closers.push(() => httpAgent.destroy());
      const sent = request(`http://127.0.0.1:${port}/a?b=c`, { agent: httpAgent, method: "POST" });
      sent.end("body");
      const [response] = (await once(sent, "response")) as [IncomingMessage];
      return text(response);
    };
    const answered = `answered /a?b=c for 127.0.0.1:${port}`;
    expect(await got({ HTTP_PROXY: address })).toBe(answered);
    expect(asked).toEqual([`POST http://127.0.0.1:${port}/a?b=c ${BASIC}`]);
    expect(await got({ HTTP_PROXY: address, NO_PROXY: "127.0.0.1" })).toBe(answered);
    expect(await got({ HTTPS_PROXY: address })).toBe(answered);
    expect(asked).toHaveLength(1);
  });

  it("is not sent when the proxy refuses the tunnel, which is said", async () => {
    const { address } = await proxy();
    const wire = transport({ HTTPS_PROXY: address });
    expect(await post(wire, "https://refused.test")).toBe(
      "not_sent: no connection to https://refused.test (PROXY_403)",
    );
  });

  it("goes without a proxy where NO_PROXY names its host", async () => {
    const port = await listening(createServer(answer));
    const { address, asked } = await proxy();
    const wire = transport({ HTTP_PROXY: address, NO_PROXY: "other.test, 127.0.0.1" });
    expect(await post(wire, `http://127.0.0.1:${port}`)).toContain("answered");
    expect(asked).toEqual([]);
  });
});

describe("the environment", () => {
  it.each([
    ["*", "http://a.test", false],
    ["a.test", "http://a.test", false],
    ["a.test", "http://b.a.test", false],
    [".a.test", "http://b.a.test", false],
    ["*.a.test", "http://b.a.test", false],
    ["a.test", "http://ba.test", true],
    ["a.test:8080", "http://a.test:8080", false],
    ["a.test:8080", "http://a.test", true],
    ["a.test:80", "http://a.test", false],
    ["", "http://a.test", true],
    ["a.test", "https://c.test", false],
  ])("NO_PROXY=%s sends %s through the proxy: %s", (without, origin, isThrough) => {
    const proxyOf = proxiesFrom({ HTTP_PROXY: "proxy.test:3128", NO_PROXY: without });
    expect(proxyOf(origin)?.origin).toBe(isThrough ? "http://proxy.test:3128" : undefined);
  });

  it("is refused where a variable is not an address", () => {
    expect(() => proxiesFrom({ https_proxy: "socks5://x" })).toThrow(
      "https_proxy must be http://host:port of a proxy",
    );
  });
});
