/** Paths of a partition's files in the manifest: relative to its root, with `/`. */
import { relative, resolve, sep } from "node:path";

export class PartitionPaths {
  readonly root: string;

  constructor(root: string) {
    this.root = resolve(root);
  }

  /** The path in the manifest; undefined for a path that is not below the root, empty for the root itself. */
  inside(path: string): string | undefined {
    const full = resolve(path);
    if (full === this.root) return "";
    if (!full.startsWith(this.root + sep)) return undefined;
    return relative(this.root, full).replaceAll(sep, "/");
  }
}
