/**
 * Reads the configuration file of a command: YAML if its name ends in `.yaml` or `.yml`, else JSON.
 *
 * Of YAML only what JSON has, and comments: no aliases, merge keys, tags or keys that occur twice. An empty file configures nothing.
 */
import { readFile } from "node:fs/promises";
import { errorCodeOf } from "../../disk.ts";
import { type ConfigOptions, checkOptions, readConfigFile } from "../../engine/config/config.ts";
import { withModulesBeside } from "../../engine/config/own_providers.ts";
import { PerigeeError } from "../../errors.ts";

/** Throws `invalid_config` naming file, place, and what was expected. */
export async function readConfiguration(path: string): Promise<ConfigOptions> {
  if (!/\.ya?ml$/i.test(path)) return readConfigFile(path);
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    const why = errorCodeOf(cause) === "ENOENT" ? "no such file" : (errorCodeOf(cause) ?? "unknown reason");
    throw new PerigeeError("invalid_config", `${path} cannot be read: ${why}`, { cause });
  });
  const options = await checkOptions(await yamlValue(text, path), path);
  if (options.providers === undefined) return options;
  return { ...options, providers: withModulesBeside(options.providers, path) };
}

async function yamlValue(text: string, path: string): Promise<unknown> {
  const { readDeclaration } = await import("../../clusters/declaration/yaml_declaration.ts"); // takes 30 ms to load
  const { value, issues } = readDeclaration(text);
  const [first] = issues.list.filter(({ severity }) => severity !== "warning");
  if (first === undefined) return value ?? {};
  const place = first.line === undefined ? "" : `:${first.line}:${first.column ?? 1}`;
  const where = first.path === "" ? "" : `${first.path}: `;
  throw new PerigeeError("invalid_config", `${path}${place}: ${where}${first.message}`);
}
