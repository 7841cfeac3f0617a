/** Files of a folder that is backed up, where the system refuses links or a file is deleted meanwhile; and what survives a power cut. */
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { systemDisk } from "../../src/disk.ts";
import { backupFolder, restoreFolder } from "../../src/store/folder/backup.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";

vi.mock("node:fs", async (original) => {
  const real = await original<typeof import("node:fs")>();
  return { ...real, linkSync: vi.fn(real.linkSync), copyFileSync: vi.fn(real.copyFileSync) };
});

const root = mkdtempSync(join(tmpdir(), "perigee-backup-"));
let folders = 0;
afterAll(() => rmSync(root, { recursive: true, force: true }));
afterEach(() => vi.resetAllMocks());

/** A data folder with one file, closed. */
async function dataFolder(): Promise<string> {
  folders += 1;
  const dataDir = join(root, `data-${folders}`);
  await (await openSqliteStore({ dataDir })).close();
  mkdirSync(join(dataDir, "files"), { recursive: true });
  writeFileSync(join(dataDir, "files", "a"), "kept");
  writeFileSync(join(dataDir, "files", "b"), "gone");
  return dataDir;
}

const refused = (code: string): Error => Object.assign(new Error(code), { code });

describe("a backup on a file system without links", () => {
  it("copies files, and leaves out one that is deleted between the refusal and the copy", async () => {
    const dataDir = await dataFolder();
    const real = await vi.importActual<typeof import("node:fs")>("node:fs");
    vi.mocked(linkSync).mockImplementation(() => {
      throw refused("EPERM");
    });
    vi.mocked(copyFileSync).mockImplementation((from, to) => {
      if (String(from).endsWith("/b")) throw refused("ENOENT");
      real.copyFileSync(from, to);
    });
    const { files } = await backupFolder(dataDir, join(root, "copied.backup"));
    const names = files.map(({ name }) => name);
    expect(names).toContain("files/a");
    expect(names).not.toContain("files/b");
  });

  it("fails for a file that cannot be copied", async () => {
    const dataDir = await dataFolder();
    vi.mocked(linkSync).mockImplementation(() => {
      throw refused("EPERM");
    });
    vi.mocked(copyFileSync).mockImplementation(() => {
      throw refused("EIO");
    });
    await expect(backupFolder(dataDir, join(root, "never.backup"))).rejects.toThrow("EIO");
    expect(existsSync(join(root, "never.backup"))).toBe(false);
  });
});

describe("a backup of a folder with files of any name", () => {
  const longest = "n".repeat(100);
  it.each(["März", "試験", " a ", longest])("is restored with the file %j", async (name) => {
    const dataDir = await dataFolder();
    writeFileSync(join(dataDir, name), "kept");
    const [to, restored] = [join(root, `${folders}.backup`), join(root, `restored-${folders}`)];
    await backupFolder(dataDir, to);
    const { files } = await restoreFolder(to, restored);
    expect(files.map((file) => file.name)).toContain(name);
    expect(readFileSync(join(restored, name), "utf8")).toBe("kept");
  });

  it("is refused when a name is longer than an archive has room for, in bytes", async () => {
    const dataDir = await dataFolder();
    writeFileSync(join(dataDir, "ä".repeat(51)), "kept");
    await expect(backupFolder(dataDir, join(root, "long.backup"))).rejects.toThrow("at most 100 bytes");
  });
});

describe("the name of a backup, and of a folder that is restored", () => {
  it("is made durable: both take their names by a rename that syncs the folder", async () => {
    const dataDir = await dataFolder();
    const renames = vi.spyOn(systemDisk, "rename");
    const to = join(root, "named.backup");
    await backupFolder(dataDir, to);
    await restoreFolder(to, join(root, "restored"));
    expect(renames.mock.calls.map(([, name]) => name)).toEqual([to, join(root, "restored")]);
    expect(existsSync(join(root, "restored", "files", "a"))).toBe(true);
  });
});
