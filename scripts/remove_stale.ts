/**
 * Removes from `dist` what no source has any more, so that a test of what is loaded or packed sees no file of an earlier build.
 */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const source = fileURLToPath(new URL("../src/", import.meta.url));
/** Filled by other steps of the build. */
const MADE = /^(files|service\/page)\//;

for (const path of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
  if (!/\.\w+$/.test(path) || MADE.test(path)) continue;
  if (!existsSync(join(source, path.replace(/(\.d\.ts|\.js)$/, ".ts")))) rmSync(join(dist, path));
}
