/**
 * The reference: undici in a bare loop, as many loops as connections. No retries, no limits, no state.
 */
import { chatBody, openOutput, readRequests } from "./lines.mjs";
import { openPool } from "./pool.mjs";

export async function run({ input, output, baseUrl, inFlight }) {
  const pool = openPool(baseUrl, inFlight);
  const out = openOutput(output);
  const requests = readRequests(input);
  const loop = async () => {
    for await (const request of requests) out.write(request.key, await pool.send(chatBody(request)));
  };
  await Promise.all(Array.from({ length: inFlight }, loop));
  await out.close();
  await pool.close();
}
