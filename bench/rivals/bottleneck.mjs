/**
 * Bottleneck around undici: one scheduled job a line, bounded by `maxConcurrent`.
 */
import Bottleneck from "bottleneck";
import { chatBody, openOutput, readRequests } from "./lines.mjs";
import { openPool } from "./pool.mjs";

export async function run({ input, output, baseUrl, inFlight }) {
  const pool = openPool(baseUrl, inFlight);
  const limiter = new Bottleneck({ maxConcurrent: inFlight });
  const out = openOutput(output);
  const answers = [];
  for await (const request of readRequests(input)) {
    answers.push(limiter.schedule(async () => out.write(request.key, await pool.send(chatBody(request)))));
  }
  await Promise.all(answers);
  await out.close();
  await pool.close();
}
