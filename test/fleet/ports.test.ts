/** The ports of a worker, over real sockets: what they pass on of a request, and what they still answer while they close. */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { FleetAccess } from "../../src/fleet/fleet_access.ts";
import { PART_HEADER, SECRET_HEADER } from "../../src/fleet/hop_headers.ts";
import { type FleetPort, openPrivatePort, openPublicPort } from "../../src/fleet/ports.ts";
import type { Handler } from "../../src/fleet/router.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

const AT = { host: "127.0.0.1", port: 0 };
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Client {
  readonly socket: Socket;
  readonly ended: Promise<unknown>;
  text: string;
}

async function clientOf({ address }: FleetPort): Promise<Client> {
  const socket = connect(Number(new URL(address).port), "127.0.0.1");
  const client = { socket, text: "", ended: once(socket, "close") };
  socket.on("data", (chunk) => {
    client.text += String(chunk);
  });
  socket.on("error", () => undefined);
  closers.push(() => socket.destroy());
  await once(socket, "connect");
  return client;
}

function post(path: string, more: readonly string[] = []): string {
  return [`POST ${path} HTTP/1.1`, "host: x", "content-length: 0", ...more, "", ""].join("\r\n");
}

/** A public port whose requests wait until the test answers them. */
async function waiting() {
  const clock = new FakeClock();
  const asked: ServerResponse[] = [];
  let tell = (): void => undefined;
  const handle = (_request: IncomingMessage, response: ServerResponse): void => {
    asked.push(response);
    tell();
  };
  const port = await openPublicPort(clock, handle, { ...AT, limits: undefined });
  const arrived = async (count: number): Promise<void> => {
    while (asked.length < count)
      await new Promise<void>((resolve) => {
        tell = resolve;
      });
  };
  return { clock, asked, port, arrived };
}

describe("the public port of a worker that leaves", () => {
  it("answers requests that have arrived, and one that follows on their connection, up to 15 s later", async () => {
    const { clock, asked, port, arrived } = await waiting();
    const client = await clientOf(port);
    client.socket.write(post("/early"));
    await arrived(1);
    let isClosed = false;
    const closing = port.close().then(() => {
      isClosed = true;
    });
    client.socket.write(post("/late"));
    await arrived(2);
    await clock.advance(14_999);
    expect([client.socket.destroyed, isClosed]).toEqual([false, false]);
    asked[0]?.end("early");
    asked[1]?.end("late");
    await Promise.all([client.ended, closing]);
    expect(client.text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2);
    expect(client.text).toContain("late");
  });

  it("closes after 15 s what is not answered by then", async () => {
    const { clock, port, arrived } = await waiting();
    const client = await clientOf(port);
    client.socket.write(post("/endless"));
    await arrived(1);
    const closing = port.close();
    await clock.advance(15_000);
    await Promise.all([client.ended, closing]);
    expect(client.text).toBe("");
  });
});

/** One that answers for partition 7. */
async function privatePort(handler: Handler): Promise<FleetPort> {
  const verifier = { verify: () => undefined };
  const access = new FleetAccess({ verifier, look: async () => undefined, isForm: () => false });
  const handlerOf = (part: number) => (part === 7 ? handler : undefined);
  const known = { access, local: { handlerOf, isDraining: () => false }, directory: { isFresh: true } };
  const port = await openPrivatePort(systemClock, { ...AT, secret: "s", ...known });
  closers.push(() => port.close());
  return port;
}

describe("the private port of a worker", () => {
  it("reads the rest of a body that it asked for and then refused, so that the other worker reads the answer", async () => {
    const port = await privatePort((request, response) => {
      const refuse = () => response.writeHead(413, { connection: "close" }).end();
      request.once("data", refuse);
    });
    const client = await clientOf(port);
    const bytes = 64 * 1024 * 1024;
    const expecting = ["expect: 100-continue", `${SECRET_HEADER}: s`, `${PART_HEADER}: 7`];
    client.socket.write(post("/", expecting).replace("content-length: 0", `content-length: ${bytes}`));
    await once(client.socket, "data");
    client.socket.pause();
    const chunk = Buffer.alloc(1024 * 1024, "x");
    for (let sent = 0; sent < bytes; sent += chunk.byteLength)
      if (!client.socket.write(chunk)) await once(client.socket, "drain");
    client.socket.resume();
    await client.ended;
    expect(client.text).toMatch(/^HTTP\/1\.1 100 [\s\S]*HTTP\/1\.1 413 /);
  });
});

describe("1,200 headers", () => {
  const many = Array.from({ length: 1_200 }, (_, index) => `x${index}: 1`);
  const last = "idempotency-key: the-last";
  const counted = (request: IncomingMessage, response: ServerResponse): void => {
    response.setHeader("connection", "close");
    const own = request.rawHeaders.filter((name, index) => index % 2 === 0 && /^x\d/.test(name));
    response.end(`${own.length} ${request.headers["idempotency-key"]}`);
  };

  it("all arrive through the public port", async () => {
    const port = await openPublicPort(systemClock, counted, { ...AT, limits: undefined });
    closers.push(() => port.close());
    const client = await clientOf(port);
    client.socket.write(post("/", [...many, last]));
    await client.ended;
    expect(client.text).toContain("1200 the-last");
  });

  it("all arrive through the private port, with those that workers add after them", async () => {
    const client = await clientOf(await privatePort(counted));
    client.socket.write(post("/", [...many, last, `${SECRET_HEADER}: s`, `${PART_HEADER}: 7`]));
    await client.ended;
    expect(client.text).toContain("1200 the-last");
  });
});
