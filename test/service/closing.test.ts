/** A service that closes: what has come is answered, and nobody waits for connections that do nothing. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { HttpServer } from "../../src/service/http/server.ts";
import { openWorld, type World } from "./world.ts";

/** Far below the keep-alive time (5 s), the time for headers (10 s) and the idle time (60 s). */
const AT_ONCE_MS = 1_500;
const HEAD = "GET /slow HTTP/1.1\r\nhost: x\r\nauthorization: Bearer key-one\r\n\r\n";

interface Client {
  readonly socket: Socket;
  text: string;
}

async function clientOf({ port }: World): Promise<Client> {
  const socket = connect(port, "127.0.0.1");
  const client = { socket, text: "" };
  socket.on("data", (chunk) => {
    client.text += chunk.toString();
  });
  socket.on("error", () => undefined);
  await once(socket, "connect");
  return client;
}

/** A service with a route that answers when the test says so. */
async function openSlow(): Promise<{
  readonly world: World;
  answer: () => void;
  readonly asked: Promise<void>;
}> {
  let answer = (): void => undefined;
  let tellAsked = (): void => undefined;
  const asked = new Promise<void>((resolve) => {
    tellAsked = resolve;
  });
  const register = ({ app }: HttpServer): void => {
    app.get("/slow", { config: { scope: "infer:read" } }, async () => {
      await new Promise<void>((resolve) => {
        answer = resolve;
        tellAsked();
      });
      return { isAnswered: true };
    });
  };
  const world = await openWorld({ register });
  return { world, answer: () => answer(), asked };
}

async function closedMs({ server }: World): Promise<number> {
  const startMs = performance.now();
  await server.close();
  return performance.now() - startMs;
}

/** A server that closes while a request of a client is under way. */
async function closingOverRequest() {
  const { world, asked, answer } = await openSlow();
  const client = await clientOf(world);
  client.socket.write(HEAD);
  await asked;
  const ended = once(client.socket, "close");
  return { client, answer, ended, closing: closedMs(world) };
}

describe("a server that closes", () => {
  it("waits for no connection that is idle, was never used, or has sent half of its headers", async () => {
    const { world, asked, answer } = await openSlow();
    const [used, unused, half] = await Promise.all([clientOf(world), clientOf(world), clientOf(world)]);
    half.socket.write("GET /slow HTTP/1.1\r\nhost:");
    used.socket.write(HEAD);
    await asked;
    answer();
    await once(used.socket, "data");
    const ends = [used, unused].map(({ socket }) => once(socket, "close"));
    expect(await closedMs(world)).toBeLessThan(AT_ONCE_MS);
    await Promise.all(ends);
  });

  it("answers what is under way, and waits for its connection no longer", async () => {
    const { client, answer, closing, ended } = await closingOverRequest();
    await sleep(200);
    answer();
    expect(await closing).toBeLessThan(AT_ONCE_MS);
    await ended;
    expect(client.text).toMatch(/^HTTP\/1\.1 200 /);
    expect(client.text).toContain('{"isAnswered":true}');
  });

  it("answers what follows it on the same connection before it closes that", async () => {
    const { client, answer, closing, ended } = await closingOverRequest();
    client.socket.write("GET /v0/infer/tasks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer key-one\r\n\r\n");
    await sleep(200);
    answer();
    expect(await closing).toBeLessThan(AT_ONCE_MS);
    await ended;
    expect(client.text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 200"]);
  });

  it.each([0, 1])(
    "answers what was being sent just then, on a connection with %i requests before it",
    async (before) => {
      const { world, asked, answer } = await openSlow();
      const client = await clientOf(world);
      for (let n = 0; n < before; n += 1) {
        client.socket.write("GET /none HTTP/1.1\r\nhost: x\r\nauthorization: Bearer key-one\r\n\r\n");
        await once(client.socket, "data");
      }
      client.socket.write(HEAD.slice(0, 20));
      await sleep(50);
      const ended = once(client.socket, "close");
      const closing = closedMs(world);
      client.socket.write(HEAD.slice(20));
      await asked;
      await sleep(600);
      answer();
      expect(await closing).toBeLessThan(AT_ONCE_MS);
      await ended;
      expect(client.text.match(/HTTP\/1\.1 \d+/g)?.at(-1)).toBe("HTTP/1.1 200");
      expect(client.text.toLowerCase()).toContain("connection: close");
    },
  );
});
