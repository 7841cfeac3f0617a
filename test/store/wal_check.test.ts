/** Which damage of SQLite's log is refused: each flipped bit before the last commit, after any remains of an older log. */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { checkWal } from "../../src/store/wal_check.ts";

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const SALTS = { start: 8, end: 16 };
const root = mkdtempSync(join(tmpdir(), "perigee-wal-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

interface Frame {
  readonly at: number;
  /** Which commit of the log it is of, from 0. */
  readonly commit: number;
}

/** A log of some commits over a longer, older one; those frames of it that count, and how many lie behind. */
async function logOf(name: string, pageBytes: number, commits: number) {
  const path = join(root, `${name}.sqlite`);
  const database = (await loadSqlite())(path);
  database.exec(`PRAGMA page_size = ${pageBytes}; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0`);
  database.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)");
  const insert = (rows: number) =>
    database.exec(`INSERT INTO t (b) SELECT zeroblob(${pageBytes}) FROM
    (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows}) SELECT i FROM n)`);
  for (let row = 0; row < 4 * commits; row += 1) insert(3);
  database.exec("PRAGMA wal_checkpoint(RESTART)");
  for (let row = 0; row < commits; row += 1) insert(1 + (row % 3));
  const wal = `${path}.copy-wal`;
  copyFileSync(`${path}-wal`, wal);
  database.close();
  const bytes = readFileSync(wal);
  const frames: Frame[] = [];
  let commit = 0;
  let at = HEADER_BYTES;
  for (; at + FRAME_HEADER_BYTES + pageBytes <= bytes.length; at += FRAME_HEADER_BYTES + pageBytes) {
    const salts = bytes.subarray(at + SALTS.start, at + SALTS.end);
    if (!salts.equals(bytes.subarray(16, 24))) break; // of the older log
    frames.push({ at, commit });
    if (bytes.readUInt32BE(at + 4) !== 0) commit += 1;
  }
  expect(commit).toBe(commits);
  return { wal, bytes, frames, olderBytes: bytes.length - at };
}

/** Where the log is refused with this bit flipped; undefined where it is accepted. */
function refusedAt(wal: string, bytes: Buffer, at: number, bit: number): unknown {
  const damaged = Buffer.from(bytes);
  damaged[at] = (damaged[at] ?? 0) ^ (1 << bit);
  writeFileSync(wal, damaged);
  try {
    checkWal(wal);
    return undefined;
  } catch (error) {
    return (error as { details?: { offset?: number } }).details?.offset ?? error;
  }
}

describe("the check of SQLite's log", () => {
  it.each([512, 4_096, 65_536])(
    "with pages of %i bytes finds each flipped bit before the last commit and takes the last for torn",
    async (pageBytes) => {
      const { wal, bytes, frames, olderBytes } = await logOf(String(pageBytes), pageBytes, 5);
      expect(olderBytes).toBeGreaterThan(4 * pageBytes);
      expect(refusedAt(wal, bytes, bytes.length - 1, 0)).toBeUndefined(); // in the older one
      for (const { at, commit } of frames) {
        const places = [0, 16, 23, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + pageBytes - 1];
        for (const [index, place] of places.entries()) {
          expect(refusedAt(wal, bytes, at + place, index % 8)).toBe(commit < 4 ? at : undefined);
        }
      }
    },
  );

  it.each([0, 1, 31, 32, 55, 56])("takes %i bytes for a log that was never written", (length) => {
    const wal = join(root, `short-${length}-wal`);
    writeFileSync(wal, Buffer.alloc(length));
    expect(() => checkWal(wal)).not.toThrow();
  });
});
