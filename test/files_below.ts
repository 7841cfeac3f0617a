import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The paths of all files in a folder and the folders in it. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
}

/** The same with what is in them, a character a byte, to be searched for texts. */
export function textsBelow(folder: string): [path: string, text: string][] {
  return filesBelow(folder).map((path) => [path, readFileSync(path, "latin1")]);
}
