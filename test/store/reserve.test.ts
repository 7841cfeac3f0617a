import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Reserve } from "../../src/store/folder/reserve.ts";

const MIB = 1 << 20;
const SLICE_BYTES = 32 << 10;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-reserve-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it.each([
  ["1 MiB", MIB, 0],
  ["4 MiB", 4 * MIB, 1],
])("a reserve of %s keeps its last 1 MiB for slices, whatever was released before", (_size, bytes, whole) => {
  const reserve = new Reserve(join(folder, "reserve.bin"), bytes);
  expect(reserve.take()).toBe(true);
  let releases = 0;
  while (reserve.release()) releases += 1;
  expect(releases).toBe(whole + MIB / SLICE_BYTES);
  expect(reserve.isHeld).toBe(false);
});
