/**
 * Checks what npm would publish, after a build: `npm run package`
 *
 * It is packed once, from the build that is there. `attw --pack` and `publint` pack it each for themselves, the first
 * with a clean build before it.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "perigee-package-"));
try {
  const words = ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder];
  const tarball = join(folder, execFileSync("npm", words, { encoding: "utf8" }).trim());
  for (const [command, ...options] of [
    ["publint", "--strict", tarball],
    ["attw", tarball, "--profile", "esm-only"],
  ] as const)
    execFileSync(command, options, { stdio: "inherit" });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
