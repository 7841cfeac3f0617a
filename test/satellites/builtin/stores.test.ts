/** What every store promises, on a folder, on s3rver and on a WebDAV server through opendal. */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { AllowList } from "../../../src/egress/address.ts";
import { createEgress, type Egress } from "../../../src/egress/egress.ts";
import type { ExternalStore } from "../../../src/satellites/builtin/files/external_store.ts";
import { openStore } from "../../../src/satellites/builtin/files/open_store.ts";
import { storeConfig } from "../../../src/satellites/builtin/files/store_config.ts";
import type { OpendalPlace } from "../../../src/satellites/builtin/files/store_opendal.ts";
import { chunked } from "../../tasks/files.ts";
import { type S3Server, startS3 } from "./s3_server.ts";
import { startWebdav, type WebdavServer } from "./webdav_server.ts";

const { signal } = new AbortController();
const allow = new AllowList(["127.0.0.0/8"]);
const egress = createEgress({ clock: systemClock, allow });

let s3: S3Server;
let webdav: WebdavServer;
let folder: string;
let places: Record<string, OpendalPlace>;

beforeAll(async () => {
  s3 = await startS3();
  webdav = await startWebdav("me", "word");
  folder = mkdtempSync(join(tmpdir(), "perigee-root-"));
  places = { dav: { service: "webdav", options: { endpoint: webdav.endpoint } } };
});

afterAll(async () => {
  await s3.close();
  await webdav.close();
  rmSync(folder, { recursive: true, force: true });
});

function open(config: unknown, guard: Egress = egress): Promise<ExternalStore> {
  return openStore(
    storeConfig.parse(config),
    { roots: { inbox: folder }, opendal: places },
    { egress: guard, clock: systemClock },
  );
}

const KINDS: readonly (readonly [string, () => unknown])[] = [
  ["a folder", () => ({ type: "fs", root: "inbox" })],
  ["S3", () => s3.store("one")],
  ["WebDAV", () => ({ type: "opendal", place: "dav", options: { username: "me", password: "word" } })],
];

function given(path: string, text: string | Uint8Array, isReplacing = false) {
  const bytes = Buffer.from(text);
  const chunks = chunked(bytes, 1_000_000);
  return { path, chunks, bytes: bytes.length, mimeType: "text/plain", isReplacing, attemptId: "a" };
}

