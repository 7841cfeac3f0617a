/** What was deleted is in no file of the store once that was asked for. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";

/** Files of the folder that hold the text. */
function holding(dir: string, text: string): string[] {
  const files = readdirSync(dir).filter((name) => name !== "folder.json.part"); // renamed meanwhile
  return files.filter((name) => readFileSync(join(dir, name)).includes(text));
}

it("holds nothing of what was deleted, neither in the database nor in the log before it", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-scrub-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const store = await openSqliteStore({ dataDir });
  onTestFinished(() => store.close());
  const record = (id: string, text: string) => ({
    ...{ collection: "c", id, project: "p", parent: "of", createdWallMs: 1, body: "{}" },
    payload: Buffer.from(text.repeat(300)),
  });
  const all = Array.from({ length: 50 }, (_, index) => record(String(index), "the erased text "));
  await store.change(all.map((one) => ({ kind: "put", record: one })));
  await store.change([{ kind: "put", record: record("kept", "the kept text ") }]);
  await store.scrub(); // it is in the database by now
  await store.change([{ kind: "deleteOf", collection: "c", parent: "of" }]);
  await store.change([{ kind: "put", record: record("kept", "the kept text ") }]);
  await store.scrub();
  expect(holding(dataDir, "the erased text")).toEqual([]);
  expect(holding(dataDir, "the kept text")).toEqual(["journal.sqlite"]);
  expect(await store.record("p", "c", "kept")).toMatchObject({ id: "kept" });
});
