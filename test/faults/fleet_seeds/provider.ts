/**
 * A provider with a ledger: which process sent which item when, and what it was answered. A few answers are slow or fail, by seed and item; a
 * later send of the same item is answered.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createRandom } from "../../../src/testing/random.ts";

/** A request as the provider saw it. */
export interface Send {
  readonly item: number;
  /** The process that sent it: the first part of the path. */
  readonly process: string;
  readonly atMs: number;
  /** When the answer was written; undefined while it is in flight, or when the connection was closed before. */
  answeredMs: number | undefined;
  /** 0 until it was answered. */
  status: number;
}

const FAILS = 0.02;
const LIMITED = 0.003;
const SLOW = 0.02;
const SLOW_MS = 1_500;
/** In USD, at one for a million tokens. */
export const ANSWER_USD = 7e-6;

export class LedgerProvider {
  readonly #server: Server;
  /** In order of arrival. */
  readonly sends: Send[] = [];
  readonly #timesOf = new Map<number, number>();
  /** How often an execution called each number. */
  readonly calls = new Map<number, number>();
  answerMs = 40;

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => this.#receive(request, response));
  }

  static async open(): Promise<LedgerProvider> {
    const provider = new LedgerProvider(createServer());
    provider.#server.listen(0, "127.0.0.1");
    await once(provider.#server, "listening");
    return provider;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => {
      body += chunk;
    });
    request.on("end", () => {
      const [, first = "", second = ""] = (request.url ?? "").split("/");
      if (first === "calls") {
        this.calls.set(Number(second), (this.calls.get(Number(second)) ?? 0) + 1);
        setTimeout(() => response.end("ok"), this.answerMs);
      } else this.#answer(Number(/\[\[(\d+)\]\]/.exec(body)?.[1]), first, response);
    });
  }

  #answer(item: number, process: string, response: ServerResponse): void {
    const send: Send = { item, process, atMs: performance.now(), answeredMs: undefined, status: 0 };
    this.sends.push(send);
    const times = (this.#timesOf.get(item) ?? 0) + 1;
    this.#timesOf.set(item, times);
    const chance = createRandom(item)();
    const status = times > 1 || chance >= FAILS + LIMITED ? 200 : chance < FAILS ? 503 : 429;
    const delayMs = this.answerMs * (0.5 + createRandom(item + times)()) + (chance > 1 - SLOW ? SLOW_MS : 0);
    setTimeout(() => {
      if (response.destroyed) return;
      send.answeredMs = performance.now();
      send.status = status;
      response.writeHead(status, { "content-type": "application/json" });
      response.end(status === 200 ? answerOf(item) : '{"error":{"message":"not now"}}');
    }, delayMs);
  }
}

function answerOf(item: number): string {
  return JSON.stringify({
    id: "c",
    choices: [{ message: { role: "assistant", content: `answer ${item}` }, finish_reason: "stop" }],
    usage: { prompt_tokens: 5, completion_tokens: 2 },
  });
}
