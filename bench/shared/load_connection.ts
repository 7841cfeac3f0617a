/**
 * One connection of a load generator: the same request again and again, each after the answer to the one before.
 *
 *   connected -> sent -> head read -> body read -> sent ... -> closed
 *
 * The generator shares its two cores with the service that it measures. undici takes 49 us of them for a request, this 15,
 * because it reads no more of an answer than its status and its length. Every answer must say its length, as the service's do.
 */
import { connect, type Socket } from "node:net";

export interface LoadRequest {
  readonly url: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** Called with each answer; another request is sent while it returns true. */
export type OnAnswer = (status: number, startMs: number, endMs: number) => boolean;

/** Resolves when `onAnswer` has had enough; rejects when the connection breaks. */
export function load(request: LoadRequest, onAnswer: OnAnswer): Promise<void> {
  const { hostname, port } = new URL(request.url);
  const bytes = bytesOf(request);
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(Number(port), hostname);
    let startMs = 0;
    const answers = new Answers((status) => {
      if (onAnswer(status, startMs, performance.now())) send();
      else socket.destroy();
    });
    const send = (): void => {
      startMs = performance.now();
      socket.write(bytes);
    };
    socket.setNoDelay(true);
    socket.on("connect", send);
    socket.on("data", (chunk) => answers.take(chunk));
    socket.on("error", reject);
    socket.on("close", () => resolve());
  });
}

/** Cuts what comes into answers. */
class Answers {
  readonly #onAnswer: (status: number) => void;
  /** Of an answer whose head is not whole. */
  #head: Buffer = Buffer.alloc(0);
  #status = 0;
  /** Bytes of the body that are still to come. */
  #bodyBytes: number | undefined;

  constructor(onAnswer: (status: number) => void) {
    this.#onAnswer = onAnswer;
  }

  take(chunk: Buffer): void {
    let body = chunk;
    if (this.#bodyBytes === undefined) {
      this.#head = this.#head.byteLength === 0 ? chunk : Buffer.concat([this.#head, chunk]);
      const end = this.#head.indexOf("\r\n\r\n");
      if (end < 0) return;
      const head = this.#head.toString("latin1", 0, end);
      body = this.#head.subarray(end + 4);
      this.#head = Buffer.alloc(0);
      this.#status = Number(head.slice(9, 12));
      this.#bodyBytes = this.#status === 304 ? 0 : lengthOf(head);
    }
    this.#bodyBytes -= body.byteLength;
    if (this.#bodyBytes > 0) return;
    if (this.#bodyBytes < 0) throw new Error("more came than was asked for");
    this.#bodyBytes = undefined;
    this.#onAnswer(this.#status);
  }
}

function lengthOf(head: string): number {
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(head) ?? [];
  if (length === undefined) throw new Error(`an answer without its length: ${head}`);
  return Number(length);
}

function bytesOf({ url, method, path, headers, body }: LoadRequest): Buffer {
  const all = {
    host: new URL(url).host,
    ...headers,
    ...(body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) }),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body ?? ""}`);
}
