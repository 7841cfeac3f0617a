import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { getFiles } from "../../../src/satellites/builtin/get_files/get_files.ts";
import { moveFile } from "../../../src/satellites/builtin/move_file/move_file.ts";
import type { Files } from "../../../src/tasks/files/files.ts";
import type { JsonObject } from "../../../src/work/json.ts";
import { userMsSince } from "../../cpu_time.ts";
import { chunked, FileWorld, textOf } from "../../tasks/files.ts";
import { type Attempt, attempt, failedAttempt, MemoryNotes } from "./one_attempt.ts";
import { type S3Server, startS3 } from "./s3_server.ts";

interface Output {
  readonly files: readonly JsonObject[];
  readonly count: number;
  readonly bytes: number;
  readonly skipped: number;
  readonly left_out_count: number;
  readonly left_out: readonly { readonly path: string; readonly reason: string }[];
  readonly is_complete: boolean;
  readonly list: { readonly file_id: string } | null;
}

let root: string;
let files: Files;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "perigee-get-"));
  files = await new FileWorld().files();
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const store = { type: "fs", root: "inbox" };

function put(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

/** Empty files that share one inode: a disk makes a link 20 times as fast as a file. */
function putMany(count: number, pathOf: (index: number) => string): void {
  put(pathOf(0), "");
  for (let index = 1; index < count; index += 1) linkSync(join(root, pathOf(0)), join(root, pathOf(index)));
}

const given = (input: object, more: Partial<Attempt> = {}): Attempt => ({
  input,
  config: { store },
  fileStore: files,
  ...more,
});
const satellite = () => getFiles({ roots: { inbox: root } });
const run = async (input: object, more?: Partial<Attempt>) =>
  (await attempt(satellite(), given(input, more))) as unknown as Output;

describe("what get-files leaves out", () => {
  it("is counted and named: links, and names that are not UTF-8 or hold line ends", async () => {
    put("in/a.txt", "a");
    put("in/b\nc.txt", "b");
    put("in/back\\slash.txt", "c");
    put("in/.perigee-part", "ours");
    const latin = Buffer.concat([Buffer.from(`${root}/in/caf`), Buffer.from([0xe9]), Buffer.from(".txt")]);
    writeFileSync(latin, "d");
    mkdirSync(Buffer.concat([Buffer.from(`${root}/in/dir`), Buffer.from([0xff])]));
    symlinkSync("a.txt", join(root, "in/link.txt"));
    symlinkSync("..", join(root, "in/folder"));
    const output = await run({ prefix: "in/" });
    expect(output.files.map(({ name }) => name)).toEqual(["a.txt"]);
    expect(output).toMatchObject({ count: 1, skipped: 0, left_out_count: 6 });
    expect(output.left_out).toEqual([
      { path: "in/b\nc.txt", reason: "name" },
      { path: "in/back\\slash.txt", reason: "name" },
      { path: "in/caf\ufffd.txt", reason: "name" },
      { path: "in/dir\ufffd", reason: "name" },
      { path: "in/folder", reason: "link" },
      { path: "in/link.txt", reason: "link" },
    ]);
  });

  it("is what would have been chosen, or may hold it", async () => {
    put("in/a.txt", "a");
    put("in/b\n.pdf", "b");
    put("in/c\n.txt", "larger");
    put("in/large.txt", "larger");
    symlinkSync("..", join(root, "in/folder"));
    symlinkSync("..", join(root, "in/other"));
    const input = { glob: "**/*.txt", exclude: "in/other", max_file_bytes: 3, on_too_large: "skip" };
    expect(await run(input)).toMatchObject({
      ...{ count: 1, skipped: 1, left_out_count: 3 },
      left_out: [
        { path: "in/c\n.txt", reason: "name" },
        { path: "in/folder", reason: "link" },
        { path: "in/large.txt", reason: "too_large" },
      ],
    });
  });

  it("is named up to 32 KiB and counted beyond, also where the list is a file", async () => {
    const target = join(root, "in/target.txt");
    put("in/target.txt", "");
    for (let index = 0; index < 400; index += 1)
      symlinkSync(target, join(root, `in/${String(index).padStart(4, "0")}${"l".repeat(150)}`));
    putMany(3_400, (index) => `in/files/${"f".repeat(200)}${index}`);
    const output = await run({ fetch: false });
    expect(output.list).not.toBeNull();
    expect(output).toMatchObject({ count: 3_401, left_out_count: 400 });
    expect(output.left_out.length).toBeGreaterThan(100);
    expect(Buffer.byteLength(JSON.stringify(output.left_out))).toBeLessThanOrEqual(32 * 1_024);
  });
});

describe("get-files", () => {
  it("lets the process do other things while it compares long names with patterns that nearly match", async () => {
    for (let index = 0; index < 6; index += 1) put(`${"a".repeat(240)}${index}`, "");
    const letters = Array.from({ length: 64 }, (_, index) => index.toString(36)).join(",");
    const pattern = `*${"a".repeat(120)}{${letters}}b`;
    let isOver = false;
    let longestMs = 0;
    const others = (async (): Promise<void> => {
      for (let last = process.cpuUsage(); !isOver; last = process.cpuUsage()) {
        await setImmediate();
        longestMs = Math.max(longestMs, userMsSince(last));
      }
    })();
    const output = await run({ glob: Array.from({ length: 32 }, () => pattern) });
    isOver = true;
    await others;
    expect(output.count).toBe(0);
    expect(longestMs).toBeGreaterThan(0);
    expect(longestMs).toBeLessThan(250);
  });

  it("fetches what matches, and refers to it with name, size, type and hash", async () => {
    put("reports/a.pdf", "%PDF-a");
    put("reports/deep/b.docx", "PK");
    put("reports/deep/draft.pdf", "no");
    put("other/c.pdf", "c");
    const output = await run({ prefix: "reports/", glob: "**/*.{pdf,docx}", exclude: ["**/draft*"] });
    expect(output).toMatchObject({ count: 2, bytes: 8, skipped: 0, is_complete: true, list: null });
    expect(output.files).toEqual([
      {
        file_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        name: "a.pdf",
        bytes: 6,
        mime_type: "application/pdf",
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        source: { store: "fs:inbox", path: "reports/a.pdf", modified_at: expect.stringMatching(/^\d{4}-/) },
      },
      expect.objectContaining({ name: "b.docx" }),
    ]);
    const id = String(output.files[0]?.["file_id"]);
    expect(await files.file("one", id)).toMatchObject({ purpose: "user_data", mimeType: "application/pdf" });
    expect(await textOf(files.read("one", id))).toBe("%PDF-a");
  });

  it("lists without fetching when the input says so", async () => {
    put("a.txt", "text");
    const output = await run({ fetch: false });
    expect(output.files).toEqual([
      { path: "a.txt", bytes: 4, source: expect.objectContaining({ store: "fs:inbox", path: "a.txt" }) },
    ]);
    expect((await files.list("one", { limit: 9 })).items).toEqual([]);
  });

  it("fetches nothing twice in a repeat, and what has changed once more", async () => {
    put("a.txt", "one");
    put("b.txt", "two");
    const notes = new MemoryNotes();
    const first = await run({}, { notes });
    expect(await run({}, { notes })).toEqual(first);
    expect((await files.list("one", { limit: 9 })).items).toHaveLength(2);
    put("b.txt", "other");
    const third = await run({}, { notes });
    expect(third.files[0]).toEqual(first.files[0]);
    expect(third.files[1]?.["sha256"]).not.toBe(first.files[1]?.["sha256"]);
    expect((await files.list("one", { limit: 9 })).items).toHaveLength(3);
    await run({}, { executionId: "another" });
    expect((await files.list("one", { limit: 9 })).items).toHaveLength(5);
  });

  it.each([
    [{ max_files: 2 }, "too_many_files"],
    [{ max_total_bytes: 11 }, "total_too_large"],
    [{ max_file_bytes: 3 }, "file_too_large"],
  ])("fails with %j rather than leave something out in silence", async (bounds, code) => {
    for (const name of ["a", "b", "c"]) put(name, "four");
    expect(await failedAttempt(satellite(), given(bounds))).toMatchObject({ failure: "permanent", code });
  });

  it("leaves out large files when the input says so, and counts them", async () => {
    put("small", "1");
    put("large", "12345");
    const output = await run({ max_file_bytes: 4, on_too_large: "skip" });
    expect(output).toMatchObject({
      count: 1,
      skipped: 1,
      files: [expect.objectContaining({ name: "small" })],
    });
  });

  it("has only ids and names where there is no room for more, and a list with everything, the same in a repeat", async () => {
    putMany(4_000, (index) => `many/${String(index).padStart(5, "0")}.txt`);
    const notes = new MemoryNotes();
    const output = await run({}, { notes });
    expect(output).toMatchObject({ count: 4_000, is_complete: true });
    expect(Buffer.byteLength(JSON.stringify(output))).toBeLessThan(900_000);
    const lines = (await textOf(files.read("one", output.list?.file_id ?? ""))).trim().split("\n");
    const all = lines.map((line) => JSON.parse(line) as JsonObject);
    expect(output.files).toEqual(all.map(({ file_id, name }) => ({ file_id, name })));
    expect(all[0]).toMatchObject({ sha256: expect.any(String), source: { path: "many/00000.txt" } });
    put("many/99999.txt", "later");
    expect(await run({}, { notes })).toEqual(output);
  });

  it("returns no part of a list that could be taken for all of it", async () => {
    const long = "x".repeat(220);
    putMany(4_500, (index) => `${long}/${index}.txt`);
    const output = await run({ fetch: false });
    expect(output).toMatchObject({ files: null, count: 4_500, is_complete: false });
    const list = await textOf(files.read("one", output.list?.file_id ?? ""));
    expect(list.split("\n")).toHaveLength(4_501);
  });

  it("keeps names that files may not have as near as it can", async () => {
    put("a\u202eb.txt", "x");
    expect((await run({})).files[0]).toMatchObject({ name: "a_b.txt" });
  });

  it("refuses invalid patterns and settings, at submission", async () => {
    for (const input of [{ glob: "{a" }, { glob: [] }, { prefix: 1 }, { unknown: 1 }, { max_files: 0 }])
      await expect(run(input), JSON.stringify(input)).rejects.toThrow("input.");
    for (const config of [{}, { store: { type: "ftp" } }, { store: { type: "s3", bucket: "a/../b" } }])
      await expect(run({}, { config })).rejects.toThrow("config.");
    const half = { store: { type: "s3", bucket: "one", access_key_id: "x" } };
    await expect(run({}, { config: half })).rejects.toThrow("secret_access_key");
  });

  it("stops when it is aborted, and leaves no half file", async () => {
    put("a", "x".repeat(1_000_000));
    const stop = new AbortController();
    stop.abort(new Error("cancelled"));
    await expect(run({}, { signal: stop.signal })).rejects.toThrow("cancelled");
    expect((await files.list("one", { limit: 9 })).items).toEqual([]);
  });
});

describe("get-files and move-file on S3", () => {
  let s3: S3Server;
  beforeAll(async () => {
    s3 = await startS3();
  });
  afterAll(() => s3.close());

  it("deliver a file of the project to a bucket, and fetch it from there", async () => {
    const text = '{"key":"a","output":null}\n';
    const made = await files.put("one", {
      name: "out.jsonl",
      purpose: "batch_output",
      chunks: chunked(text),
    });
    const moved = await attempt(moveFile(), {
      input: { file: { file_id: made.id }, destination: "results/" },
      config: { store: s3.store("one") },
      fileStore: files,
    });
    expect(moved).toEqual({
      outcome: "copied",
      store: "s3:one",
      path: "results/out.jsonl",
      bytes: text.length,
      sha256: made.sha256,
    });
    const across = await attempt(moveFile(), {
      input: { source: "results/out.jsonl", destination: "archive/a.jsonl" },
      config: { from: s3.store("one"), store: s3.store("two") },
      executionId: "across",
      fileStore: files,
    });
    expect(across).toMatchObject({ outcome: "moved", store: "s3:two", sha256: made.sha256 });
    const output = (await attempt(
      getFiles(),
      given({ glob: "**/*.jsonl" }, { config: { store: s3.store("two") } }),
    )) as unknown as Output;
    expect(output).toMatchObject({ count: 1, files: [expect.objectContaining({ sha256: made.sha256 })] });
    const left = await attempt(
      getFiles(),
      given({}, { config: { store: s3.store("one") }, executionId: "left" }),
    );
    expect(left).toMatchObject({ count: 0, files: [] });
  });
});