async function readAll(store: ExternalStore, path: string): Promise<string> {
  const file = await store.stat(path, signal);
  if (file === undefined) return "";
  const chunks: Uint8Array[] = [];
  for await (const chunk of store.read(file, signal)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function pathsOf(store: ExternalStore, prefix: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const page of store.list(prefix, signal)) paths.push(...page.files.map(({ path }) => path));
  return paths;
}

describe.each(KINDS)("%s", (_name, config) => {
  it("returns what was written, with its hash", async () => {
    const store = await open(config());
    const text = "größe\n".repeat(50_000);
    const { file, sha256 } = await store.write(given("docs/a b+ü.txt", text), signal);
    expect(sha256).toBe(createHash("sha256").update(text).digest("hex"));
    expect(file).toMatchObject({ path: "docs/a b+ü.txt", bytes: Buffer.byteLength(text) });
    expect(await store.stat("docs/a b+ü.txt", signal)).toEqual(file);
    expect(await readAll(store, "docs/a b+ü.txt")).toBe(text);
    await store.write(given("docs/empty", ""), signal);
    expect(await store.stat("docs/empty", signal)).toMatchObject({ bytes: 0 });
    store.close();
  });

  it("lists by the beginning of paths, and folders are not files", async () => {
    const store = await open(config());
    for (const path of ["list/a.txt", "list/sub/b.txt", "list/sub/deep/c.txt", "listen.txt"])
      await store.write(given(path, path), signal);
    expect((await pathsOf(store, "list/")).sort()).toEqual([
      "list/a.txt",
      "list/sub/b.txt",
      "list/sub/deep/c.txt",
    ]);
    expect((await pathsOf(store, "list/s")).sort()).toEqual(["list/sub/b.txt", "list/sub/deep/c.txt"]);
    expect((await pathsOf(store, "list")).sort()).toContain("listen.txt");
    expect(await pathsOf(store, "nothing/")).toEqual([]);
    expect(await store.stat("list", signal)).toBeUndefined();
    expect(await store.stat("nothing/at/all", signal)).toBeUndefined();
    store.close();
  });

  it("replaces a file only when the call says so, and then its version differs", async () => {
    const store = await open(config());
    const { file } = await store.write(given("v.txt", "one"), signal);
    await expect(store.write(given("v.txt", "two"), signal)).rejects.toMatchObject({
      failure: "permanent",
      code: "destination_exists",
    });
    expect(await readAll(store, "v.txt")).toBe("one");
    const second = await store.write(given("v.txt", "other", true), signal);
    expect(second.file.version).not.toBe(file.version);
    expect(await readAll(store, "v.txt")).toBe("other");
    const old = async () => {
      for await (const _ of store.read(file, signal));
    };
    await expect(old()).rejects.toMatchObject({ failure: "ambiguous", code: "source_changed" });
    store.close();
  });

  it("keeps the earlier file when a write fails", async () => {
    const store = await open(config());
    await store.write(given("kept.txt", "before"), signal);
    const broken = async function* () {
      yield Buffer.from("af");
      throw new Error("the source is gone");
    };
    const write = store.write({ ...given("kept.txt", "after", true), chunks: broken() }, signal);
    await expect(write).rejects.toThrow("the source is gone");
    const short = store.write({ ...given("kept.txt", "after", true), bytes: 9 }, signal);
    await expect(short).rejects.toMatchObject({ code: "source_changed" });
    expect(await readAll(store, "kept.txt")).toBe("before");
    store.close();
  });

  it("removes, once and again", async () => {
    const store = await open(config());
    await store.write(given("gone/x.txt", "x"), signal);
    await store.remove("gone/x.txt", signal);
    await store.remove("gone/x.txt", signal);
    expect(await store.stat("gone/x.txt", signal)).toBeUndefined();
    store.close();
  });

  it.each(["../x", "a/../../x", "a/./b", "a\\b", "a\0b", "a\nb", "", "a/", "x".repeat(1_025)])(
    "fault 100: refuses the path %j",
    async (path) => {
      const store = await open(config());
      const asks = [
        store.stat(path, signal),
        store.write(given(path, "x"), signal),
        store.remove(path, signal),
      ];
      for (const { reason } of (await Promise.allSettled(asks)) as PromiseRejectedResult[])
        expect(reason).toMatchObject({ failure: "permanent", code: "invalid_path" });
      store.close();
    },
  );
});

describe("a folder as a store", () => {
  it("fault 100: follows no symbolic link, neither as a file nor on the way", async () => {
    const outside = mkdtempSync(join(tmpdir(), "perigee-outside-"));
    writeFileSync(join(outside, "secret"), "secret");
    mkdirSync(join(folder, "real"));
    writeFileSync(join(folder, "real", "x"), "x");
    symlinkSync(join(outside, "secret"), join(folder, "link"));
    symlinkSync(outside, join(folder, "away"));
    symlinkSync("real", join(folder, "alias"));
    const store = await open({ type: "fs", root: "inbox" });
    for (const path of ["link", "away/secret", "away/new", "alias/x", "/etc/passwd"]) {
      const file = { path, bytes: 6, version: "" };
      const asks = [
        store.stat(path, signal),
        store.write(given(path, "x", true), signal),
        store.remove(path, signal),
        (async () => {
          for await (const _ of store.read(file, signal));
        })(),
      ];
      for (const { reason } of (await Promise.allSettled(asks)) as PromiseRejectedResult[])
        expect(reason, path).toMatchObject({ failure: "permanent" });
    }
    expect(await pathsOf(store, "")).not.toContain("link");
    expect(await pathsOf(store, "a")).toEqual([]);
    expect(readdirSync(outside)).toEqual(["secret"]);
    rmSync(outside, { recursive: true });
  });

  it("is one that the operator named, and says nothing of where it is", async () => {
    for (const root of ["other", "__proto__", "constructor", "toString"]) {
      const refused = open({ type: "fs", root });
      await expect(refused).rejects.toMatchObject({
        ...{ failure: "permanent", code: "unknown_store" },
        message: expect.stringContaining("names them in satellites.roots"),
      });
    }
    const store = await open({ type: "fs", root: "inbox" });
    await store.stat("away/x", signal).catch((error: Error) => expect(error.message).not.toContain(folder));
    expect(store.name).toBe("fs:inbox");
  });
});

describe("S3 as a store", () => {
  it("lists page by page", async () => {
    const store = await open(s3.store("two"));
    await store.write(given("p/0", "x"), signal);
    s3.repeat("two", "p/", 1_005);
    const sizes: number[] = [];
    for await (const page of store.list("p/", signal)) sizes.push(page.files.length);
    expect(sizes).toEqual([1_000, 5]);
    store.close();
  });

  it("writes large files in parts, and they come back whole", async () => {
    const store = await open(s3.store("one"));
    const bytes = Buffer.alloc(36 * 1024 * 1024 + 7, "0123456789");
    const { file, sha256 } = await store.write(given("large.bin", bytes), signal);
    expect(file.bytes).toBe(bytes.length);
    expect(sha256).toBe(createHash("sha256").update(bytes).digest("hex"));
    store.close();
  });

  it("says in its codes what is wrong, and never the keys", async () => {
    const cases: readonly (readonly [Record<string, unknown>, string])[] = [
      [{ bucket: "three" }, "not_found"],
      [{ access_key_id: "NOBODY", secret_access_key: "wrong-and-secret" }, "access_denied"],
    ];
    for (const [change, code] of cases) {
      const store = await open({ ...s3.store("one"), ...change });
      const error = await pathsOf(store, "").catch((caught: Error) => caught);
      expect(error).toMatchObject({ failure: "permanent", code });
      expect(String(error)).not.toContain("secret");
      store.close();
    }
  });

  it("calls no address that the guard has not checked", async () => {
    const closed = createEgress({ clock: systemClock });
    await expect(open(s3.store("one"), closed)).rejects.toMatchObject({ code: "blocked_destination" });
    const names = createEgress({ clock: systemClock, resolve: async () => ["127.0.0.1"] });
    const rebound = await open({ ...s3.store("one"), endpoint: "http://store.perigee-test.com" }, names);
    await expect(pathsOf(rebound, "")).rejects.toMatchObject({
      failure: "permanent",
      code: "blocked_destination",
    });
    rebound.close();
  });

  it("sends nothing of the machine's own keys, and signs nothing without keys", async () => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(200, { "content-type": "application/xml" });
      response.end("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    process.env["AWS_ACCESS_KEY_ID"] = "MACHINE";
    process.env["AWS_SECRET_ACCESS_KEY"] = "MACHINE";
    try {
      const store = await open({ type: "s3", bucket: "public", endpoint, path_style: true });
      expect(await pathsOf(store, "")).toEqual([]);
      store.close();
    } finally {
      delete process.env["AWS_ACCESS_KEY_ID"];
      delete process.env["AWS_SECRET_ACCESS_KEY"];
      server.close();
    }
    expect(seen).toEqual([undefined]);
  });
});

describe("names that a task cannot carry", () => {
  /** Paths, and what was left out, of all pages. */
  async function listed(
    store: ExternalStore,
  ): Promise<{ readonly paths: string[]; readonly leftOut: unknown[] }> {
    const paths: string[] = [];
    const leftOut: unknown[] = [];
    for await (const page of store.list("odd/", signal)) {
      paths.push(...page.files.map(({ path }) => path));
      leftOut.push(...page.leftOut);
    }
    return { paths, leftOut };
  }

  it("are named by S3 beside the files, not passed over", async () => {
    const server = createServer((_, response) => {
      const keys = ["odd/fine", "odd/line&#10;end", "odd/../up", "odd/folder/"];
      const contents = keys.map(
        (key) => `<Contents><Key>${key}</Key><Size>1</Size><ETag>"e"</ETag></Contents>`,
      );
      response.writeHead(200, { "content-type": "application/xml" });
      response.end(
        `<ListBucketResult><IsTruncated>false</IsTruncated>${contents.join("")}</ListBucketResult>`,
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const store = await open({ type: "s3", bucket: "public", endpoint, path_style: true });
    expect(await listed(store)).toEqual({
      paths: ["odd/fine"],
      leftOut: ["odd/line\nend", "odd/../up"].map((path) => ({
        path,
        reason: "name",
        isFolder: false,
      })),
    });
    store.close();
    server.close();
  });

  it("are named by opendal beside the files, not passed over", async () => {
    const store = await open({
      type: "opendal",
      place: "dav",
      options: { username: "me", password: "word" },
    });
    await store.write(given("odd/fine", "x"), signal);
    const put = await fetch(`${webdav.endpoint}/odd/line%0Aend`, {
      method: "PUT",
      headers: { authorization: `Basic ${Buffer.from("me:word").toString("base64")}` },
      body: "x",
    });
    expect(put.ok).toBe(true);
    expect(await listed(store)).toEqual({
      paths: ["odd/fine"],
      leftOut: [{ path: "odd/line\nend", reason: "name", isFolder: false }],
    });
    store.close();
  });
});

describe("opendal as a store", () => {
  it("opens only what the operator named, with no option that the operator set or that leads elsewhere", async () => {
    places = {
      ...places,
      disk: { service: "fs" as never, options: { root: "/" } },
      azure: { service: "azblob", options: { endpoint: "https://x.blob.core.windows.net" } },
    };
    const options = { endpoint: "http://169.254.169.254" };
    for (const [place, given] of [
      ["dav", options],
      ["dav", { username: "a", config: "x" }],
      ["azure", { container: "a", account_name: "b" }],
      ["disk", {}],
      ["none", {}],
    ] as const) {
      const refused = open({ type: "opendal", place, options: given });
      await expect(refused, place).rejects.toMatchObject({ failure: "permanent" });
    }
    expect(webdav.requests.some((request) => request.includes("169.254"))).toBe(false);
  });

  it("tells a wrong password from a file that is not there", async () => {
    const store = await open({ type: "opendal", place: "dav", options: { username: "me", password: "no" } });
    await expect(store.stat("x", signal)).rejects.toMatchObject({
      failure: "permanent",
      code: "access_denied",
    });
  });
});
