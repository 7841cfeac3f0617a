/**
 * One attempt to have a request answered by another worker, over its private address. Bodies and answers are streamed. When either end breaks
 * off, the other is broken off too.
 *
 *   connecting -> unsent    (refused, not reachable, or the worker does not have the partition: nothing was read there)
 *              -> later     (the worker hands the partition over, and this is for the next owner: nothing was read there)
 *              -> sent -> answering -> done      (an answer that breaks off is broken off to the client, too)
 *                      -> lost                   (the connection broke, or the worker died, before an answer began)
 *                      -> later                  (sent again after a loss, and the worker, which lives, is still at the first one)
 *
 * The router reads a small body in advance, so that the request can be sent again. A large one waits for the worker's `100 Continue`: until
 * then nothing of it was read.
 *
 * A streamed call that breaks off ends with an error for its client (hops/whole_events.ts).
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../clock.ts";
import { DRAINING, ELSEWHERE_HEADER, passedHeaders, withoutCoding, withoutFraming } from "./hop_headers.ts";
import { BROKEN_OFF, type Hops, type HopTarget } from "./hops/hops.ts";
import { isStreamedCall, wholeEvents } from "./hops/whole_events.ts";

/** A request of a client, and its body once that was read. */
export interface RoutedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Undefined: it is streamed. */
  readonly body: Uint8Array | undefined;
  /** How often it was lost before. */
  readonly losses?: number;
}

export type Forwarded = "done" | "unsent" | "later" | "lost";

const CONNECT_MS = 2_000;
const WITH_BODY = new Set(["POST", "PUT", "PATCH"]);

export class Forwarding {
  readonly #clock: Clock;
  readonly #hops: Hops;

  constructor(clock: Clock, hops: Hops) {
    this.#clock = clock;
    this.#hops = hops;
  }

  /** Never rejects. After `done` the response is over or broken off; after the others nothing of it was written. */
  forward(routed: RoutedRequest, target: HopTarget): Promise<Forwarded> {
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
        response.off("close", onLeft);
        resolve(result);
      };
      const onLeft = (): void => {
        upstream.destroy();
        end("done");
      };
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
        const refused = refusedHop(answer, routed);
        if (refused !== undefined) {
          answer.resume();
          upstream.destroy();
          end(refused);
          return;
        }
        relay(answer, routed, () => {
          end("done");
          if (!upstream.writableFinished) leaveUpload(routed.request, upstream);
        });
      });
    });
  }

  #begin({ request, body }: RoutedRequest, target: HopTarget): ClientRequest {
    const { method = "GET", url, rawHeaders, headers: came } = request;
    const passed = passedHeaders(rawHeaders, came.connection);
    const headers = body === undefined ? passed : withoutFraming(passed);
    if (body === undefined) headers.push("expect", "100-continue");
    else if (body.byteLength > 0 || WITH_BODY.has(method))
      headers.push("content-length", String(body.byteLength));
    const upstream = this.#hops.begin(target, { method, url, headers });
    if (body?.byteLength === 0) upstream.end();
    else if (body !== undefined) upstream.end(body);
    else upstream.once("continue", () => void request.pipe(upstream));
    return upstream;
  }
}

/** An answer for the router, not for the client; undefined for any other. */
function refusedHop(
  { statusCode, headers }: IncomingMessage,
  { losses = 0 }: RoutedRequest,
): Forwarded | undefined {
  const elsewhere = headers[ELSEWHERE_HEADER];
  if (elsewhere !== undefined) return elsewhere === DRAINING ? "later" : "unsent";
  // Only `idempotency_in_progress` has both: the first is what this router sent, so its client is to have that answer.
  return losses > 0 && statusCode === 409 && headers["retry-after"] !== undefined ? "later" : undefined;
}

/** Passes on the answer as it arrives. An answer to a body that has not arrived ends the connection, because the rest is not read. */
function relay(answer: IncomingMessage, { request, response }: RoutedRequest, done: () => void): void {
  const { statusCode = 502, statusMessage, rawHeaders, headers } = answer;
  const passed = withoutCoding(passedHeaders(rawHeaders, headers.connection));
  if (!request.complete) passed.push("connection", "close");
  response.writeHead(statusCode, statusMessage, passed);
  if (headers["content-length"] === undefined) response.flushHeaders(); // a stream may not begin for long; else one write less
  answer.on("error", () => undefined); // it closes then
  const events = isStreamedCall(request, answer) ? wholeEvents() : undefined;
  (events === undefined ? answer : answer.pipe(events.through)).pipe(response);
  response.once("finish", done);
  answer.once("close", () => {
    if (answer.complete || events?.breakOff(BROKEN_OFF.error) === true) return;
    response.destroy();
    done();
  });
}

function leaveUpload(request: IncomingMessage, upstream: ClientRequest): void {
  request.unpipe(upstream);
  upstream.destroy();
}
