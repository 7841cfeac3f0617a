import { expect, it } from "vitest";
import { errorJson } from "../../src/cli/exit.ts";
import { PerigeeError } from "../../src/errors.ts";

it("The JSON of a run that a full disk ended says that it is paused, and of any other error that it failed", () => {
  const error = new PerigeeError("disk_full", "no space left");
  const shown = { code: "disk_full", message: "no space left" };
  expect(JSON.parse(errorJson(error, "paused"))).toEqual({
    status: "paused",
    reason: "disk_full",
    error: shown,
  });
  expect(JSON.parse(errorJson(error))).toEqual({ status: "failed", error: shown });
});
