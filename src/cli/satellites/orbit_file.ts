/**
 * Files of satellites: a module of Node that exports them, or the JSON that `perigee orbit describe` printed of one.
 */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { PerigeeError } from "../../errors.ts";
import { describeSatellite, fromWire, type SatelliteDescription } from "../../satellites/sdk/description.ts";
import type { AnySatellite } from "../../satellites/sdk/satellite.ts";

/** Runs the module. Throws `usage` for one that does not load, or exports no satellite. */
export async function satellitesOf(file: string): Promise<readonly AnySatellite[]> {
  const url = pathToFileURL(resolve(file)).href;
  const module = await import(url).catch((cause: unknown) => {
    throw new PerigeeError("usage", `${file} does not load: ${reasonOf(cause)}`, { cause });
  });
  const exported = Object.values(module as object).flat() as unknown[]; // a default export may be a list
  const found = [...new Set(exported)].filter(isSatellite);
  if (found.length === 0)
    throw new PerigeeError("usage", `${file} exports no satellite: export what defineSatellite returns`);
  return found;
}

/** Of a module or of JSON. Throws `usage`, `input_unreadable`, and `invalid_request` for what is not a valid description. */
export async function descriptionsOf(file: string): Promise<readonly SatelliteDescription[]> {
  if (!file.endsWith(".json")) return (await satellitesOf(file)).map(describeSatellite);
  const text = await readFile(file, "utf8");
  const parsed = parse(text);
  if (parsed === undefined) throw new PerigeeError("usage", `${file} is not JSON`);
  return (Array.isArray(parsed) ? parsed : [parsed]).map(fromWire);
}

/** What `defineSatellite` returns, also that of another copy of perigee. */
function isSatellite(given: unknown): given is AnySatellite {
  if (typeof given !== "object" || given === null) return false;
  const { name, input, config, run } = given as Partial<AnySatellite>;
  const isSchema = (schema: unknown): boolean =>
    (typeof schema === "object" || typeof schema === "function") && schema !== null && "~standard" in schema;
  return typeof name === "string" && typeof run === "function" && isSchema(input) && isSchema(config);
}

function reasonOf(error: unknown): string {
  const { code, message } =
    error instanceof Error ? (error as NodeJS.ErrnoException) : { code: "", message: String(error) };
  return code === "ERR_UNKNOWN_FILE_EXTENSION"
    ? "this version of Node runs no TypeScript (22.18 and later do): compile it first"
    : message;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
