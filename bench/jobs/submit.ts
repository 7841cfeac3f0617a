/**
 * What `engine.submit` of a list of one item takes until it is answered, by the echo provider: one list after the other, and 64 at once.
 *
 *   npm run bench -- submit [lists]        (default 2,000 lists each)
 *
 * Prints, for each, the time and the CPU of all threads for a list, without the first 10 % of the lists.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { createEngine, type Engine } from "../../src/index.ts";
import { type Row, report } from "../shared/harness.ts";

const AT_ONCE = [1, 64];

const lists = Number(process.argv[2] ?? 2_000);

async function submitAll(engine: Engine, count: number, atOnce: number): Promise<void> {
  let left = count;
  const caller = async (): Promise<void> => {
    for (; left > 0; ) {
      left -= 1;
      const { counts } = await engine.submit([{ model: "echo:m", input: `What is ${left} in French?` }]);
      if (counts.completed !== 1) throw new Error("a list was not answered");
    }
  };
  await Promise.all(Array.from({ length: atOnce }, caller));
}

async function measure(atOnce: number): Promise<readonly Row[]> {
  const dataDir = await mkdtemp(join(tmpdir(), "perigee-submit-"));
  const engine = await createEngine({ dataDir, env: {} });
  try {
    await submitAll(engine, Math.ceil(lists / 10), atOnce);
    const [startMs, before] = [performance.now(), process.cpuUsage()];
    await submitAll(engine, lists, atOnce);
    const { user, system } = process.cpuUsage(before);
    const name = `submit of one item, ${atOnce} at once`;
    return [
      { name, median: (user + system) / lists, unit: "us CPU/list" },
      { name, median: ((performance.now() - startMs) * 1_000) / lists, unit: "us/list" },
    ];
  } finally {
    await engine.close();
    await rm(dataDir, { recursive: true });
  }
}

const rows: Row[] = [];
for (const atOnce of AT_ONCE) rows.push(...(await measure(atOnce)));
report(rows);
