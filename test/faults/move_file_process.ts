/**
 * A process that moves a file and dies by SIGKILL at its n-th step: `node move_file_process.mjs ROOT STEP`, bundled.
 *
 * Steps are the bounds of notes (before and after each) and of progress. Notes are kept in ROOT/notes.json.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { moveFile } from "../../src/satellites/builtin/move_file/move_file.ts";
import type { Notes } from "../../src/satellites/sdk/satellite.ts";
import type { Json, JsonObject } from "../../src/work/json.ts";
import { type Attempt, attempt } from "../satellites/builtin/one_attempt.ts";

class FileNotes implements Notes {
  readonly #path: string;
  readonly #step: () => void;

  constructor(path: string, step: () => void) {
    this.#path = path;
    this.#step = step;
  }

  get(name: string): Json | undefined {
    return this.#all()[name];
  }

  async set(name: string, value: Json): Promise<void> {
    this.#step();
    writeFileSync(`${this.#path}.new`, JSON.stringify({ ...this.#all(), [name]: value }));
    renameSync(`${this.#path}.new`, this.#path);
    this.#step();
  }

  #all(): JsonObject {
    return existsSync(this.#path) ? (JSON.parse(readFileSync(this.#path, "utf8")) as JsonObject) : {};
  }
}

/** Resolves with the output, if the process lives on. */
export function moveIn(root: string, step: () => void): Promise<JsonObject> {
  const given: Attempt = {
    input: { source: "a.bin", destination: "b/c.bin" },
    config: { from: { type: "fs", root: "in" }, store: { type: "fs", root: "out" } },
    notes: new FileNotes(join(root, "notes.json"), step),
    onProgress: step,
  };
  return attempt(moveFile({ roots: { in: join(root, "in"), out: join(root, "out") } }), given);
}

const [, script, root, at] = process.argv;
if (script?.endsWith("move_file_process.mjs") && root !== undefined) {
  let steps = 0;
  process.stdout.write("ready\n");
  await moveIn(root, () => {
    steps += 1;
    if (steps === Number(at)) process.kill(process.pid, "SIGKILL");
  });
}
