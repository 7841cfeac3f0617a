/** A fake provider on a real socket of this machine. It answers at once; its time is what the test says. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { BatchFake, FakeAnswer } from "./fake.ts";

export interface ServedFake {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  close(): Promise<void>;
}

/** A lost answer, and a connection that the fake refuses, are both a socket that ends without an answer. */
export async function serve(fake: BatchFake): Promise<ServedFake> {
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      try {
        reply(outgoing, answerOf(fake, incoming, Buffer.concat(chunks)));
      } catch (error) {
        // A fault of the fake itself: its client would wait for ever.
        outgoing.writeHead(500).end(String(error));
      }
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function answerOf(
  fake: BatchFake,
  { method = "GET", url = "/", headers }: IncomingMessage,
  body: Buffer,
): FakeAnswer {
  const single = Object.entries(headers).map(([name, value]) => [name, String(value)] as const);
  return fake.handle({ method, path: url, headers: Object.fromEntries(single), body });
}

function reply(outgoing: ServerResponse, answer: FakeAnswer): void {
  if (typeof answer === "string") {
    outgoing.destroy();
    return;
  }
  const { status, headers, body, tornAfterBytes } = answer;
  outgoing.writeHead(status, { ...headers, "content-length": String(body.length) });
  if (tornAfterBytes === undefined) outgoing.end(body);
  else outgoing.write(body.subarray(0, tornAfterBytes), () => outgoing.destroy());
}
