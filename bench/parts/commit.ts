/**
 * Committing: an entry of 16 KB and a record of 500 bytes until they are synced, on the store's thread; beside them only the disk,
 * write and fdatasync. `npm run build` first.
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { PartBench } from "../shared/harness.ts";

const CALLERS = 64;

export async function open(): Promise<PartBench> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
  const store = await openSqliteStore({ dataDir: join(folder, "data") });
  const file = openSync(join(folder, "raw"), "w");
  const records = new Uint8Array(16_384).fill(7);
  const payload = new Uint8Array(500).fill(65);
  const disk = {
    name: "write and fdatasync",
    run: () => {
      writeSync(file, records);
      fdatasyncSync(file);
    },
  };
  const append = (): Promise<void> => store.append([{ taskId: "a", wallMs: 0, records }]);
  const put = (): Promise<void> =>
    store.change([
      {
        kind: "put",
        record: {
          collection: "object",
          id: crypto.randomUUID(),
          project: "p",
          parent: "",
          createdWallMs: 0,
          body: "{}",
          payload,
        },
      },
    ]);
  const together = (each: () => Promise<void>) => () => Promise.all(Array.from({ length: CALLERS }, each));
  return {
    parts: [
      { name: "commit: an entry of 16 KB, alone", of: "entry", calls: 1, run: append, beside: disk },
      {
        name: "commit: an entry of 16 KB, 64 callers",
        of: "entry",
        calls: CALLERS,
        run: together(append),
        beside: disk,
      },
      {
        name: "commit: a record, 64 callers",
        of: "record",
        calls: CALLERS,
        run: together(put),
        beside: disk,
      },
    ],
    close: async () => {
      await store.close();
      closeSync(file);
      rmSync(folder, { recursive: true });
    },
  };
}
