/**
 * get-files: many files of a folder into the project's files, on SQLite and a real disk.
 *
 *   npm run bench -- get_files [FILES] [BYTES]      default 10,000 of 20,000 bytes
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { systemDisk } from "../../src/disk.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { openEngine } from "../../src/engine/engine.ts";
import { getFiles } from "../../src/satellites/builtin/get_files/get_files.ts";
import { createGuardedHttp } from "../../src/satellites/sdk/guarded_http.ts";
import { inlineScanner } from "../../src/shard/measurer.ts";
import { createFiles } from "../../src/tasks/files/file_store.ts";
import type { Json } from "../../src/work/json.ts";

const [count = 10_000, bytes = 20_000] = process.argv.slice(2).map(Number);
const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
for (let index = 0; index < count; index += 1) {
  const sub = join(folder, "in", String(index % 100));
  if (index < 100) mkdirSync(sub, { recursive: true });
  writeFileSync(join(sub, `${index}.txt`), Buffer.alloc(bytes, `${index} `));
}
const opened = await openEngine({ env: {}, dataDir: join(folder, "data") });
const { store } = opened.core.storage;
const shared = { disk: systemDisk, clock: systemClock, measurer: inlineScanner };
const files = await createFiles({ ...shared, store, dataDir: join(folder, "data") });
const every = { prefix: "", fetch: true, max_file_bytes: 1e9, max_total_bytes: 1e12 };
const notes = new Map<string, Json>();
const satellite = getFiles({ roots: { inbox: join(folder, "in") } });

async function run(): Promise<void> {
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  let peak = before;
  const look = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 5);
  const begun = performance.now();
  const output = await satellite.run({
    input: { ...every, max_files: 100_000, on_too_large: "error" },
    config: { store: { type: "fs", root: "inbox" } },
    ...{ executionId: "bench", project: "one", attempt: 1, deadlineWallMs: Number.MAX_SAFE_INTEGER },
    ...{ secretValues: [], signal: new AbortController().signal },
    clock: systemClock,
    http: createGuardedHttp(createEgress({ clock: systemClock })),
    files,
    tasks: undefined as never,
    execute: undefined as never,
    notes: { get: (name) => notes.get(name), set: async (name, value) => void notes.set(name, value) },
    progress: () => undefined,
    log: () => undefined,
  });
  const seconds = (performance.now() - begun) / 1_000;
  clearInterval(look);
  const mib = (value: number) => Math.round(value / 1024 / 1024);
  console.log(
    `${output["count"]} files, ${mib(Number(output["bytes"]))} MiB in ${seconds.toFixed(1)} s, ${Math.round(count / seconds)}/s; ` +
      `resident ${mib(before)} -> ${mib(peak)} MiB at most; output ${JSON.stringify(output).length} bytes`,
  );
}

await run();
await run();
await opened.engine.close();
rmSync(folder, { recursive: true, force: true });
