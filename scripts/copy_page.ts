/**
 * Copies the files of the operator page beside its compiled module: they are served as they are, without a build of
 * their own.
 */
import { cpSync, rmSync } from "node:fs";

const target = new URL("../dist/service/page/", import.meta.url);
rmSync(target, { recursive: true, force: true });
cpSync(new URL("../src/service/page/", import.meta.url), target, { recursive: true });
