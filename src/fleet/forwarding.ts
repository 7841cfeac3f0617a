/**
 * One attempt to have a request answered by another worker, over its private address. Bodies and answers are streamed. When either end breaks
 * off, the other is broken off too.
 *
 *   connecting -> unsent    (refused, not reachable, or the worker does not have the partition: nothing was read there)
 *              -> sent -> answering -> done      (an answer that breaks off is broken off to the client, too)
 *                      -> lost                   (the connection broke, or the worker died, before an answer began)
 *
 * The router reads a small body in advance, so that the request can be sent again. A large one waits for the worker's `100 Continue`: until
 * then nothing of it was read.
 *
 * Node's own client, not undici, whose one importer is the transport of attempts: headers pass through as they came.
 */
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
  request as send,
} from "node:http";
import type { Clock } from "../clock.ts";
import {
  ELSEWHERE_HEADER,
  PART_HEADER,
  passedHeaders,
  SECRET_HEADER,
  withoutCoding,
  withoutFraming,
} from "./hop_headers.ts";

/** A request of a client, and its body once that was read. */
export interface RoutedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Undefined: it is streamed. */
  readonly body: Uint8Array | undefined;
}

/** The worker that is to answer. */
export interface ForwardTarget {
  readonly address: string;
  readonly part: number;
  /** Aborts when the worker is known to be dead: it may hold the connection and never answer. */
  readonly died: AbortSignal;
}

export type Forwarded = "done" | "unsent" | "lost";

const CONNECT_MS = 2_000;
/** Shorter than the private port keeps idle connections (ports.ts). */
const IDLE_MS = 30_000;
const WITH_BODY = new Set(["POST", "PUT", "PATCH"]);

export class Forwarding {
  readonly #clock: Clock;
  readonly #secret: string;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });

  constructor(clock: Clock, secret: string) {
    this.#clock = clock;
    this.#secret = secret;
  }

  /** Never rejects. After `done` the response is over or broken off; after the others nothing of it was written. */
  forward(routed: RoutedRequest, target: ForwardTarget): Promise<Forwarded> {
    return new Promise((resolve) => {
      const { response } = routed;
      const upstream = this.#begin(routed, target);
      let isConnected = false;
      let isOver = false;
      const timer = this.#clock.timer(CONNECT_MS, () => upstream.destroy(new Error("not connected in time")));
      const end = (result: Forwarded): void => {
        if (isOver) return;
        isOver = true;
        timer.cancel();
        target.died.removeEventListener("abort", onDeath);
        response.off("close", onLeft);
        resolve(result);
      };
      const onDeath = (): void => void upstream.destroy(new Error("the worker is dead"));
      const onLeft = (): void => {
        upstream.destroy();
        end("done");
      };
      target.died.addEventListener("abort", onDeath);
      response.once("close", onLeft);
      upstream.once("socket", (socket) => {
        const connected = (): void => {
          isConnected = true;
          timer.cancel();
        };
        if (socket.connecting) socket.once("connect", connected);
        else connected();
      });
      upstream.on("error", () => {
        if (!response.headersSent) end(isConnected ? "lost" : "unsent");
      });
      upstream.once("response", (answer) => {
        if (answer.headers[ELSEWHERE_HEADER] !== undefined) {
          answer.resume();
          upstream.destroy();
          end("unsent");
          return;
        }
        relay(answer, routed, () => {
          end("done");
          if (!upstream.writableFinished) leaveUpload(routed.request, upstream);
        });
      });
      if (target.died.aborted) onDeath();
    });
  }

  close(): void {
    this.#agent.destroy();
  }

  #begin({ request, body }: RoutedRequest, { address, part }: ForwardTarget): ClientRequest {
    const { method = "GET", url = "/", rawHeaders, headers } = request;
    const came = passedHeaders(rawHeaders, headers.connection);
    const passed = body === undefined ? came : withoutFraming(came);
    passed.push(SECRET_HEADER, this.#secret, PART_HEADER, String(part));
    if (body === undefined) passed.push("expect", "100-continue");
    else if (body.byteLength > 0 || WITH_BODY.has(method))
      passed.push("content-length", String(body.byteLength));
    const { hostname, port } = new URL(address);
    const upstream = send({
      ...{ host: hostname.replace(/^\[|\]$/g, ""), port, method, path: url, agent: this.#agent },
      headers: passed,
    });
    if (body?.byteLength === 0) upstream.end();
    else if (body !== undefined) upstream.end(body);
    else upstream.once("continue", () => void request.pipe(upstream));
    return upstream;
  }
}

/** Passes on the answer as it arrives. An answer to a body that has not arrived ends the connection, because the rest is not read. */
function relay(answer: IncomingMessage, { request, response }: RoutedRequest, done: () => void): void {
  const { statusCode = 502, statusMessage, rawHeaders, headers } = answer;
  const passed = withoutCoding(passedHeaders(rawHeaders, headers.connection));
  if (!request.complete) passed.push("connection", "close");
  response.writeHead(statusCode, statusMessage, passed);
  response.flushHeaders();
  answer.on("error", () => undefined); // it closes then
  answer.pipe(response);
  response.once("finish", done);
  answer.once("close", () => {
    if (answer.complete) return;
    response.destroy();
    done();
  });
}

function leaveUpload(request: IncomingMessage, upstream: ClientRequest): void {
  request.unpipe(upstream);
  upstream.destroy();
}
