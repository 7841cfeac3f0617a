/**
 * The name of a run, by which its next call finds it again: its id, or else its output; of a file without either, its path and what is
 * asked of it. A stream without either is a new run each time.
 */
import { createHash, randomUUID } from "node:crypto";
import { resolve } from "node:path";
import type { Source } from "./input.ts";

/** What a call says of it; see `RunOptions`. */
interface NamedRun {
  readonly id?: string;
  readonly out?: string;
  readonly model?: string;
  readonly sla?: number;
}

/** See above; the paths of files are made absolute. */
export function runName(source: Source, { id, out, model, sla }: NamedRun): string {
  if (id !== undefined) return `id:${id}`;
  if (out !== undefined) return `out:${resolve(out)}`;
  if (typeof source !== "string") return `once:${randomUUID()}`;
  const asked = createHash("sha256")
    .update(JSON.stringify([model, sla]))
    .digest("hex");
  return `in:${resolve(source)}:${asked.slice(0, 16)}`;
}
