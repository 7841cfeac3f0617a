/**
 * BullMQ on Redis: one job a line, added a thousand at a time, taken by one worker that sends with undici.
 */
import { Queue, Worker } from "bullmq";
import { chatBody, openOutput, readRequests } from "./lines.mjs";
import { openPool } from "./pool.mjs";

export async function run({ input, output, baseUrl, inFlight, redisPort }) {
  const connection = { host: "127.0.0.1", port: redisPort, maxRetriesPerRequest: null };
  const pool = openPool(baseUrl, inFlight);
  const out = openOutput(output);
  const queue = new Queue("lines", { connection, defaultJobOptions: { removeOnComplete: true } });
  const worker = new Worker(
    "lines",
    async ({ data }) => out.write(data.key, await pool.send(chatBody(data))),
    {
      connection,
      concurrency: inFlight,
    },
  );
  let added = 0;
  let done = 0;
  let isAllAdded = false;
  const finished = new Promise((resolve, reject) => {
    worker.on("completed", () => {
      done += 1;
      if (isAllAdded && done === added) resolve();
    });
    worker.on("failed", (_, error) => reject(error));
  });
  const jobs = [];
  for await (const request of readRequests(input)) {
    jobs.push({ name: "line", data: request });
    if (jobs.length < 1_000) continue;
    added += jobs.length;
    await queue.addBulk(jobs.splice(0));
  }
  added += jobs.length;
  await queue.addBulk(jobs);
  isAllAdded = true;
  if (done < added) await finished;
  await worker.close();
  await queue.close();
  await out.close();
  await pool.close();
}
