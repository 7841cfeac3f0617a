/** Requests that are answered before they have arrived, over real sockets: the client reads its answer, and is not read from for ever. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { Writable } from "node:stream";
import { afterEach, describe, expect, it } from "vitest";
import { Connections } from "../../src/service/http/connections.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const MIB = 1024 * 1024;
/** More than the system's buffers of both ends take. */
const BODY_BYTES = 64 * MIB;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

type Reader = "nobody" | "one that gives up" | "one that passes it on";

/** A server that answers at the head of each request, or when its reader has got some of it. */
async function refusing({ reader = "nobody" as Reader, closes = true } = {}) {
  const clock = new FakeClock();
  let finish = (): void => undefined;
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const server = createServer((request: IncomingMessage, response) => {
    response.once("finish", finish);
    const refuse = () => response.writeHead(413, closes ? { connection: "close" } : {}).end("too large");
    const giveUp = (): void => {
      request.pause();
      refuse();
    };
    if (reader === "nobody") refuse();
    if (reader === "one that gives up") request.once("data", giveUp);
    if (reader !== "one that passes it on") return;
    const sink = new Writable({ write: () => refuse() }); // takes no more
    request.pipe(sink);
    response.once("finish", () => request.unpipe(sink));
  });
  const connections = new Connections(server, clock, { uploadMs: 300_000 });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    connections.destroy();
    server.close();
  });
  const connected = once(server, "connection");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).pause();
  client.on("error", () => undefined);
  closers.push(() => client.destroy());
  const [socket]: Socket[] = await connected;
  const arrived = async (bytes: number): Promise<void> => {
    while ((socket?.bytesRead ?? 0) < bytes) await new Promise(setImmediate);
  };
  return { clock, client, connections, arrived, answered: () => finished, closed: () => socket?.destroyed };
}

function head(bytes: number): string {
  return `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${bytes}\r\n\r\n`;
}

async function textOf(client: Socket): Promise<string> {
  let text = "";
  for await (const chunk of client) text += String(chunk);
  return text;
}

describe("a request that is answered before it has arrived", () => {
  it.each<Reader>(["nobody", "one that gives up", "one that passes it on"])(
    "is read to its end, for clients that read only then (its reader: %s)",
    async (reader) => {
      const { client } = await refusing({ reader });
      client.write(head(BODY_BYTES));
      const chunk = Buffer.alloc(MIB, "x");
      for (let sent = 0; sent < BODY_BYTES; sent += MIB)
        if (!client.write(chunk)) await once(client, "drain");
      expect(await textOf(client)).toMatch(/^HTTP\/1\.1 413 [\s\S]*too large/);
    },
  );

  it("has its answer and its end at once, while the client can still write", async () => {
    const { client } = await refusing();
    client.write(head(100));
    expect(await textOf(client)).toMatch(/^HTTP\/1\.1 413 /);
  });

  it("is cut off when it does not go on for two seconds", async () => {
    const { clock, client, arrived, answered, closed } = await refusing();
    const first = head(100);
    client.write(first);
    await answered();
    await clock.advance(1_999);
    client.write("x");
    await arrived(first.length + 1);
    await clock.advance(2_000);
    expect(closed()).toBe(false);
    await clock.advance(1);
    expect(closed()).toBe(true);
  });

  it.each([true, false])(
    "is cut off after thirty seconds, however steadily it goes on (the connection was to end: %s)",
    async (closes) => {
      const { clock, client, arrived, answered, closed } = await refusing({ closes });
      let bytes = head(1_000).length;
      client.write(head(1_000));
      await answered();
      for (let second = 1; second <= 30; second += 1) {
        expect(closed()).toBe(false);
        client.write("x");
        bytes += 1;
        await arrived(bytes);
        await clock.advance(1_000);
      }
      expect(closed()).toBe(true);
    },
  );

  it("holds nothing up when the server drains", async () => {
    const { clock, client, connections, answered, closed } = await refusing();
    const first = head(100);
    client.write(first);
    await answered();
    connections.drain();
    expect(closed()).toBe(false);
    await clock.advance(500);
    expect(closed()).toBe(true);
  });
});
