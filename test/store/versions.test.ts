/**
 * Versions of what is stored: every file of a data folder either has one that is checked both ways, or needs none.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openEngine } from "../../src/engine/engine.ts";
import { decodeBody } from "../../src/engine/files/task_body.ts";
import { readStep, StepWriter } from "../../src/engine/journal/journal.ts";
import { hasCode, PerigeeError } from "../../src/errors.ts";
import { readHeader, writeEntry } from "../../src/log/records.ts";
import { backupFolder, restoreFolder } from "../../src/store/folder/backup.ts";
import { openKeyStore } from "../../src/store/keys/key_store.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { loadSqlite } from "../../src/store/sqlite_database.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-versions-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const dataDir = (): string => join(folder, "data");
const at = (name: string): string => join(dataDir(), name);

async function refusal(work: () => Promise<unknown> | unknown) {
  const error: unknown = await Promise.resolve()
    .then(work)
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  return error instanceof PerigeeError ? { code: error.code, message: error.message } : error;
}

/** A folder with a finished run and keys. */
async function fill(): Promise<void> {
  writeFileSync(
    join(folder, "in.jsonl"),
    '{"key":"a","request":{"model":"echo:m","contents":[{"parts":[{"text":"hi"}]}]}}\n',
  );
  const { engine } = await openEngine({ dataDir: dataDir(), stateDir: dataDir(), env: {} });
  await engine.run(join(folder, "in.jsonl")).finished;
  await engine.close();
  (await openKeyStore({ dataDir: dataDir(), clock: new FakeClock() })).close();
}

const openStore = async (): Promise<void> =>
  (await openSqliteStore({ dataDir: dataDir(), reserveBytes: 0 })).close();
const openKeys = async (): Promise<void> =>
  (await openKeyStore({ dataDir: dataDir(), clock: new FakeClock() })).close();

async function execute(name: string, sql: string): Promise<void> {
  const database = (await loadSqlite())(at(name));
  database.exec(`PRAGMA busy_timeout = 5000; ${sql}`); // a store that was refused closes a moment later
  database.close();
}

function rewrite(path: string, change: (text: string) => string): void {
  writeFileSync(path, Buffer.from(change(readFileSync(path, "latin1")), "latin1"));
}

/** How each is given another version, and read. */
const VERSIONED: Readonly<
  Record<
    string,
    {
      readonly newest: number;
      /** Below the oldest that is read. */
      readonly older: number;
      readonly words: string;
      readonly set: (version: number) => Promise<void> | void;
      readonly open: () => Promise<unknown> | unknown;
    }
  >
> = {
  "journal.sqlite": {
    newest: 4,
    older: 0,
    words: "the data folder has schema",
    set: (version) => execute("journal.sqlite", `UPDATE schema SET version = ${version}`),
    open: openStore,
  },
  "keys.sqlite": {
    newest: 1,
    older: 0,
    words: "keys.sqlite has schema",
    set: (version) => execute("keys.sqlite", `PRAGMA user_version = ${version}`),
    open: openKeys,
  },
  "folder.json": {
    newest: 1,
    older: 0,
    words: "FOLDER/folder.json has version",
    set: (version) =>
      rewrite(at("folder.json"), (text) => text.replace(/"version":\d/, `"version":${version}`)),
    open: openStore,
  },
  "tasks of the journal": {
    newest: 1,
    older: 0,
    words: "a task of the data folder has version",
    set: (version) => rewrite(join(folder, "task"), (text) => text.replace(/\d/, String(version))),
    open: () => decodeBody(readFileSync(join(folder, "task"), "utf8")),
  },
  "steps of the journal": {
    newest: 6,
    older: 0,
    words: "a step of the journal has version",
    set: (version) => rewrite(join(folder, "step"), (text) => String.fromCharCode(version) + text.slice(1)),
    open: () => readStep(readFileSync(join(folder, "step"))),
  },
  "entries of the work log": {
    newest: 3,
    older: 0,
    words: "an entry of the work log has version",
    set: (version) => rewrite(join(folder, "entry"), (text) => String.fromCharCode(version) + text.slice(1)),
    open: () => readHeader(readFileSync(join(folder, "entry"))),
  },
  "a backup": {
    newest: 1,
    older: 0,
    words: "BACKUP has version",
    set: (version) =>
      rewrite(join(folder, "data.backup"), (text) =>
        text.replace(/\{"version":\d,"files"/, `{"version":${version},"files"`),
      ),
    open: () => restoreFolder(join(folder, "data.backup"), join(folder, "restored")),
  },
};

/** Files without a version, and why they need none. */
const UNVERSIONED: Readonly<Record<string, string>> = {
  "lock.sqlite": "holds a lock and no data",
  "owner.json": "is of the process at work",
  "reserve.bin": "is empty space",
  "learnt.json": "is useful by itself: another version is left unread, below",
  tasks: "holds outputs and copies of inputs, in formats of their own",
};

describe("each version of what is stored", () => {
  beforeEach(async () => {
    await fill();
    await backupFolder(dataDir(), join(folder, "data.backup"));
    writeFileSync(join(folder, "task"), '{"version":1}');
    const header = { outStart: 0, outEnd: 0, outCrc32: 0, voids: 0, committedUsd: 0 };
    writeFileSync(join(folder, "step"), new StepWriter().finish(header));
    const moment = new FakeClock().moment();
    writeFileSync(join(folder, "entry"), writeEntry({ firstSequence: 1, nextTask: 1, names: 0, moment }, []));
  });

  it.each(Object.entries(VERSIONED))(
    "(%s) is refused when it is newer, and when it is too old",
    async (_name, kind) => {
      const { newest, older, set, open } = kind;
      const words = kind.words.replace("FOLDER", dataDir()).replace("BACKUP", join(folder, "data.backup"));
      expect(await refusal(open)).toBeUndefined();
      rmSync(join(folder, "restored"), { recursive: true, force: true });
      await set(newest + 1);
      expect(await refusal(open)).toEqual({
        code: "data_dir_newer",
        message: `${words} ${newest + 1}, this version of perigee reads up to ${newest}: use a newer one`,
      });
      await set(older);
      expect(await refusal(open)).toEqual({
        code: "data_dir_older",
        message: expect.stringMatching(
          new RegExp(
            `^${words} ${older}, which an older perigee wrote; this version reads .*: open it with a version in between first$`,
          ),
        ),
      });
    },
  );

  it("is known for every file of a folder that needs one", () => {
    const files = readdirSync(dataDir()).map((name) => name.replace(/-(wal|shm|journal)$/, ""));
    expect(files.filter((name) => !(name in VERSIONED) && !(name in UNVERSIONED))).toEqual([]);
    expect(files).toContain("keys.sqlite");
    expect(files).toContain("learnt.json");
  });

  it.each([0, 2])("of learnt figures (%i) leaves them unread, and the folder opens", async (version) => {
    rewrite(at("learnt.json"), (text) => text.replace('"version":1', `"version":${version}`));
    const { engine } = await openEngine({ dataDir: dataDir(), stateDir: dataDir(), env: {} });
    await engine.close();
  });

  it("of keys is refused without touching them: the version that wrote them still opens", async () => {
    await execute("keys.sqlite", "PRAGMA user_version = 2");
    const before = readFileSync(at("keys.sqlite"));
    const error: unknown = await openKeys().catch((thrown: unknown) => thrown);
    expect(hasCode(error, "data_dir_newer")).toBe(true);
    expect(readFileSync(at("keys.sqlite")).equals(before)).toBe(true);
  });
});
