/**
 * A server on loopback for official SDKs: it keeps their last request, and answers what the test chooses.
 */
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A request as an SDK sent it; its body is JSON. */
export interface RecordedRequest {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** One for a test file. */
export class SdkRecorder {
  readonly #server: Server;
  /** The last request. */
  recorded: RecordedRequest | undefined;

  /** `reply` is called for each request. */
  constructor(reply: () => { readonly status: number; readonly body: string | Uint8Array }) {
    this.#server = createServer((incoming, outgoing) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk) => chunks.push(chunk));
      incoming.on("end", () => {
        const { method, url: path, headers } = incoming;
        this.recorded = { method, path, headers, body: JSON.parse(Buffer.concat(chunks).toString()) };
        const { status, body } = reply();
        outgoing.writeHead(status, { "content-type": "application/json" });
        outgoing.end(body);
      });
    });
  }

  /** Resolves with its address, without a slash at the end. */
  async open(): Promise<string> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
