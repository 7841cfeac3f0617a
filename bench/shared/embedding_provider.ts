/**
 * A provider of embeddings for benches: each input has a vector of `--dimensions` numbers, of which the first is the number of the
 * text (`[[n]]`). `GET /stats`: `{ req, inputs, peak }`.
 *
 *   node --import tsx bench/shared/embedding_provider.ts --port 8080 [--latency 50] [--dimensions 256]
 */
import { createServer, type ServerResponse } from "node:http";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    latency: { type: "string", default: "50" },
    dimensions: { type: "string", default: "256" },
  },
});
const latencyMs = Number(values.latency);
const rest = Array.from({ length: Number(values.dimensions) - 1 }, (_, index) =>
  (Math.sin(index + 1) / 16).toFixed(8),
).join(",");
const stats = { req: 0, inputs: 0, inFlight: 0, peak: 0 };

createServer((request, response) => {
  if (request.url === "/stats") {
    response.end(JSON.stringify(stats));
    return;
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { input } = JSON.parse(Buffer.concat(chunks).toString()) as { input: string | string[] };
    stats.req += 1;
    stats.inFlight += 1;
    stats.peak = Math.max(stats.peak, stats.inFlight);
    setTimeout(() => answer(response, typeof input === "string" ? [input] : input), latencyMs);
  });
}).listen(Number(values.port), "127.0.0.1");

function answer(response: ServerResponse, inputs: readonly string[]): void {
  stats.inFlight -= 1;
  stats.inputs += inputs.length;
  const data = inputs.map((text, index) => {
    const number = /\[\[(\d+)\]\]/.exec(text)?.[1] ?? "0";
    return `{"object":"embedding","index":${index},"embedding":[${number},${rest}]}`;
  });
  const usage = `{"prompt_tokens":${inputs.length * 50},"total_tokens":${inputs.length * 50}}`;
  const body = `{"object":"list","data":[${data.join(",")}],"model":"text-embedding-3-small","usage":${usage}}`;
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}
