/**
 * The connections of a server: what is slow is closed, and what cannot be read is answered once.
 *
 *   idle between requests        closed a second after the keep-alive time, which clients know
 *   a request that arrives       no byte for the idle time, or less than 1 MiB in five minutes: closed
 *   an answer that is not read   no byte for the idle time: closed
 *   an answer that is made       waited for
 *   `Expect: 100-continue`       asked for the body once it is read: what is refused by its headers need not be sent
 *   an unknown `Expect`          refused with 417, and closed
 *   answered before it arrived   the rest is read and dropped, so that the client reads its answer: for at most 30 s, and until 2 s bring no byte
 *
 * Once the server drains:
 *
 *   idle between requests        closed at once, or as soon as its last request is answered
 *   no whole request arrived     closed after half a second without one
 *
 * Slow headers and headers that are too long are Node's own checks; they arrive here as client errors.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock, Timer } from "../../clock.ts";
import { envelope, plain } from "./errors.ts";

export interface ConnectionLimits {
  /** Milliseconds in which `UPLOAD_BYTES_MIN` of an unfinished request must arrive. */
  readonly uploadMs: number;
}

const UPLOAD_BYTES_MIN = 1024 * 1024;
/** Checks every connection, in each upload window. */
const LOOKS = 10;
/** A client that still writes loses the answer when the connection is closed under it. */
const LINGER_MS = 500;
/** As long as nginx does (`lingering_time`). */
const LINGER_MAX_MS = 30_000;
/** Without a byte of the rest. */
const STILL_MS = 2_000;
/** Requests that a client sent just before it read about the end have so long to arrive. */
const ARRIVAL_MS = 500;
/** As later versions of Node do by themselves (`keepAliveTimeoutBuffer`). */
const GRACE_MS = 1_000;
const UNKNOWN_EXPECTATION = plain(
  417,
  "expectation_failed",
  "the only expectation that is met here is 100-continue",
);

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  markBytes: number;
  markMs: number;
}

export class Connections {
  readonly #clock: Clock;
  readonly #limits: ConnectionLimits;
  readonly #sockets = new Set<Socket>();
  /** The last one of each socket. */
  readonly #exchanges = new WeakMap<Socket, Exchange>();
  #timer: Timer;
  #isDraining = false;

