/** A receiver on loopback that keeps what it is sent. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { onTestFinished } from "vitest";

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  /** Unpacked when it came packed. */
  readonly body: string;
  readonly bytes: Buffer;
}

export interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
}

export type Answer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string | Buffer }
  | ((request: IncomingMessage, response: ServerResponse, received: Received, call: number) => void);

/** Answers 200 by default. Closed after the test. */
export async function openReceiver(answer: Answer = { status: 200 }): Promise<Receiver> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("error", () => undefined);
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const bytes = Buffer.concat(chunks);
      const plain = request.headers["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes;
      const { method = "", url = "", headers } = request;
      const one = { method, url, headers, bytes, body: plain.toString("utf8") };
      received.push(one);
      if (typeof answer === "function") return answer(request, response, one, received.length);
      response.writeHead(answer.status, answer.headers).end(answer.body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, received };
}
