/** Requests that go through a router to a worker, over real sockets: what is passed on, and what is known when it breaks off. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../../src/clock.ts";
import { type Forwarded, Forwarding } from "../../src/fleet/forwarding.ts";
import { ELSEWHERE_HEADER, noteClient, passedHeaders } from "../../src/fleet/hop_headers.ts";
import { Hops } from "../../src/fleet/hops/hops.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

type Handle = (request: IncomingMessage, response: ServerResponse) => void;

async function listening(handle: Handle): Promise<{ readonly server: Server; readonly address: string }> {
  const server = createServer(handle);
  server.on("checkContinue", handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

interface Route {
  readonly address: string;
  /** What each attempt ended with. */
  readonly results: Forwarded[];
  /** The worker is found dead. */
  readonly death: AbortController;
}

/** A router in front of one worker; bodies are read first where `isSmall`. */
async function routed(worker: string, isSmall = false, clock: Clock = systemClock): Promise<Route> {
  const hops = new Hops(clock, "secret");
  const forwarding = new Forwarding(clock, hops);
  const results: Forwarded[] = [];
  const death = new AbortController();
  const { address } = await listening((incoming, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      if (isSmall) for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const hasBody =
        incoming.headers["content-length"] !== undefined ||
        incoming.headers["transfer-encoding"] !== undefined;
      const body = isSmall || !hasBody ? Buffer.concat(chunks) : undefined;
      const target = { address: worker, part: 7, died: death.signal };
      const result = await forwarding.forward({ request: incoming, response, body }, target);
      results.push(result);
      if (result !== "done") response.writeHead(599).end();
    })();
  });
  closers.push(() => hops.close());
  return { address, results, death };
}

