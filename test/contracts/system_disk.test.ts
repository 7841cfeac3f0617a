/** What the system's disk promises of names, which no test can see without a power cut: that it asks for their durability in time. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { systemDisk } from "../../src/disk.ts";

/** Changes of names and syncs of folders, in their order. */
const { calls } = vi.hoisted(() => ({ calls: [] as string[] }));

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const noted: typeof real.open = async (...given) => {
    const [path, flags] = given;
    const handle = await real.open(...given);
    if (flags === "wx+") calls.push(`made ${String(path)}`);
    const sync = handle.sync.bind(handle);
    return Object.assign(handle, {
      sync: async () => {
        await sync();
        calls.push(`synced ${String(path)}`);
      },
    });
  };
  const rename: typeof real.rename = async (from, to) => {
    await real.rename(from, to);
    calls.push(`renamed ${String(to)}`);
  };
  const mkdir = (async (...given: Parameters<typeof real.mkdir>) => {
    const first = await real.mkdir(...given);
    if (first !== undefined) calls.push(`made ${first}`);
    return first;
  }) as typeof real.mkdir;
  return { ...real, open: noted, rename, mkdir };
});

const root = await mkdtemp(join(tmpdir(), "perigee-disk-"));
afterAll(() => rm(root, { recursive: true, force: true }));
beforeEach(() => {
  calls.length = 0;
});
const at = (...names: string[]) => join(root, ...names);

it("a file that is opened for writing has its name in a synced folder when the call resolves, also where it existed", async () => {
  await (await systemDisk.open(at("file"), "write")).close();
  expect(calls).toEqual([`made ${at("file")}`, `synced ${root}`]);
  calls.length = 0;
  await (await systemDisk.open(at("file"), "write")).close();
  expect(calls).toEqual([`synced ${root}`]); // who made it may have died before its own sync
});

it("a renamed file has its new name in a synced folder when the call resolves", async () => {
  await (await systemDisk.open(at("from"), "write")).close();
  calls.length = 0;
  await systemDisk.rename(at("from"), at("to"));
  expect(calls).toEqual([`renamed ${at("to")}`, `synced ${root}`]);
  expect([existsSync(at("from")), existsSync(at("to"))]).toEqual([false, true]);
});

it("each folder that is made is in a synced folder when the call resolves", async () => {
  for (const [make, name] of [
    [() => systemDisk.makePrivateFolder(at("a", "b", "c")), "a"],
    [async () => (await systemDisk.open(at("d", "e", "file"), "write")).close(), "d"],
  ] as const) {
    calls.length = 0;
    await make();
    const [made, ...syncs] = calls;
    expect(made).toBe(`made ${at(name)}`);
    expect(syncs).toContain(`synced ${root}`);
    expect(syncs).toContain(`synced ${at(name)}`);
  }
});
