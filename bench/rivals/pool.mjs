/**
 * Undici's pool with nothing around it but the answer's text: what the bare loop, bottleneck and BullMQ send with.
 */
import { Pool } from "undici";

export function openPool(baseUrl, inFlight) {
  const { origin, pathname } = new URL(`${baseUrl}/chat/completions`);
  const pool = new Pool(origin, { connections: inFlight });
  const headers = { "content-type": "application/json", authorization: "Bearer bench" };
  return {
    async send(body) {
      const answer = await pool.request({
        method: "POST",
        path: pathname,
        headers,
        body: JSON.stringify(body),
      });
      if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
      return (await answer.body.json()).choices[0].message.content;
    },
    close: () => pool.close(),
  };
}