describe("a request that goes to another worker", () => {
  it("arrives with its method, path, headers and body, and the answer returns with its own", async () => {
    const seen: Record<string, unknown>[] = [];
    const worker = await listening(async (incoming, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const { method, url, headers } = incoming;
      seen.push({ method, url, headers, text: Buffer.concat(chunks).toString() });
      response.writeHead(201, { "x-answer": ["one", "two"], "content-type": "text/plain" }).end("made");
    });
    const route = await routed(worker.address, true);
    const answered = await fetch(`${route.address}/v0/infer/?a=1`, {
      method: "POST",
      headers: { authorization: "Bearer key", "idempotency-key": "k" },
      body: "hello",
    });
    expect([answered.status, await answered.text(), answered.headers.get("x-answer")]).toEqual([
      201,
      "made",
      "one, two",
    ]);
    expect(seen).toEqual([
      {
        method: "POST",
        url: "/v0/infer/?a=1",
        text: "hello",
        headers: expect.objectContaining({
          authorization: "Bearer key",
          "idempotency-key": "k",
          "content-length": "5",
          "x-perigee-fleet": "secret",
          "x-perigee-part": "7",
        }),
      },
    ]);
  });

  it.each(["GET", "DELETE", "OPTIONS", "POST"])(
    "with a body and %s is one request at the worker, whatever its Connection names",
    async (method) => {
      const smuggled = "DELETE /v0/files/of-others HTTP/1.1\r\nX-Swallow: ";
      for (const isSmall of [true, false])
        for (const named of [
          "content-length",
          "transfer-encoding, content-length",
          "x-forwarded-for, host",
        ]) {
          const seen: string[] = [];
          const { address } = await listening((incoming, response) => {
            if (incoming.headers.expect !== undefined) response.writeContinue();
            const chunks: Buffer[] = [];
            incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
            incoming.on("end", () => {
              const client = String(incoming.headers["x-forwarded-for"]);
              seen.push(`${incoming.method} ${incoming.url} ${client} ${Buffer.concat(chunks).toString()}`);
              response.end("answered");
            });
          });
          const route = await routed(address, isSmall);
          const ask = async (path: string, body: string): Promise<number | undefined> => {
            const { port } = new URL(route.address);
            const headers = {
              connection: named,
              "content-length": body.length,
              "x-forwarded-for": "192.0.2.1",
            };
            const sent = request({ host: "127.0.0.1", port, method, path, headers, agent: false });
            sent.end(body);
            const [answer] = (await once(sent, "response")) as [IncomingMessage];
            answer.resume();
            await once(answer, "end");
            return answer.statusCode;
          };
          expect([await ask("/first", smuggled), await ask("/second", "own")]).toEqual([200, 200]);
          expect(seen).toEqual([`${method} /first 192.0.2.1 ${smuggled}`, `${method} /second 192.0.2.1 own`]);
        }
    },
  );

  it("streams a large body only when the worker has asked for it", async () => {
    let bytes = 0;
    const worker = await listening(async (incoming, response) => {
      response.writeContinue();
      for await (const chunk of incoming) bytes += (chunk as Buffer).byteLength;
      response.end(String(bytes));
    });
    const route = await routed(worker.address);
    const answered = await fetch(route.address, { method: "POST", body: Buffer.alloc(5_000_000) });
    expect([await answered.text(), route.results]).toEqual(["5000000", ["done"]]);
  });

  it("streams an answer piece by piece", async () => {
    let finish = (): void => undefined;
    const worker = await listening((_incoming, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: 1\n\n");
      finish = () => void response.end("data: 2\n\n");
    });
    const route = await routed(worker.address);
    const answered = await fetch(route.address);
    const reader = (answered.body as ReadableStream<Uint8Array>).getReader();
    const piece = async (): Promise<string> => Buffer.from((await reader.read()).value ?? []).toString();
    expect(await piece()).toBe("data: 1\n\n");
    finish();
    expect(await piece()).toBe("data: 2\n\n");
    expect((await reader.read()).done).toBe(true);
  });

  it("is unsent when nobody listens, and when the worker says that it does not have the partition", async () => {
    const gone = await listening(() => undefined);
    gone.server.close();
    await once(gone.server, "close");
    const refused = await routed(gone.address);
    expect((await fetch(refused.address)).status).toBe(599);
    const worker = await listening((_incoming, response) => {
      response.writeHead(421, { [ELSEWHERE_HEADER]: "1" }).end("{}");
    });
    const elsewhere = await routed(worker.address);
    expect((await fetch(elsewhere.address, { method: "POST", body: "not read" })).status).toBe(599);
    expect([refused.results, elsewhere.results]).toEqual([["unsent"], ["unsent"]]);
  });

  it("is lost when the worker breaks off before it answers, or is found dead while it is silent", async () => {
    const breaking = await listening((incoming) => incoming.socket.destroy());
    const broken = await routed(breaking.address);
    expect((await fetch(broken.address)).status).toBe(599);
    let arrived = (): void => undefined;
    const isArrived = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const silent = await listening(() => arrived());
    const stopped = await routed(silent.address);
    const answered = fetch(stopped.address);
    await isArrived;
    stopped.death.abort();
    expect((await answered).status).toBe(599);
    expect([broken.results, stopped.results]).toEqual([["lost"], ["lost"]]);
  });

  it("breaks off to the client an answer that breaks off", async () => {
    const worker = await listening((_incoming, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("a part", () => response.destroy());
    });
    const route = await routed(worker.address);
    await expect(fetch(route.address).then((answered) => answered.text())).rejects.toThrow();
  });

  it.each([
    ["a chat", "data: {}\n\n", `data: {"error":{"message":`],
    [
      "a response",
      "event: response.created\ndata: {}\n\nevent: response.in_progress\ndata: {}\n\n",
      `event: error\ndata: {"type":"error","sequence_number":2,"code":"connection_lost",`,
    ],
  ])(
    "whose stream of %s breaks off ends with an error, after the last whole event",
    async (_name, whole, error) => {
      const worker = await listening((incoming, response) => {
        incoming.resume();
        response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
        response.write(`${whole}data: {"cut`, () => setImmediate(() => response.destroy()));
      });
      const route = await routed(worker.address, true);
      const text = await (await fetch(route.address, { method: "POST", body: "{}" })).text();
      expect(text.slice(0, whole.length + error.length)).toBe(whole + error);
      expect(text).toContain(`"code":"connection_lost"`);
      expect(text.endsWith("}\n\n")).toBe(true);
      const feed = await routed(worker.address);
      await expect(fetch(feed.address).then((answered) => answered.text())).rejects.toThrow();
    },
  );

  it("breaks off within an event that is too large to be kept", async () => {
    const worker = await listening((incoming, response) => {
      incoming.resume();
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${"x".repeat(2_000_000)}`, () => response.destroy());
    });
    const route = await routed(worker.address, true);
    const answered = fetch(route.address, { method: "POST", body: "{}" });
    await expect(answered.then((answer) => answer.text())).rejects.toThrow();
  });

  it("is lost when its worker answers nothing for 10 s, and waits as long as the worker answers others", async () => {
    const clock = new FakeClock();
    let isDeaf = false;
    let pings = 0;
    let finish = (): void => undefined;
    const arrivals: (() => void)[] = [];
    const worker = await listening((incoming, response) => {
      if (incoming.url === "/long") finish = () => void response.end("at last");
      else if (incoming.url === "/" && !isDeaf) response.writeHead(421).end();
      if (incoming.url === "/") pings += 1;
      arrivals.shift()?.();
    });
    const arrived = (): Promise<void> => new Promise((resolve) => arrivals.push(resolve));
    const route = await routed(worker.address, false, clock);
    const first = arrived();
    const long = fetch(`${route.address}/long`);
    await first;
    for (let count = 1; count <= 30; count += 1) {
      const pinged = arrived();
      await clock.advance(2_000);
      await pinged;
      for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve)); // its answer arrives
    }
    expect(pings).toBe(30);
    finish();
    expect(await (await long).text()).toBe("at last");
    isDeaf = true;
    const second = arrived();
    const lost = fetch(`${route.address}/long`);
    await second;
    await clock.advance(9_999);
    expect(route.results).toEqual(["done"]);
    await clock.advance(1);
    expect((await lost).status).toBe(599);
    expect(route.results).toEqual(["done", "lost"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("ends at the worker when the client leaves", async () => {
    let left: Promise<unknown> = Promise.resolve();
    let arrived = (): void => undefined;
    const isArrived = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const worker = await listening((incoming, response) => {
      left = once(response, "close");
      arrived();
      incoming.resume();
    });
    const route = await routed(worker.address);
    const client = request(route.address);
    client.on("error", () => undefined);
    client.end();
    await isArrived;
    client.destroy();
    await left;
    expect(route.results).toEqual(["done"]);
  });
});

const name = fc.constantFrom(
  "Accept",
  "X-One",
  "Host",
  "Connection",
  "Keep-Alive",
  "TE",
  "Upgrade",
  "X-Perigee-Fleet",
  "x-named",
  "Transfer-Encoding",
);

describe("headers", () => {
  it("pass in their order, but for those of a connection, those that it names, and those of workers", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.string())), (pairs) => {
        const passed = passedHeaders(pairs.flat(), "close, X-Named");
        const kept = pairs.filter(([each]) =>
          ["accept", "x-one", "host", "transfer-encoding"].includes(each.toLowerCase()),
        );
        expect(passed).toEqual(kept.flat());
      }),
    );
  });

  it.each([
    ["a caller that claims an address is not believed", false, "203.0.113.9", "192.0.2.1"],
    [
      "the last address that a trusted proxy added is believed",
      true,
      "203.0.113.9, 198.51.100.7",
      "198.51.100.7",
    ],
    ["a trusted proxy that added none leaves that of the connection", true, undefined, "192.0.2.1"],
  ])("%s", (_name, isBehindProxy, given, expected) => {
    const claimed = given === undefined ? {} : { "x-forwarded-for": given };
    const incoming = {
      headers: { ...claimed, "x-perigee-fleet": "guess" },
      rawHeaders: [...Object.entries(claimed).flat(), "X-Perigee-Fleet", "guess"],
      socket: { remoteAddress: "192.0.2.1" } as Socket,
    } as unknown as IncomingMessage;
    noteClient(incoming, isBehindProxy);
    expect(incoming.headers).toEqual({ "x-forwarded-for": expected });
    expect(incoming.rawHeaders).toEqual(["X-Forwarded-For", expected]);
  });
});
