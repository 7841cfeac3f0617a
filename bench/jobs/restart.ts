/**
 * How long a service needs to be ready again after SIGKILL with many open objects, which cannot be answered.
 *
 *   npm run bench -- restart [tasks=1000] [items of each=1000]
 *
 * With 1,000 x 1,000 items as tasks that share lots, and, with 1 x 1000000, as one task of its own. Wanted: 5 s for a million.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serviceOn } from "../shared/main_job.ts";

const [tasks = 1_000, itemsEach = 1_000] = process.argv.slice(2).map(Number);
const CALLERS = 32;

/** A provider that takes requests and never answers. */
const provider = createServer((request) => request.resume());
await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
const env = {
  ...process.env,
  PERIGEE_PROVIDER_OPENAI_BASE_URL: `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`,
  PERIGEE_PROVIDER_OPENAI_KEY: "bench",
};
const dir = mkdtempSync(join(tmpdir(), "perigee-bench-"));
try {
  const first = await serviceOn(dir, env);
  const headers = { authorization: `Bearer ${first.key}`, "content-type": "application/json" };
  const item = {
    model: "openai:gpt-test",
    input: "Name a river that flows through two countries.",
    sla: 1_440,
  };
  const body = JSON.stringify(Array(itemsEach).fill(item));
  const ids: string[] = [];
  let left = tasks;
  const post = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const posted = await fetch(`${first.url}/v0/infer/`, { method: "POST", headers, body });
      if (posted.status !== 200) throw new Error(`${posted.status} ${await posted.text()}`);
      ids.push(((await posted.json()) as { task_id: string }).task_id);
    }
  };
  const postedMs = performance.now();
  await Promise.all(Array.from({ length: Math.min(CALLERS, tasks) }, post));
  console.log(`${tasks} x ${itemsEach} items accepted in ${seconds(postedMs)} s`);
  await first.stop("SIGKILL");

  const startMs = performance.now();
  const second = await serviceOn(dir, env, first.key);
  while (!(await fetch(`${second.url}/readyz`).catch(() => undefined))?.ok);
  console.log(`ready again ${seconds(startMs)} s after the start`);
  const headersAgain = { authorization: `Bearer ${first.key}` };
  const task = await fetch(`${second.url}/v0/infer/task/${ids[0]}?limit=1`, { headers: headersAgain });
  const { counts } = (await task.json()) as { counts: { submitted: number } };
  if (counts.submitted !== itemsEach) throw new Error(JSON.stringify(counts));
  console.log(`the first task was read ${seconds(startMs)} s after the start`);
  await second.stop("SIGKILL");
} finally {
  provider.closeAllConnections();
  provider.close();
  rmSync(dir, { recursive: true, force: true });
}

function seconds(sinceMs: number): string {
  return ((performance.now() - sinceMs) / 1_000).toFixed(2);
}
