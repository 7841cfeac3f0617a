/**
 * A cluster that fetches many files and runs a satellite over each: the whole stack on SQLite and a real disk.
 *
 *   npm run bench -- cluster_files [FILES] [BYTES]      default 10,000 of 20,000 bytes
 *
 * Target: memory that does not grow with the number of files, for any sum of their sizes.
 */
import assert from "node:assert";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import type { ClusterView } from "../../src/clusters/cluster.ts";
import { openEngine } from "../../src/engine/engine.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { z } from "../../src/schema.ts";
import { openStack } from "../../src/service/stack.ts";

const LOOK_MS = 250;
const [count = 10_000, bytes = 20_000] = process.argv.slice(2).map(Number);
const CALLER = { project: "bench", keyId: undefined, isBeta: true };

const measure = defineSatellite({
  name: "measure",
  description: "Reads a file, and gives its size and its first characters.",
  input: z.strictObject({ file: z.looseObject({ file_id: z.string() }) }),
  config: z.strictObject({}),
  isRepeatable: true,
  run: async ({ input, files, project }) => {
    let size = 0;
    let text = "";
    for await (const chunk of files.read(project, input.file.file_id)) {
      if (size === 0) text = new TextDecoder().decode(chunk.subarray(0, 1_000));
      size += chunk.length;
    }
    return { size, text };
  },
});

const declaration = {
  sla: "1h",
  cluster: {
    satellites: [
      {
        identifier: "list",
        uses: "satellite/perigee/get-files",
        config: { store: { type: "fs", root: "inbox" } },
        input: { max_files: 100_000 },
      },
      {
        identifier: "measure",
        uses: "satellite/bench/measure",
        each: "${" + "{ list.output }}",
        concurrency: 64,
        input: { file: "${" + "{ each.item }}" },
      },
    ],
  },
};

const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
for (let index = 0; index < count; index += 1) {
  const sub = join(folder, "in", String(index % 100));
  if (index < 100) mkdirSync(sub, { recursive: true });
  writeFileSync(join(sub, `${index}.txt`), Buffer.alloc(bytes, `${index} `));
}
const dataDir = join(folder, "data");
const roots = { inbox: join(folder, "in") };
const opened = await openEngine({ env: {}, dataDir });
const stack = await openStack(opened, {
  ...{ env: {}, dataDir },
  satellites: { roots, trusted: [{ project: CALLER.project, satellites: [measure] }] },
  onFault: (error) => console.error(error),
});
const { clusters } = stack.satellites;

const begunMs = performance.now();
const { id } = await clusters.submit(CALLER, { declaration });
let view: ClusterView = await clusters.cluster(CALLER.project, id);
let mostMib = 0;
/** Resident memory whenever another tenth has ended. */
const tenths: number[] = [];
let listedMs = 0;
while (view.status === "pending") {
  await systemClock.sleep(LOOK_MS);
  view = await clusters.cluster(CALLER.project, id);
  const residentMib = Math.round(process.memoryUsage.rss() / 1024 / 1024);
  mostMib = Math.max(mostMib, residentMib);
  const ended = view.members[1]?.counts?.completed ?? 0;
  if (ended > 0 && listedMs === 0) listedMs = performance.now() - begunMs;
  if (ended > (tenths.length * count) / 10) tenths.push(residentMib);
}
const seconds = (performance.now() - begunMs) / 1_000;
assert.equal(view.status, "completed", JSON.stringify(view.error));
assert.equal(view.members[1]?.counts?.completed, count);
console.log(
  `${count} files, ${Math.round((count * bytes) / 1024 / 1024)} MiB: fetched after ${(listedMs / 1_000).toFixed(1)} s, ` +
    `all done after ${seconds.toFixed(1)} s, ${Math.round(count / (seconds - listedMs / 1_000))} elements/s; ` +
    `resident at most ${mostMib} MiB, while they ran ${tenths.join(", ")}`,
);
await stack.close();
await opened.engine.close();
rmSync(folder, { recursive: true, force: true });
