/** `npm run fleet:demo` on the build that is tested. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES } from "../postgres_server.ts";

const SCRIPT = fileURLToPath(new URL("../../scripts/fleet_demo.ts", import.meta.url));

describeCounterpart("the demonstration of a fleet", POSTGRES, () => {
  it("has the same lines as one process, although the worker that had the work was killed", {
    timeout: 180_000,
  }, () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ["--import", "tsx", SCRIPT], {
      encoding: "utf8",
      timeout: 170_000,
    });
    expect([status, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/^\d+\.\d +(one|two|three|four), which works on it, is killed +[1-9]\d*$/m);
    expect(stdout).toMatch(/^\d+\.\d +one process on SQLite has the same lines +300$/m);
  });
});
