/**
 * A load balancer for tests: HTTP/1.1, each request to the next backend in turn, also those of one connection.
 *
 * It passes on what it gets: bodies and answers as they arrive, HEAD, ranges, events, and `Expect: 100-continue`, which it leaves to the
 * backend. It names the client in `X-Forwarded-For`. A request whose backend breaks off is not sent again: its connection is closed.
 */
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, type ServerResponse, request as send } from "node:http";
import type { AddressInfo } from "node:net";

/** More than a service takes, so that the service refuses. */
const HEADER_BYTES_MAX = 256 * 1024;
/** How long a client that was refused may send on. */
const LINGER_MS = 2_000;
const OWN = new Set(["connection", "keep-alive", "proxy-connection", "x-forwarded-for"]);

export class Balancer {
  /** Where the backends answer. */
  backends: readonly string[] = [];
  /** Texts of keys that tests use, and what is sent for them. */
  readonly keys: Map<string, string> = new Map();
  /** How many requests each backend got. */
  readonly sent: Map<string, number> = new Map();
  readonly #agent = new Agent({ keepAlive: true });
  readonly #server = createServer({
    requireHostHeader: false,
    maxHeaderSize: HEADER_BYTES_MAX,
    requestTimeout: 0,
  });
  #turn = 0;

  /** Resolves when it listens. */
  static async open(): Promise<Balancer> {
    const balancer = new Balancer();
    balancer.#server.on("request", balancer.#pass);
    balancer.#server.on("checkContinue", balancer.#pass);
    balancer.#server.listen(0, "127.0.0.1");
    await once(balancer.#server, "listening");
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`; // it listens on TCP
  }

  async close(): Promise<void> {
    this.#agent.destroy();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #next(): URL {
    const backend = this.backends[this.#turn++ % this.backends.length] ?? "";
    this.sent.set(backend, (this.sent.get(backend) ?? 0) + 1);
    return new URL(backend);
  }

  readonly #pass = (request: IncomingMessage, response: ServerResponse): void => {
    const { hostname, port } = this.#next();
    const { method, url } = request;
    const headers = this.#headers(request);
    const upstream = send({ host: hostname, port, method, path: url, headers, agent: this.#agent });
    upstream.on("continue", () => response.writeContinue());
    upstream.on("response", (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answered(answer));
      response.flushHeaders();
      answer.on("error", () => response.destroy());
      answer.pipe(response, { end: false });
      answer.on("end", () => end(request, response));
      if (request.complete) return;
      request.unpipe(upstream); // it was refused: the backend reads no more
      request.resume();
    });
    upstream.on("error", () => {
      if (!response.headersSent) response.destroy();
    });
    response.on("close", () => upstream.destroy());
    upstream.flushHeaders();
    if (request.headers.expect === undefined) request.pipe(upstream);
    else upstream.once("continue", () => request.pipe(upstream));
  };

  #headers({ rawHeaders, socket }: IncomingMessage): string[] {
    const passed = kept(rawHeaders, (name) => OWN.has(name)).map((text, at, all) =>
      at % 2 === 1 && all[at - 1]?.toLowerCase() === "authorization" ? this.#key(text) : text,
    );
    return [...passed, "x-forwarded-for", socket.remoteAddress ?? ""];
  }

  #key(text: string): string {
    const [, scheme = "", name = ""] = /^(Bearer )?(\S+)$/.exec(text) ?? [];
    const key = this.keys.get(name);
    return key === undefined ? text : scheme + key;
  }
}

/** A client may read its answer only after it has sent its whole body. */
function end(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) {
    response.end();
    return;
  }
  const timer = setTimeout(() => response.end(), LINGER_MS);
  request.once("close", () => clearTimeout(timer));
  request.once("end", () => response.end());
}

/** The connection is the balancer's own, and so is the coding of the body; that an answer ends its connection is passed on. */
function answered({ rawHeaders, headers }: IncomingMessage): string[] {
  const passed = kept(rawHeaders, (name) => OWN.has(name) || name === "transfer-encoding");
  return headers.connection === "close" ? [...passed, "connection", "close"] : passed;
}

function kept(raw: readonly string[], isLeft: (name: string) => boolean): string[] {
  return raw.filter((_text, at) => !isLeft((raw[at - (at % 2)] as string).toLowerCase()));
}
