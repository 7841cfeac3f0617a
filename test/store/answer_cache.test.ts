/** The cache of answers: what is kept is found, by other processes, too, within its age and its bytes; no fault of it ends a run. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { type AnswerCache, openAnswerCache } from "../../src/store/answers/answer_cache.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";

const GIB = 1 << 30;
let dir = "";
let notices: string[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "answers-"));
  notices = [];
});

afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

function open(maxBytes = GIB, folder = dir): Promise<AnswerCache> {
  return openAnswerCache({
    ...{ dir: folder, maxBytes, clock: systemClock },
    onNotice: (message) => notices.push(message),
  });
}

function keyOf(number: number): Buffer {
  const key = Buffer.alloc(32, 7);
  key.writeUInt32LE(number);
  return key;
}

async function answersOf(cache: AnswerCache, numbers: readonly number[], wallMs = 1_000, sinceWallMs = 0) {
  const found = await cache.find(Buffer.concat(numbers.map(keyOf)), { wallMs, sinceWallMs });
  return found.map((each) => each?.answer);
}

describe("the cache of answers", () => {
  it("finds what was kept, in the order of the keys, before and after it was opened again", async () => {
    const cache = await open();
    cache.keep({ key: keyOf(1).toString("latin1"), answer: "one", origin: "a" }, 1_000);
    cache.keep({ key: keyOf(2).toString("latin1"), answer: "zwei ü \u2028", origin: "b" }, 1_000);
    expect(await answersOf(cache, [3, 2, 1])).toEqual([undefined, "zwei ü \u2028", "one"]);
    await cache.close();
    const again = await open();
    expect(await again.find(keyOf(2), { wallMs: 2_000, sinceWallMs: 0 })).toEqual([
      { answer: "zwei ü \u2028", origin: "b" },
    ]);
    await again.close();
    expect(notices).toEqual([]);
  });

  it("does not find an answer that is too old, and replaces it", async () => {
    const cache = await open();
    cache.keep({ key: keyOf(1).toString("latin1"), answer: "old", origin: "a" }, 1_000);
    expect(await answersOf(cache, [1], 5_000, 1_001)).toEqual([undefined]);
    expect(await answersOf(cache, [1], 5_000, 1_000)).toEqual(["old"]);
    cache.keep({ key: keyOf(1).toString("latin1"), answer: "new", origin: "a" }, 5_000);
    expect(await answersOf(cache, [1], 5_000, 1_001)).toEqual(["new"]);
    await cache.close();
  });

  it("deletes what was not used for longest when the answers have too many bytes, and its file stays bounded", async () => {
    const text = "x".repeat(10_000);
    const maxBytes = 10 << 20;
    const cache = await open(maxBytes);
    for (let number = 0; number < 3_000; number += 1) {
      cache.keep({ key: keyOf(number).toString("latin1"), answer: text, origin: "a" }, 1_000 + number);
      if (number % 100 === 0) await answersOf(cache, [0], 10_000_000 + number); // used, and written with the next ones
    }
    const [first, second, last] = await answersOf(cache, [0, 1, 2_999]);
    expect([first, second, last]).toEqual([text, undefined, text]);
    await cache.close();
    expect(statSync(join(dir, "answers.sqlite")).size).toBeLessThan(maxBytes * 1.25);
  });

  it("is shared by processes at the same time", async () => {
    const mine = await open();
    const others = await Promise.all([other(100, 200), other(200, 300)]);
    for (let number = 0; number < 100; number += 1)
      mine.keep({ key: keyOf(number).toString("latin1"), answer: `answer ${number}`, origin: "mine" }, 1_000);
    await Promise.all(others.map(({ ended }) => ended));
    const numbers = Array.from({ length: 300 }, (_, number) => number);
    expect(await answersOf(mine, numbers)).toEqual(numbers.map((number) => `answer ${number}`));
    await mine.close();
    expect(notices).toEqual([]);
  });

  it("has only whole answers after a process was killed while it wrote, and goes on", async () => {
    for (let round = 0; round < 3; round += 1) {
      const writer = await other(0, 1_000_000, "x".repeat(2_000));
      await writer.begun;
      writer.kill();
      await writer.ended;
      const cache = await open();
      const numbers = Array.from({ length: 2_000 }, (_, number) => number);
      const found = await answersOf(cache, numbers);
      expect(found.filter((answer) => answer !== undefined).length).toBeGreaterThan(0);
      for (const [number, answer] of found.entries())
        if (answer !== undefined) expect(answer).toBe(`answer ${number}${"x".repeat(2_000)}`);
      await cache.close();
    }
    expect(notices).toEqual([]);
  }, 60_000);

  it("puts a damaged file aside and begins anew", async () => {
    writeFileSync(join(dir, "answers.sqlite"), "this is not a database, whatever its name says".repeat(200));
    const cache = await open();
    cache.keep({ key: keyOf(1).toString("latin1"), answer: "one", origin: "a" }, 1_000);
    expect(await answersOf(cache, [1])).toEqual(["one"]);
    await cache.close();
    expect(notices).toEqual([expect.stringMatching(/answers\.sqlite is damaged .*it is now .*\.damaged/)]);
    expect(readFileSync(join(dir, "answers.sqlite.damaged"), "latin1")).toMatch(/^this is not/);
  });

  it("does not find an answer whose bytes changed on the disk", async () => {
    const cache = await open();
    cache.keep({ key: keyOf(1).toString("latin1"), answer: "the right answer", origin: "a" }, 1_000);
    await cache.close();
    const path = join(dir, "answers.sqlite");
    const bytes = readFileSync(path, "latin1");
    expect(bytes).toContain("the right answer");
    writeFileSync(path, bytes.replace("the right answer", "the wrong answer"), "latin1");
    const again = await open();
    expect(await answersOf(again, [1])).toEqual([undefined]);
    await again.close();
  });

  it("leaves the file of a newer version as it is, and is off", async () => {
    const path = join(dir, "answers.sqlite");
    const database = (await loadSqlite())(path);
    database.exec("CREATE TABLE later (x); PRAGMA user_version = 99");
    database.close();
    const cache = await open();
    cache.keep({ key: keyOf(1).toString("latin1"), answer: "one", origin: "a" }, 1_000);
    expect(await answersOf(cache, [1])).toEqual([undefined]);
    await cache.close();
    expect(notices).toEqual([expect.stringContaining("a newer version of perigee made it (99")]);
  });

  it("is off, with one notice, where its folder cannot be made", async () => {
    writeFileSync(join(dir, "file"), "");
    const cache = await open(GIB, join(dir, "file"));
    expect(await answersOf(cache, [1, 2])).toEqual([undefined, undefined]);
    await cache.close();
    expect(notices).toEqual([expect.stringMatching(/^cache: .*file is not used: /)]);
  });
});

/** Another process that keeps the answers of these numbers, each in a transaction of some. */
async function other(from: number, to: number, more = "") {
  const source = fileURLToPath(new URL("../../src/store/answers/answer_cache.ts", import.meta.url));
  const clock = fileURLToPath(new URL("../../src/clock.ts", import.meta.url));
  const program = `
    const { openAnswerCache } = await import(${JSON.stringify(source)});
    const { systemClock } = await import(${JSON.stringify(clock)});
    const cache = await openAnswerCache({ dir: ${JSON.stringify(dir)}, maxBytes: ${GIB}, clock: systemClock, onNotice: console.error });
    for (let number = ${from}; number < ${to}; number += 1) {
      const key = Buffer.alloc(32, 7);
      key.writeUInt32LE(number);
      cache.keep({ key: key.toString("latin1"), answer: "answer " + number + ${JSON.stringify(more)}, origin: "other" }, 1_000);
      if (number % 50 === 0) await cache.find(Buffer.alloc(32, 9), { wallMs: 1_000, sinceWallMs: 0 });
      if (number === ${from} + 2_000) console.log("begun");
    }
    await cache.close();`;
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return {
    begun: new Promise<void>((resolve) => child.stdout.once("data", () => resolve())),
    ended: new Promise<void>((resolve) => child.once("exit", () => resolve())),
    kill: () => child.kill("SIGKILL"),
  };
}
