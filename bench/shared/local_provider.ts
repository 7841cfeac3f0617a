/**
 * The provider of benches that are given none: answers chat completions after `--latency` ms with the key between `[[` and `|` of
 * the prompt, over bare sockets, so that it takes a tenth of the engine's time. `GET /stats`: `{ req, ok, okps, dupOk, peak }`.
 *
 *   node --import tsx bench/shared/local_provider.ts --port 8080 [--latency 50]
 */
import { createServer, type Socket } from "node:net";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: { port: { type: "string", default: "0" }, latency: { type: "string", default: "50" } },
});
const latencyMs = Number(values.latency);
const HEAD_END = Buffer.from("\r\n\r\n");

let seen = new Map<string, number>();
let stats = { req: 0, ok: 0, inFlight: 0, peak: 0, dupOk: 0, firstMs: 0, lastMs: 0 };

createServer({ noDelay: true }, (socket) => {
  let bytes: Buffer = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    for (;;) {
      const end = bytes.indexOf(HEAD_END);
      if (end < 0) return;
      const head = bytes.toString("latin1", 0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (bytes.length < end + 4 + length) return;
      const body = bytes.subarray(end + 4, end + 4 + length);
      bytes = bytes.subarray(end + 4 + length);
      take(socket, head, body);
    }
  });
}).listen(Number(values.port), "127.0.0.1");

function take(socket: Socket, head: string, body: Buffer): void {
  if (head.startsWith("GET /stats")) {
    send(socket, JSON.stringify(told()));
    return;
  }
  if (head.startsWith("GET /reset")) {
    seen = new Map();
    stats = { req: 0, ok: 0, inFlight: 0, peak: 0, dupOk: 0, firstMs: 0, lastMs: 0 };
    send(socket, "{}");
    return;
  }
  if (stats.req === 0) stats.firstMs = performance.now();
  stats.req += 1;
  stats.inFlight += 1;
  stats.peak = Math.max(stats.peak, stats.inFlight);
  const key = /\[\[([^|\]]+)/.exec(body.toString("latin1", 0, 400))?.[1] ?? "";
  setTimeout(() => answer(socket, key), latencyMs);
}

function answer(socket: Socket, key: string): void {
  stats.inFlight -= 1;
  stats.ok += 1;
  stats.lastMs = performance.now();
  const times = (seen.get(key) ?? 0) + 1;
  seen.set(key, times);
  if (times === 2) stats.dupOk += 1;
  const content = `${key} ${"and so on ".repeat(28)}`;
  const usage = '{"prompt_tokens":150,"completion_tokens":75,"total_tokens":225}';
  send(
    socket,
    `{"id":"chatcmpl-${stats.ok}","object":"chat.completion","created":1795172400,"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":${JSON.stringify(content)},"refusal":null},"finish_reason":"stop"}],"usage":${usage}}`,
  );
}

function told(): object {
  const seconds = (stats.lastMs - stats.firstMs) / 1_000;
  return {
    req: stats.req,
    ok: stats.ok,
    okps: seconds > 0 ? stats.ok / seconds : 0,
    dupOk: stats.dupOk,
    peak: stats.peak,
  };
}

function send(socket: Socket, body: string): void {
  if (socket.destroyed) return;
  socket.write(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
