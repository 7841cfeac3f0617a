/**
 * A bucket in memory with the part of S3's protocol that objects use: put once, get a range, remove, list.
 *
 *   well   as S3
 *   fails  most requests are refused with 503 or 500
 *   slow   each takes 0.5 to 2 s
 *   lost   puts are stored, and the connection is closed before the answer
 *   stale  lists lack what was stored and show what was removed in the last 30 s
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type BucketMode = "well" | "fails" | "slow" | "lost" | "stale";

interface Stored {
  readonly bytes: Buffer;
  readonly storedMs: number;
  removedMs: number | undefined;
}

const STALE_MS = 30_000;

export class BucketServer {
  readonly #server: Server;
  readonly #random: () => number;
  readonly #objects = new Map<string, Stored>();
  mode: BucketMode = "well";

  private constructor(server: Server, random: () => number) {
    this.#server = server;
    this.#random = random;
    server.on("request", (request, response) => void this.#receive(request, response));
  }

  static async open(random: () => number): Promise<BucketServer> {
    const bucket = new BucketServer(createServer(), random);
    bucket.#server.listen(0, "127.0.0.1");
    await once(bucket.#server, "listening");
    return bucket;
  }

  get env(): Readonly<Record<string, string>> {
    return {
      AWS_ENDPOINT_URL: `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`,
      AWS_ACCESS_KEY_ID: "key",
      AWS_SECRET_ACCESS_KEY: "secret",
      AWS_REGION: "us-east-1",
    };
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer); // no encoding was set
    if (this.mode === "slow")
      await new Promise((resolve) => setTimeout(resolve, 500 + 1_500 * this.#random()));
    if (this.mode === "fails" && this.#random() < 0.7) {
      response.writeHead(this.#random() < 0.5 ? 503 : 500).end();
      return;
    }
    const url = new URL(request.url ?? "/", "http://bucket");
    const name = decodeURIComponent(url.pathname);
    if (url.searchParams.has("list-type")) this.#list(url.searchParams.get("prefix") ?? "", response);
    else if (request.method === "PUT") this.#put(name, bodyOf(request, chunks), request, response);
    else if (request.method === "DELETE") this.#remove(name, response);
    else this.#get(name, request, response);
  }

  #put(name: string, bytes: Buffer, request: IncomingMessage, response: ServerResponse): void {
    const isStored = this.#objects.get(name)?.removedMs === undefined && this.#objects.has(name);
    if (isStored && request.headers["if-none-match"] === "*") {
      response.writeHead(412).end();
      return;
    }
    this.#objects.set(name, { bytes, storedMs: performance.now(), removedMs: undefined });
    if (this.mode === "lost" && this.#random() < 0.7) response.destroy();
    else response.writeHead(200, { etag: '"e"' }).end();
  }

  #remove(name: string, response: ServerResponse): void {
    const found = this.#objects.get(name);
    if (found !== undefined) found.removedMs ??= performance.now();
    response.writeHead(204).end();
  }

  #get(name: string, { headers, method }: IncomingMessage, response: ServerResponse): void {
    const found = this.#objects.get(name);
    if (found === undefined || found.removedMs !== undefined) {
      response
        .writeHead(404, { "content-type": "application/xml" })
        .end("<Error><Code>NoSuchKey</Code></Error>");
      return;
    }
    const [, from, to] = /bytes=(\d+)-(\d+)/.exec(headers.range ?? "") ?? [];
    const part = from === undefined ? found.bytes : found.bytes.subarray(Number(from), Number(to) + 1);
    const lengths = { "content-length": part.byteLength, etag: '"e"' };
    const range =
      from === undefined ? {} : { "content-range": `bytes ${from}-${to}/${found.bytes.byteLength}` };
    response.writeHead(from === undefined ? 200 : 206, { ...lengths, ...range });
    response.end(method === "HEAD" ? undefined : part);
  }

  /** Names begin with the bucket. */
  #list(prefix: string, response: ServerResponse): void {
    const freshMs = performance.now() - (this.mode === "stale" ? STALE_MS : 0);
    const shown = [...this.#objects].filter(
      ([, { storedMs, removedMs }]) =>
        storedMs <= freshMs && (removedMs === undefined || removedMs > freshMs),
    );
    const keys = shown.map(([name, { bytes }]) => ({
      key: name.split("/").slice(2).join("/"),
      size: bytes.byteLength,
    }));
    const contents = keys
      .filter(({ key }) => key.startsWith(prefix))
      .map(
        ({ key, size }) =>
          `<Contents><Key>${key}</Key><Size>${size}</Size><LastModified>${new Date().toISOString()}</LastModified></Contents>`,
      );
    response.writeHead(200, { "content-type": "application/xml" });
    response.end(`<ListBucketResult><IsTruncated>false</IsTruncated>${contents.join("")}</ListBucketResult>`);
  }
}

/** The SDK sends bytes in chunks with checksums (`aws-chunked`) or as they are. */
function bodyOf({ headers }: IncomingMessage, chunks: readonly Buffer[]): Buffer {
  const sent = Buffer.concat(chunks);
  if (headers["x-amz-decoded-content-length"] === undefined) return sent;
  const parts: Buffer[] = [];
  for (let at = 0; at < sent.byteLength; ) {
    const lineEnd = sent.indexOf("\r\n", at);
    const size = Number.parseInt(sent.toString("latin1", at, lineEnd), 16);
    if (size === 0) break;
    parts.push(sent.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  return Buffer.concat(parts);
}
