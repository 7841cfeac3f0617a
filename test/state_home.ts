/**
 * Commands of tests keep what they learn in a folder of the test file, never in the user's own.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "perigee-state-"));
process.env["XDG_STATE_HOME"] = folder;
afterAll(() => rmSync(folder, { recursive: true, force: true }));
