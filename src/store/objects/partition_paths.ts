/** Paths below the root of a partition, as the manifest has them: without the root, with `/`. */
import { relative, resolve, sep } from "node:path";

export class PartitionPaths {
  readonly root: string;

  constructor(root: string) {
    this.root = resolve(root);
  }

  /** Undefined for what is elsewhere; empty for the root itself. */
  inside(path: string): string | undefined {
    const full = resolve(path);
    if (full === this.root) return "";
    if (!full.startsWith(this.root + sep)) return undefined;
    return relative(this.root, full).replaceAll(sep, "/");
  }
}
