/** Laws of the store: SQLite does what plain memory does, and a crash never takes what was acknowledged. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GroupCommit } from "../../src/store/group_commit.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import type { EntryPage, PageStart, StoreRequest } from "../../src/store/packed/requests.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { SqliteTables } from "../../src/store/sqlite_tables.ts";
import type { StoredEntry } from "../../src/store/store.ts";
import { MemoryDisk } from "../../src/testing/memory_disk.ts";
import { createRandom } from "../../src/testing/random.ts";

const openDatabase = await loadSqlite();
const id = fc.constantFrom("a", "b", "c");
const command = fc.oneof(
  fc.record({ kind: fc.constant("put" as const), id, name: fc.constantFrom("x", "y", "z") }),
  fc.record({ kind: fc.constant("delete" as const), id }),
  fc.record({
    kind: fc.constant("append" as const),
    id,
    wallMs: fc.integer({ min: 0, max: 5 }),
    records: fc.uint8Array({ maxLength: 40 }),
  }),
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;

function requestOf(
  given: Command,
  number: number,
): StoreRequest & { readonly kind: "append" | "putTask" | "deleteTask" } {
  if (given.kind === "delete") return { kind: "deleteTask", id: number, taskId: given.id };
  if (given.kind === "put") {
    const task = { id: given.id, name: given.name, createdWallMs: 1, body: String(number) };
    return { kind: "putTask", id: number, task };
  }
  const bytes = given.records.slice();
  const packed = { taskIds: [given.id], wallMs: [given.wallMs], sizes: [bytes.length], bytes };
  return { kind: "append", id: number, packed };
}

function readAll(tables: SqliteTables, start: PageStart): StoredEntry[] {
  const entries: StoredEntry[] = [];
  for (let from: PageStart | undefined = start; from !== undefined; ) {
    const page: EntryPage = tables.page(from);
    entries.push(...page.entries);
    from = page.next;
  }
  return entries;
}

const plain = (entries: readonly StoredEntry[]) =>
  entries.map(({ taskId, sequence, wallMs, records }) => [taskId, sequence, wallMs, ...records]);

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of source) found.push(one);
  return found;
}

describe("the store", () => {
  it("does in SQLite, however calls are grouped, what it does in memory one by one", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(command, { maxLength: 12 }), { maxLength: 6 }), async (groups) => {
        const memory = createMemoryStore();
        const tables = new SqliteTables(openDatabase(":memory:"));
        const commits = new GroupCommit(tables, { release: () => false, take: () => true });
        let number = 0;
        for (const group of groups) {
          const requests = group.map((given) => requestOf(given, ++number));
          const inSqlite = (await commits.handle(requests)).map((reply) => (reply.ok ? "ok" : reply.code));
          const inMemory: string[] = [];
          for (const request of requests) {
            const done =
              request.kind === "putTask"
                ? memory.putTask(request.task)
                : request.kind === "deleteTask"
                  ? memory.deleteTask(request.taskId)
                  : memory.append([
                      {
                        taskId: request.packed.taskIds[0]!,
                        wallMs: request.packed.wallMs[0]!,
                        records: request.packed.bytes,
                      },
                    ]);
            inMemory.push(
              await done.then(
                () => "ok",
                (error) => error.code,
              ),
            );
          }
          expect(inSqlite).toEqual(inMemory);
        }
        expect(tables.tasks(undefined, 10)).toEqual(await memory.tasks({ limit: 10 }));
        for (const taskId of ["a", "b", "c"]) {
          const found = readAll(tables, { taskId, afterSequence: 0 });
          expect(plain(found)).toEqual(plain(await all(memory.journal(taskId))));
        }
        const latest = readAll(tables, { taskId: undefined, beforeRow: Number.POSITIVE_INFINITY });
        expect(plain(latest)).toEqual(plain(await all(memory.latestEntries())));
        tables.close();
      }),
      { numRuns: 60 },
    );
  });
});

describe("the memory disk", () => {
  it("never loses synced bytes, and keeps nothing that was not written", async () => {
    const step = fc.oneof(fc.constant("sync" as const), fc.integer({ min: 1, max: 200 }));
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), fc.integer(), async (steps, seed) => {
        const disk = new MemoryDisk();
        const file = await disk.open("out", "write");
        let written = 0;
        let synced = 0;
        for (const given of steps) {
          if (given === "sync") {
            await file.sync();
            synced = written;
          } else {
            await file.write(
              Uint8Array.from({ length: given }, (_, index) => 1 + ((written + index) % 250)),
              written,
            );
            written += given;
          }
        }
        disk.crash({ powerCut: true, random: createRandom(seed) });
        const kept = disk.bytes("out")!;
        expect(kept.length).toBeGreaterThanOrEqual(synced);
        expect(kept.length).toBeLessThanOrEqual(written);
        // A hole left by a lost write reads as zeros; everything else is what was written there.
        kept.forEach((byte, index) => {
          if (index < synced || byte !== 0) expect(byte).toBe(1 + (index % 250));
        });
      }),
      { numRuns: 100 },
    );
  });
});
