/** Real programs on the other side of the wire, as Debian packages them. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { describe, expect, it } from "vitest";

/** Where a program is, or undefined; those of administrators are looked for as well. */
export function pathOf(program: string): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  return folders.map((folder) => join(folder, program)).find((path) => isProgram(path));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Tests against a program. Where it is missing, or may not be started, they are left out with a line that says so;
 * `TEST_COUNTERPARTS=required` makes that a failure.
 */
export function describeCounterpart(
  name: string,
  { isThere, install }: { readonly isThere: boolean; readonly install: string },
  tests: () => void,
): void {
  const missing = `${name} is not there or needs root: its tests are left out; install it with ${install}`;
  if (isThere) {
    describe(name, tests);
    return;
  }
  if (process.env["TEST_COUNTERPARTS"] !== "required") process.stderr.write(`${missing}\n`);
  it(`has ${name} where it is required`, () => {
    expect(process.env["TEST_COUNTERPARTS"], missing).not.toBe("required");
  });
}
