/** Reads the planted bugs: patches with a header, `Name: value` lines before the diff. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What kinds of mistakes the tests must find; at least two planted bugs of each. */
export const KINDS = [
  /** Something happens before it may, or after it must. */
  "too early or late",
  /** Which answers teach, with which weight, and when it is forgotten. */
  "learning",
  /** Bytes that are wrong, not missing: torn, old, zero, flipped, a sync that lies. */
  "bytes",
  /** The real adapter behaves otherwise than its fake. */
  "adapter",
  /** A constant that cuts, or a window or batch, is crossed or missed by one. */
  "edge",
  /** Two rare things at once. */
  "pair",
  /** Text that is not ASCII in a signature, a checksum or an offset. */
  "text",
  /** A clock that jumps, drifts or stops. */
  "clock",
] as const;

export interface Planted {
  /** The name of its file, without `.patch`. */
  readonly name: string;
  readonly path: string;
  readonly what: string;
  readonly kind: (typeof KINDS)[number];
  /** Filters of vitest. */
  readonly tests: readonly string[];
  readonly needsBuild: boolean;
}

/** Throws when a header lacks something. */
export function readPlanted(): Planted[] {
  return readdirSync(import.meta.dirname)
    .filter((file) => file.endsWith(".patch"))
    .sort()
    .map(readOne);
}

function readOne(file: string): Planted {
  const path = join(import.meta.dirname, file);
  const [header = ""] = readFileSync(path, "utf8").split(/^diff --git /m, 1);
  const member = (name: string): string => new RegExp(`^${name}: (.+)$`, "m").exec(header)?.[1] ?? "";
  const [what, kind, tests] = [member("What"), KINDS.find((one) => one === member("Class")), member("Tests")];
  if (what === "" || kind === undefined || tests === "")
    throw new Error(`${file} needs What, Tests and Class (${KINDS.join(", ")})`);
  const needsBuild = member("Build") === "yes";
  return { name: file.slice(0, -".patch".length), path, what, kind, tests: tests.split(" "), needsBuild };
}
