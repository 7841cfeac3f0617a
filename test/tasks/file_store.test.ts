import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { FileView } from "../../src/tasks/files/files.ts";
import { sweepLeftovers } from "../../src/tasks/leftovers.ts";
import { chunked, FileWorld, itemLines, textOf } from "./files.ts";

const batch = (text: string | Uint8Array, name = "in.jsonl") => ({
  name,
  purpose: "batch" as const,
  chunks: chunked(text),
});

describe("files", () => {
  it("keeps the bytes as they came, and tells what they are", async () => {
    const world = new FileWorld();
    const files = await world.files();
    const text = '{"key":"a"}\n\nnot even JSON\n{"key":"b"}';
    const view = await files.put("p", batch(text));
    expect(view).toMatchObject({
      project: "p",
      name: "in.jsonl",
      bytes: text.length,
      mimeType: "application/jsonl",
      purpose: "batch",
      createdWallMs: 1_000,
      items: 3,
      sha256: createHash("sha256").update(text).digest("hex"),
    });
    expect(view.id).toMatch(/^[0-9a-f-]{36}$/);
    expect(await files.file("p", view.id)).toEqual(view);
    expect(await textOf(files.read("p", view.id))).toBe(text);
    expect(await textOf(files.read("p", view.id, { start: 2, end: 5 }))).toBe("key");
    expect(world.disk.paths).toEqual([`/data/files/${view.id}`]);
    expect(world.disk.openFiles).toBe(0);
  });

  it("is empty without lines", async () => {
    const files = await new FileWorld().files();
    const view = await files.put("p", batch(""));
    expect(view).toMatchObject({ bytes: 0, items: 0 });
    expect(await textOf(files.read("p", view.id))).toBe("");
    expect(await files.index("p", view.id)).toMatchObject({
      items: 0,
      bytes: 0,
      lineCount: 0,
      lines: [],
      offsets: [],
    });
  });

  it("tells where every 1,000th item begins, also after a restart", async () => {
    const world = new FileWorld();
    const text = itemLines(2_001);
    const { id } = await (await world.files()).put("p", batch(text));
    world.disk.crash({ powerCut: true });
    world.store.crash();
    const files = await world.files();
    const index = await files.index("p", id);
    expect(index).toMatchObject({
      path: `/data/files/${id}`,
      items: 2_001,
      bytes: text.length,
      lineCount: 2_001,
      lines: [1, 1_001, 2_001],
    });
    expect(index.offsets.map((offset) => text.slice(offset).split('"', 4)[3])).toEqual([
      "k0",
      "k1000",
      "k2000",
    ]);
    expect(await textOf(files.read("p", id))).toBe(text);
  });

  it("refuses two lines of one key and names both", async () => {
    const world = new FileWorld();
    const files = await world.files();
    const upload = files.put("p", batch('{"key":"a"}\n{"key":"b"}\n\n{"custom_id":"\\u0061"}\n'));
    await expect(upload).rejects.toMatchObject({ code: "duplicate_key", details: { lines: [1, 4] } });
    expect(world.disk.paths).toEqual([]);
    expect((await files.list("p", { limit: 10 })).items).toEqual([]);
  });

  it.each([
    ["UTF-16", Buffer.from('\ufeff{"key":"a"}\n', "utf16le")],
    ["gzip", Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3])],
    ["zip", Buffer.from([0x50, 0x4b, 3, 4, 20, 0, 0, 0])],
  ])("refuses %s", async (_what, bytes) => {
    const world = new FileWorld();
    const files = await world.files();
    await expect(files.put("p", batch(bytes))).rejects.toMatchObject({ code: "unsupported_encoding" });
    expect(world.disk.paths).toEqual([]);
  });

  it("refuses more bytes and more lines than are taken, before all of them have come", async () => {
    const world = new FileWorld();
    const files = await world.files({ bounds: { bytesMax: 1_000, linesMax: 10 } });
    let given = 0;
    const endless = async function* () {
      for (;;) {
        given += 1;
        yield Buffer.from('{"key":"');
      }
    };
    const large = files.put("p", { name: "x", purpose: "batch", chunks: endless() });
    await expect(large).rejects.toMatchObject({ code: "too_large", details: { max: 1_000 } });
    expect(given).toBeLessThan(200);
    await expect(files.put("p", batch("\n".repeat(11)))).rejects.toMatchObject({ code: "too_large" });
    await expect(files.put("p", batch(itemLines(10)))).resolves.toMatchObject({ items: 10 });
    expect(world.disk.paths).toHaveLength(1);
  });

  it("holds a project to its bytes in all, also after a restart, and others to theirs", async () => {
    const world = new FileWorld();
    const options = { bounds: { storedBytesMax: 3 * itemLines(4).length } };
    let files = await world.files(options);
    const first = await files.put("p", batch(itemLines(4)));
    await files.put("p", batch(itemLines(4)));
    await expect(files.put("p", batch(itemLines(5)))).rejects.toMatchObject({ code: "too_large" });
    await expect(files.put("p", batch('{"key":"a"}\n{"key":"a"}'))).rejects.toThrow("the same key");
    world.store.crash();
    files = await world.files(options);
    await expect(files.put("p", batch(itemLines(5)))).rejects.toMatchObject({ code: "too_large" });
    await files.put("q", batch(itemLines(5)));
    await files.put("p", { ...batch(itemLines(5)), purpose: "batch_output" });
    await expect(files.put("p", batch("{}"))).rejects.toMatchObject({ code: "too_large" });
    await files.remove("p", first.id);
    await files.put("p", batch("{}"));
  });

  it("leaves nothing behind of an upload that breaks off", async () => {
    const world = new FileWorld();
    const files = await world.files();
    const broken = async function* () {
      yield Buffer.from('{"key":"a"}\n');
      throw new Error("the client is gone");
    };
    await expect(files.put("p", { name: "x", purpose: "batch", chunks: broken() })).rejects.toThrow(
      "is gone",
    );
    expect(world.disk.paths).toEqual([]);
    expect(world.disk.openFiles).toBe(0);
  });

  it("leaves nothing behind on a full disk and on one that fails", async () => {
    const world = new FileWorld();
    const files = await world.files();
    world.disk.setFull(20);
    await expect(files.put("p", batch(itemLines(10)))).rejects.toMatchObject({ code: "disk_full" });
    world.disk.setFull(Number.POSITIVE_INFINITY);
    world.disk.failNext("write", "EIO");
    await expect(files.put("p", batch(itemLines(10)))).rejects.toMatchObject({ code: "store_failed" });
    expect(world.disk.paths).toEqual([]);
  });

  it("has all of a file or nothing, whenever the machine dies", async () => {
    for (let operation = 1; operation < 12; operation += 1) {
      const world = new FileWorld();
      const files = await world.files();
      world.disk.crashAtOperation(operation, { powerCut: true, random: () => 0.4 });
      const text = itemLines(2);
      const acknowledged = await files
        .put("p", { ...batch(text), chunks: chunked(text, 40) })
        .catch(() => undefined);
      world.disk.crash({ powerCut: true, random: () => 0.4 });
      world.store.crash();
      const again = await world.files();
      const { items } = await again.list("p", { limit: 10 });
      expect(items).toEqual(acknowledged === undefined ? [] : [acknowledged]);
      expect(world.disk.paths).toHaveLength(items.length);
      if (acknowledged !== undefined) expect(await textOf(again.read("p", acknowledged.id))).toBe(text);
    }
  });

  it("keeps bytes without a record for days, then names what it removes", async () => {
    const world = new FileWorld();
    const kept = await (await world.files()).put("p", batch(itemLines(1)));
    world.store.crash();
    world.disk.put("/data/files/11111111-2222-4333-8444-555555555555", "torn");
    world.disk.put("/data/files/what.tmp", "torn");
    const store = await world.store.open();
    await world.files({ store });
    expect(world.disk.paths).toHaveLength(3);
    const notices: string[] = [];
    const swept = { disk: world.disk, store, dataDir: "/data", notice: (text: string) => notices.push(text) };
    await sweepLeftovers(swept, Number.NEGATIVE_INFINITY);
    expect(world.disk.paths).toHaveLength(3);
    await sweepLeftovers(swept, Number.POSITIVE_INFINITY);
    expect(world.disk.paths).toEqual([`/data/files/${kept.id}`]);
    expect(notices.sort()).toEqual([
      "files/11111111-2222-4333-8444-555555555555 was removed: no record knows it, and it was written more than 7 days ago",
      "files/what.tmp was removed: no record knows it, and it was written more than 7 days ago",
    ]);
  });

  it("has the copy of before a migration removed after a time, and no other database", async () => {
    const world = new FileWorld();
    const names = ["journal.sqlite", "journal.sqlite.schema-2", "keys.sqlite"];
    for (const name of names) await (await world.disk.open(`/data/${name}`, "write")).close();
    const store = await world.store.open();
    const notices: string[] = [];
    const swept = { disk: world.disk, store, dataDir: "/data", notice: (text: string) => notices.push(text) };
    await sweepLeftovers(swept, Number.NEGATIVE_INFINITY);
    expect([world.disk.paths.length, notices]).toEqual([3, []]);
    await sweepLeftovers(swept, Number.POSITIVE_INFINITY);
    expect(world.disk.paths.toSorted()).toEqual(["/data/journal.sqlite", "/data/keys.sqlite"]);
    expect(notices).toHaveLength(1);
  });

  it("erases bytes and record, and never those that a task works on", async () => {
    const world = new FileWorld();
    const files = await world.files();
    const { id } = await files.put("p", batch(itemLines(1)));
    const release = files.hold(id);
    const releaseOther = files.hold(id);
    await expect(files.remove("p", id)).rejects.toMatchObject({ code: "conflict" });
    release();
    release();
    await expect(files.remove("p", id)).rejects.toMatchObject({ code: "conflict" });
    releaseOther();
    await files.remove("p", id);
    expect(world.disk.paths).toEqual([]);
    for (const ask of [
      files.file("p", id),
      files.index("p", id),
      files.remove("p", id),
      textOf(files.read("p", id)),
    ])
      await expect(ask).rejects.toMatchObject({ code: "not_found" });
  });

  // Faults 86 and 87.
  it("shows projects their own files alone", async () => {
    const files = await new FileWorld().files();
    const { id } = await files.put("p", batch(itemLines(1)));
    const unknown = "11111111-2222-4333-8444-555555555555";
    const messages = new Set<string>();
    for (const asked of [id, unknown, "file-abc123", "../x"]) {
      const asks = [
        files.file("other", asked),
        files.index("other", asked),
        files.remove("other", asked),
        textOf(files.read("other", asked)),
        files.list("other", { limit: 1, after: asked }),
      ];
      for (const ask of asks) {
        await expect(ask).rejects.toMatchObject({ code: "not_found" });
        await ask.catch((error: Error) => messages.add(error.message));
      }
    }
    expect(messages.size).toBe(1);
    expect((await files.list("other", { limit: 1 })).items).toEqual([]);
  });

  it("lists a page behind a file that is removed meanwhile whole, or refuses it", async () => {
    const ends = new Set<string>();
    for (let turns = 0; turns < 12; turns += 1) {
      const files = await new FileWorld().files();
      const views: FileView[] = [];
      for (const name of ["a", "b", "c"]) views.push(await files.put("p", batch(itemLines(1), name)));
      const [a, b, c] = views as [FileView, FileView, FileView];
      const removing = files.remove("p", c.id);
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      const page = await files
        .list("p", { limit: 9, after: c.id })
        .catch(({ code }: { code: string }) => code);
      await removing;
      if (page !== "not_found") expect(page).toEqual({ items: [b, a], hasMore: false });
      ends.add(typeof page === "string" ? page : "whole");
    }
    expect(ends).toEqual(new Set(["whole", "not_found"]));
  });

  it("lists the newest first, in pages, by purpose", async () => {
    const files = await new FileWorld().files();
    const views: FileView[] = [];
    for (const name of ["a", "b", "c"]) views.push(await files.put("p", batch(itemLines(1), name)));
    views.push(await files.put("p", { ...batch("x\nx\n", "out"), purpose: "batch_output" }));
    const [a, b, c, out] = views as [FileView, FileView, FileView, FileView];
    expect(await files.list("p", { limit: 2 })).toEqual({ items: [out, c], hasMore: true });
    expect(await files.list("p", { limit: 2, after: c.id })).toEqual({ items: [b, a], hasMore: false });
    expect(await files.list("p", { limit: 2, purpose: "batch" })).toEqual({ items: [c, b], hasMore: true });
    expect(await files.list("p", { limit: 9, purpose: "batch_output" })).toEqual({
      items: [out],
      hasMore: false,
    });
  });

  it("keeps any bytes as user_data, with their type, and looks at no line of them", async () => {
    const world = new FileWorld();
    const files = await world.files({ bounds: { linesMax: 2 } });
    const bytes = Buffer.concat([Buffer.from([0x1f, 0x8b, 0, 0xff]), Buffer.from('{"key":1}\n'.repeat(9))]);
    const given = { name: "scan.pdf", purpose: "user_data" as const, mimeType: "application/pdf" };
    const view = await files.put("p", { ...given, chunks: chunked(bytes) });
    expect(view).toMatchObject({ ...given, bytes: bytes.length, items: 0 });
    const plain = await files.put("p", { name: "x", purpose: "user_data", chunks: chunked("") });
    expect(plain).toMatchObject({ mimeType: "application/octet-stream", bytes: 0 });
    world.store.crash();
    const again = await world.files();
    expect(await again.file("p", view.id)).toEqual(view);
    expect((await again.list("p", { limit: 9, purpose: "user_data" })).items).toEqual([plain, view]);
    await expect(again.index("p", view.id)).rejects.toMatchObject({
      code: "usage",
      details: { param: "file_id" },
    });
    await again.remove("p", view.id);
    await again.remove("p", plain.id);
    expect(world.disk.paths).toEqual([]);
  });

  it("holds user_data to the bounds of bytes, and to types that a header can carry", async () => {
    const files = await new FileWorld().files({ bounds: { bytesMax: 10, storedBytesMax: 15 } });
    const put = (text: string, mimeType = "text/plain; charset=utf-8") =>
      files.put("p", { name: "x", purpose: "user_data", mimeType, chunks: chunked(text) });
    await expect(put("x".repeat(11))).rejects.toMatchObject({ code: "too_large", details: { max: 10 } });
    await put("x".repeat(10));
    await expect(put("x".repeat(6))).rejects.toMatchObject({ code: "too_large", details: { max: 15 } });
    for (const type of ["text", "text/", "text/a\r\nx: y", "text/plain; \u0000", "a b/c", ""])
      await expect(put("x", type), type).rejects.toMatchObject({ code: "invalid_request" });
  });

  it("checks what turns out to be requests when all bytes have come", async () => {
    const world = new FileWorld();
    const files = await world.files({ bounds: { linesMax: 3 } });
    const put = (text: string | Uint8Array, purpose: "batch" | "user_data") =>
      files.put("p", { name: "x", purpose: () => purpose, chunks: chunked(text) });
    const gzip = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
    const twice = '{"key":"a"}\n{"key":"a"}\n';
    await expect(put(gzip, "batch")).rejects.toMatchObject({ code: "unsupported_encoding" });
    await expect(put(twice, "batch")).rejects.toMatchObject({ code: "duplicate_key" });
    await expect(put("\n".repeat(4), "batch")).rejects.toMatchObject({ code: "too_large" });
    expect(world.disk.paths).toEqual([]);
    expect(await put(itemLines(2), "batch")).toMatchObject({ purpose: "batch", items: 2 });
    for (const any of [gzip, twice, "\n".repeat(4)])
      expect(await put(any, "user_data")).toMatchObject({ purpose: "user_data", items: 0 });
  });

  it("answers a repeat of the same bytes under an id with the file that is there", async () => {
    const world = new FileWorld();
    const files = await world.files();
    const id = "11111111-2222-4333-8444-555555555555";
    const put = (text: string, project = "p") =>
      files.put(project, { id, name: "x", purpose: "user_data", chunks: chunked(text) });
    const first = await put("the same bytes");
    expect(await put("the same bytes")).toEqual(first);
    for (const other of [put("the same bytez"), put("the same bytes, and more"), put("the same bytes", "q")])
      await expect(other).rejects.toMatchObject({ code: "conflict" });
    expect((await files.list("p", { limit: 9 })).items).toEqual([first]);
    expect(world.disk.paths).toHaveLength(1);
  });

  it("takes an id once", async () => {
    const files = await new FileWorld().files();
    const id = "11111111-2222-4333-8444-555555555555";
    const both = [files.put("p", { ...batch("a\n"), id }), files.put("q", { ...batch("b\n"), id })];
    await expect(Promise.all(both)).rejects.toMatchObject({ code: "conflict" });
    await Promise.allSettled(both);
    await expect(files.put("p", { ...batch("c\n"), id })).rejects.toMatchObject({ code: "conflict" });
    expect(await textOf(files.read("p", id))).toBe("a\n");
  });

  it("keeps a name and no path", async () => {
    const world = new FileWorld();
    const files = await world.files();
    expect(await files.put("p", batch("", "e\u0301 %2e%2e%2f.jsonl"))).toMatchObject({
      name: "\u00e9 %2e%2e%2f.jsonl",
    });
    await expect(files.put("p", batch("", "../../x"))).rejects.toMatchObject({ code: "invalid_request" });
    expect(world.disk.paths).toHaveLength(1);
  });
});
