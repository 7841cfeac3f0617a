/** What errors of SQLite mean: a write without space may be repeated, a sync that failed never. */
import { expect, it } from "vitest";
import { storeFailure } from "../../src/store/sqlite_failure.ts";

const NO_SPACE = 28;
const QUOTA = 122;

it.each([
  ["no page is free", { errcode: 13 }, "disk_full"],
  ["a write found no space", { errcode: 778, systemErrno: NO_SPACE }, "disk_full"],
  ["a write was over the quota", { errcode: 778, systemErrno: QUOTA }, "disk_full"],
  ["a write failed", { errcode: 778, systemErrno: 5 }, "store_failed"],
  ["a sync found no space", { errcode: 1_034, systemErrno: NO_SPACE }, "store_failed"],
  ["a sync of the folder found no space", { errcode: 1_290, systemErrno: NO_SPACE }, "store_failed"],
  ["a page is damaged", { errcode: 11 }, "store_damaged"],
])("%s", (_, facts, code) => {
  expect(storeFailure(Object.assign(new Error("from SQLite"), facts), "writing")).toMatchObject({ code });
});
