import { createHash } from "node:crypto";
import { linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { moveFile } from "../../../src/satellites/builtin/move_file/move_file.ts";
import type { Json } from "../../../src/work/json.ts";
import { filesBelow } from "../../files_below.ts";
import { chunked, FileWorld } from "../../tasks/files.ts";
import { type Attempt, attempt, failedAttempt, MemoryNotes } from "./one_attempt.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "perigee-move-"));
  for (const folder of ["in", "out"]) mkdirSync(join(root, folder));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const satellite = () => moveFile({ roots: { in: join(root, "in"), out: join(root, "out"), all: root } });
const across = { from: { type: "fs", root: "in" }, store: { type: "fs", root: "out" } };
const within = { store: { type: "fs", root: "in" } };
const given = (input: object, more: Partial<Attempt> = {}): Attempt => ({ input, config: across, ...more });
const run = (input: object, more?: Partial<Attempt>) => attempt(satellite(), given(input, more));
const fails = (input: object, more?: Partial<Attempt>) => failedAttempt(satellite(), given(input, more));

const put = (path: string, text: string) => writeFileSync(join(root, path), text);
const read = (path: string) => readFileSync(join(root, path), "utf8");
const all = () =>
  filesBelow(root)
    .map((path) => path.slice(root.length + 1))
    .sort();
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

describe("move-file", () => {
  it("moves a file to another store and into a folder, and says what it was", async () => {
    put("in/a.txt", "content");
    expect(await run({ source: "a.txt", destination: "done/today/" })).toEqual({
      outcome: "moved",
      store: "fs:out",
      path: "done/today/a.txt",
      bytes: 7,
      sha256: sha256("content"),
    });
    expect(all()).toEqual(["out/done/today/a.txt"]);
    expect(read("out/done/today/a.txt")).toBe("content");
  });

  it("moves within a store, and leaves the source when the config says so", async () => {
    put("in/a.txt", "content");
    const kept = await run({ source: "a.txt", destination: "b.txt", keep_source: true }, { config: within });
    expect(kept).toMatchObject({ outcome: "copied", path: "b.txt" });
    await run({ source: "b.txt", destination: "c/d.txt" }, { config: within, executionId: "other" });
    expect(all()).toEqual(["in/a.txt", "in/c/d.txt"]);
  });

  it("fault 100: a repeat is a no-op, of the attempt and of the execution", async () => {
    put("in/a.txt", "content");
    const notes = new MemoryNotes();
    const input = { source: "a.txt", destination: "b.txt" };
    await run(input, { notes });
    expect(await run(input, { notes })).toMatchObject({ outcome: "moved", sha256: sha256("content") });
    const again = { executionId: "again" };
    expect(await run(input, again)).toMatchObject({ outcome: "already_moved", sha256: sha256("content") });
    expect(await run({ ...input, sha256: sha256("content") }, again)).toMatchObject({
      outcome: "already_moved",
    });
    expect(await fails({ ...input, sha256: sha256("other") }, again)).toMatchObject({ code: "not_found" });
    expect(await fails({ source: "no.txt", destination: "no.txt" }, again)).toMatchObject({
      failure: "permanent",
      code: "not_found",
    });
    expect(all()).toEqual(["out/b.txt"]);
  });

  it("fault 100: overwrites only when the input says so, and never loses what it would not move", async () => {
    put("in/a.txt", "new");
    put("out/a.txt", "old");
    const input = { source: "a.txt", destination: "a.txt" };
    expect(await fails(input)).toMatchObject({ failure: "permanent", code: "destination_exists" });
    expect(await run({ ...input, overwrite: "skip" })).toMatchObject({
      outcome: "skipped",
      sha256: sha256("old"),
    });
    expect([read("in/a.txt"), read("out/a.txt")]).toEqual(["new", "old"]);
    expect(await run({ ...input, overwrite: "replace" })).toMatchObject({ outcome: "moved" });
    expect(all()).toEqual(["out/a.txt"]);
    expect(read("out/a.txt")).toBe("new");
  });

  it("fault 100: tells two names of one file, and deletes neither", async () => {
    put("in/a.txt", "only one");
    linkSync(join(root, "in/a.txt"), join(root, "out/hard.txt"));
    const cases: readonly (readonly [object, object])[] = [
      [{ source: "a.txt", destination: "a.txt" }, within],
      [
        { source: "in/a.txt", destination: "a.txt" },
        { from: { type: "fs", root: "all" }, store: within.store },
      ],
      [{ source: "a.txt", destination: "hard.txt" }, across],
    ];
    for (const [input, config] of cases)
      for (const overwrite of ["error", "replace", "skip"]) {
        const failed = await fails({ ...input, overwrite }, { config });
        expect(failed).toMatchObject({ failure: "permanent", code: "same_file" });
      }
    expect(read("in/a.txt")).toBe("only one");
  });

  it("fault 100: leaves no store by its paths", async () => {
    put("in/a.txt", "content");
    for (const destination of ["../in/b.txt", "/etc/x", "a/../../x", "a//b", "a\\b", ".."])
      expect(await fails({ source: "a.txt", destination }), destination).toMatchObject({
        code: "invalid_path",
      });
    for (const source of ["../out/x", "/etc/passwd", "."])
      expect(await fails({ source, destination: "x" }), source).toMatchObject({ code: "invalid_path" });
    expect(all()).toEqual(["in/a.txt"]);
  });

  it("keeps a source that was changed after it was copied", async () => {
    put("in/a.txt", "before");
    const notes = new (class extends MemoryNotes {
      override async set(name: string, value: Json): Promise<void> {
        await super.set(name, value);
        if (name === "copied" && value !== null && read("in/a.txt") === "before")
          put("in/a.txt", "after all");
      }
    })();
    const input = { source: "a.txt", destination: "b.txt", overwrite: "replace" };
    expect(await fails(input, { notes })).toMatchObject({ failure: "ambiguous", code: "source_changed" });
    expect(read("in/a.txt")).toBe("after all");
    expect(await run(input, { notes })).toMatchObject({ outcome: "moved" });
    expect([all(), read("out/b.txt")]).toEqual([["out/b.txt"], "after all"]);
  });

  it("moves nothing with another hash than the requested one", async () => {
    put("in/a.txt", "content");
    const input = { source: "a.txt", destination: "b.txt", sha256: sha256("other") };
    expect(await fails(input)).toMatchObject({ failure: "permanent", code: "hash_mismatch" });
    expect(all()).toEqual(["in/a.txt"]);
  });

  it("copies a file of the project, and deletes it there only when the input says so", async () => {
    const fileStore = await new FileWorld().files();
    const { id } = await fileStore.put("one", {
      name: "r.txt",
      purpose: "user_data",
      chunks: chunked("result"),
    });
    const file = { file_id: id, name: "r.txt" };
    expect(await run({ file, destination: "results/" }, { fileStore })).toMatchObject({
      outcome: "copied",
      path: "results/r.txt",
      sha256: sha256("result"),
    });
    const notes = new MemoryNotes();
    const input = { file, destination: "moved/", keep_source: false };
    expect(await run(input, { fileStore, notes })).toMatchObject({ outcome: "moved" });
    await expect(fileStore.file("one", id)).rejects.toMatchObject({ code: "not_found" });
    expect(await run(input, { fileStore, notes })).toMatchObject({ outcome: "moved", path: "moved/r.txt" });
    expect(await fails(input, { fileStore })).toMatchObject({ failure: "permanent", code: "not_found" });
  });

  it("needs a path or a file, not both", async () => {
    for (const input of [{ destination: "x" }, { destination: "x", source: "a", file: { file_id: "b" } }])
      await expect(run(input)).rejects.toThrow("input.source");
  });
});
