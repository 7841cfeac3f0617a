/** The planted bugs apply to the tree as it is, and there are enough of every kind; `npm run plant` shows that they are found. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { KINDS, readPlanted } from "./planted/planted.ts";

const ROOT = join(import.meta.dirname, "..");

describe("the planted bugs", () => {
  it.each(readPlanted().map((one) => [one.name, one] as const))(
    "%s applies to the tree as it is",
    (_, { path }) => {
      execFileSync("git", ["apply", "--check", path], { cwd: ROOT, stdio: "pipe" });
    },
  );

  it.each(KINDS)("are at least two of the class: %s", (kind) => {
    expect(readPlanted().filter((one) => one.kind === kind).length).toBeGreaterThanOrEqual(2);
  });
});