  constructor(server: Server, clock: Clock, limits: ConnectionLimits) {
    this.#clock = clock;
    this.#limits = limits;
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      this.#lingerAtEnd(socket);
      if (this.#isDraining) this.#drain(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      this.#exchanges.set(socket, {
        request,
        response,
        markBytes: socket.bytesRead,
        markMs: clock.nowMs(),
      });
      response.once("finish", () => {
        if (!request.complete) this.#boundRest(request);
      });
      if (this.#isDraining) this.#drain(socket);
    });
    server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
      continueWhenRead(request, response);
      server.emit("request", request, response);
    });
    // Without a listener, Node answers it without a body.
    server.on("checkExpectation", (_request: IncomingMessage, response: ServerResponse) => {
      const body = envelope(UNKNOWN_EXPECTATION.error, "unread");
      response.writeHead(UNKNOWN_EXPECTATION.status, {
        ...{ connection: "close", "content-length": Buffer.byteLength(body) },
        ...{ "content-type": "application/json; charset=utf-8", "x-content-type-options": "nosniff" },
      });
      response.end(body);
    });
    // Who listens for it keeps Node from closing the socket by itself.
    server.on("timeout", (socket: Socket) => this.#onIdle(socket));
    server.once("close", () => this.#timer.cancel());
    this.#timer = this.#arm();
  }

  /** Answers what Node could not read as a request, and closes. */
  refuse(error: Error, socket: Socket): void {
    const exchange = this.#exchanges.get(socket);
    const isAnswering = exchange?.response.headersSent === true && !isOver(exchange);
    if (!socket.writable || isAnswering || "code" in error === false || error.code === "ECONNRESET") {
      socket.destroy();
      return;
    }
    socket.end(refusalText(String(error.code)));
    this.#clock.timer(LINGER_MS, () => socket.destroy(), { keepsAlive: false });
  }

  /** Node closes with `destroySoon` after the last answer: bytes that are unread then reset the connection, and the answer with it. */
  #lingerAtEnd(socket: Socket): void {
    const destroySoon = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      const request = this.#exchanges.get(socket)?.request;
      if (request === undefined || request.complete || this.#isDraining) return destroySoon();
      request.once("end", destroySoon);
      socket.end();
    };
  }

  /** Bounds the rest of a request that was answered before it arrived: Node would read it without a limit, on a connection that is kept as well. */
  #boundRest(request: IncomingMessage): void {
    const { socket } = request;
    const untilMs = this.#clock.nowMs() + LINGER_MAX_MS;
    let timer: Timer;
    const arm = (): void => {
      const { bytesRead } = socket;
      const look = (): void => {
        if (socket.bytesRead === bytesRead || this.#clock.nowMs() >= untilMs) socket.destroy();
        else arm();
      };
      timer = this.#clock.timer(STILL_MS, look, { keepsAlive: false });
    };
    arm();
    request.once("close", () => timer.cancel());
    request.unpipe().resume(); // what read it may have stopped, or stop later
  }

  /** Closes what does nothing, now and from now on; to be called before the server closes. */
  drain(): void {
    this.#isDraining = true;
    for (const socket of this.#sockets) this.#drain(socket);
  }

  /** Closes what is under way. */
  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Node closes what is idle by itself when its server closes, and nothing that is idle later, or that has sent some bytes. */
  #drain(socket: Socket): void {
    const exchange = this.#exchanges.get(socket);
    const close = (): void => {
      if (this.#exchanges.get(socket) === exchange) socket.destroySoon();
    };
    // Answers leave in the order of their requests: when the last one is out, all are.
    if (exchange !== undefined && !isOver(exchange)) exchange.response.once("close", close);
    else this.#clock.timer(ARRIVAL_MS, close, { keepsAlive: false });
  }

  #onIdle(socket: Socket): void {
    const exchange = this.#exchanges.get(socket);
    // The time counts again from the first byte of the answer.
    if (exchange !== undefined && isBeingMade(exchange)) return;
    if (exchange === undefined || !isOver(exchange)) socket.destroy();
    else this.#closeBetween(socket);
  }

  /** Later than the time that the client knows: a request that it sends at the last moment would be lost. */
  #closeBetween(socket: Socket): void {
    const { bytesRead } = socket;
    const close = (): void => {
      if (socket.bytesRead === bytesRead) socket.destroy();
    };
    this.#clock.timer(GRACE_MS, close, { keepsAlive: false });
  }

  #arm(): Timer {
    const look = (): void => {
      this.#lookAtUploads();
      this.#timer = this.#arm();
    };
    return this.#clock.timer(this.#limits.uploadMs / LOOKS, look, { keepsAlive: false });
  }

  #lookAtUploads(): void {
    const nowMs = this.#clock.nowMs();
    for (const socket of this.#sockets) {
      const exchange = this.#exchanges.get(socket);
      if (exchange === undefined || exchange.request.complete) continue;
      if (nowMs - exchange.markMs < this.#limits.uploadMs) continue;
      if (socket.bytesRead - exchange.markBytes < UPLOAD_BYTES_MIN) socket.destroy();
      exchange.markBytes = socket.bytesRead;
      exchange.markMs = nowMs;
    }
  }
}

/** Sends `100 Continue` when the body is read. Until then the connection is not kept: a client that has its answer may send the body or not. */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const { shouldKeepAlive } = response;
  const onListener = (event: string | symbol): void => {
    if (event !== "data" && event !== "readable") return;
    request.off("newListener", onListener);
    if (response.headersSent) return;
    response.shouldKeepAlive = shouldKeepAlive;
    response.writeContinue();
  };
  response.shouldKeepAlive = false;
  request.on("newListener", onListener);
}

function isOver({ response }: Exchange): boolean {
  return response.writableFinished;
}

/** The request has arrived, and nothing of the answer waits for the client. */
function isBeingMade({ request, response }: Exchange): boolean {
  return request.complete && !response.writableFinished && response.writableLength === 0;
}

function refusalText(code: string): string {
  const [status, reason, name, message] = refusalOf(code);
  const body = envelope(plain(status, name, message).error, "unread");
  return [
    `HTTP/1.1 ${status} ${reason}`,
    "connection: close",
    "content-type: application/json; charset=utf-8",
    "x-content-type-options: nosniff",
    `content-length: ${Buffer.byteLength(body)}`,
    "",
    body,
  ].join("\r\n");
}

function refusalOf(code: string): readonly [status: number, reason: string, code: string, message: string] {
  if (code === "HPE_HEADER_OVERFLOW")
    return [431, "Request Header Fields Too Large", "too_large", "the headers have more than 16 KiB"];
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return [408, "Request Timeout", "timeout", "the request did not arrive in time"];
  return [400, "Bad Request", "invalid_request", "this is not an HTTP request"];
}
