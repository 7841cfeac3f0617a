/**
 * The whole service for tests of the operator page: a provider that answers at a pace, one key, and a way to it that
 * can be cut.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Caller, Scope } from "../../src/service/http/caller.ts";
import { createPerigeeService, type SatelliteSettings } from "../../src/service/index.ts";

export const KEY = "pgk_live_test";

export interface PageWorld {
  /** Where the page is. */
  readonly url: string;
  /** Whether the key is accepted. */
  isKeyValid: boolean;
  /** Sends a request with the key, and gives the answer's JSON. */
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  /** What a GET with the key answers, as text. */
  text(path: string): Promise<string>;
  /** Nobody reaches the service, and connections to it break. */
  cut(): Promise<void>;
  /** It is reached again. */
  mend(): Promise<void>;
  close(): Promise<void>;
}

export interface PageWorldOptions {
  /** Default: those of inference. */
  readonly scopes?: readonly Scope[];
  readonly satellites?: SatelliteSettings;
}

export async function openPageWorld(options: PageWorldOptions = {}): Promise<PageWorld> {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-page-"));
  const provider = await startProvider();
  const caller: Caller = {
    keyId: "k1",
    project: "red",
    scopes: new Set(options.scopes ?? ["infer:read", "infer:write"]),
    isBeta: false,
  };
  const service = await createPerigeeService({
    dataDir,
    env: {},
    providers: {
      demo: { baseUrl: provider.url, key: "k" },
      small: { baseUrl: provider.url, key: "k" },
      gone: { baseUrl: "http://127.0.0.1:9/v1", key: "k" }, // the port that nothing listens on
    },
    limits: {
      demo: { requestsPerMinute: 30_000, tokensPerMinute: 1_200_000, concurrency: 24 },
      small: { tokensPerMinute: 1_000 },
    },
    prices: { "demo:*": { inputUsdPerMillion: 2, outputUsdPerMillion: 8 } },
    threads: 1,
    ...(options.satellites === undefined ? {} : { satellites: options.satellites }),
    verifier: {
      verify: (header, area) =>
        world.isKeyValid && header === (area === "v1" ? KEY : `Bearer ${KEY}`) ? caller : undefined,
    },
  });
  const direct = await service.listen({ port: 0 });
  const way = new Way(Number(new URL(direct).port));
  await way.open();
  const world: PageWorld = {
    url: `http://127.0.0.1:${way.port}/`,
    isKeyValid: true,
    cut: () => way.close(),
    mend: () => way.open(),
    async call(method, path, body) {
      const response = await fetch(direct + path, {
        method,
        headers: {
          authorization: path.startsWith("/v1/") ? KEY : `Bearer ${KEY}`,
          "content-type": "application/json",
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
      return (await response.json()) as Record<string, unknown>;
    },
    text: async (path) =>
      (await fetch(direct + path, { headers: { authorization: `Bearer ${KEY}` } })).text(),
    async close() {
      await way.close();
      await service.close();
      await provider.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  return world;
}

/** Passes bytes on from a port of its own, which it keeps. */
class Way {
  port = 0;
  readonly #to: number;
  #server: Server | undefined;
  readonly #sockets = new Set<Socket>();

  constructor(to: number) {
    this.#to = to;
  }

  async open(): Promise<void> {
    const server = createTcpServer((socket) => {
      const onward = connect(this.#to, "127.0.0.1");
      for (const [one, other] of [
        [socket, onward],
        [onward, socket],
      ] as const) {
        this.#sockets.add(one);
        one.on("error", () => other.destroy()).on("close", () => other.destroy());
        one.pipe(other);
      }
    });
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(this.port, "127.0.0.1", resolve));
    this.port = (server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server?.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    await closed;
  }
}

const ANSWER_MS = 40;

/** Speaks OpenAI's protocol; a prompt that holds `[[refuse]]` is refused. */
async function startProvider() {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      setTimeout(() => {
        const isRefused = body.includes("[[refuse]]");
        const answer = isRefused
          ? { error: { message: "no", type: "invalid_request_error", code: "invalid_request_error" } }
          : {
              model: "m",
              choices: [{ message: { role: "assistant", content: "Because." }, finish_reason: "stop" }],
              usage: { prompt_tokens: 120, completion_tokens: 60, total_tokens: 180 },
            };
        response.writeHead(isRefused ? 400 : 200, { "content-type": "application/json" });
        response.end(JSON.stringify(answer));
      }, ANSWER_MS);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
