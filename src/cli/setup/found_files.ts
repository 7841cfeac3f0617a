/**
 * The configuration and the `.env` that a command finds by itself: `perigee.config.yaml` (`.yml`, `.json`) and `.env` in the
 * working folder or the nearest folder above it that has one, each searched for separately.
 *
 *   the walk ends with the first folder that has `.git`, with the home folder, or at the root of the file system; it includes that folder
 *   a file above the working folder must belong to the user, to root or to the owner of the working folder, and not be writable by
 *   everyone: a configuration names addresses that keys are sent to, and modules that are run
 *
 * Neither is read with `--no-config`. `--config` takes the place of a found configuration. Variables of the environment win over
 * those of `.env`; values are never shown. Limit: 1 MiB for `.env`.
 */
import { readFileSync, type Stats, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, relative } from "node:path";
import { parseEnv } from "node:util";
import { errorCodeOf } from "../../disk.ts";
import { checkVariables } from "../../engine/config/variables.ts";
import { PerigeeError } from "../../errors.ts";

/** Names of a configuration that is found. */
export const CONFIG_NAMES: readonly string[] = [
  "perigee.config.yaml",
  "perigee.config.yml",
  "perigee.config.json",
];
const ENV_NAME = ".env";
const ENV_BYTES_MAX = 1024 ** 2;
/** Variables that a notice names; the others are counted. */
const NAMED_MAX = 3;
/** Those that perigee is most likely to read. */
const TELLING = /^PERIGEE_|_(?:KEY|BASE_URL)$/;
const WRITABLE_BY_ALL = 0o002;

/** Where files are looked for. */
export interface SearchedFrom {
  /** Absolute. */
  readonly folder: string;
  /** Absolute; the walk does not leave it upwards. */
  readonly home: string;
  /** Of the process; undefined on systems without users by number. */
  readonly userId: number | undefined;
}

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface ConfiguredCommand {
  opts(): Record<string, unknown>;
  setOptionValue(name: string, value: unknown): unknown;
}

/**
 * Before a command with `--no-config` runs: sets its `config` to the configuration that was found, `envFile` to the `.env` of
 * which variables were taken, and those variables in `env`; says so in one line of `notice`. Throws `invalid_config`.
 */
export function useFoundFiles(
  command: ConfiguredCommand,
  env: Record<string, string | undefined>,
  notice: (line: string) => void,
): void {
  const { config, quiet } = command.opts();
  if (config === false) {
    command.setOptionValue("config", undefined);
    return;
  }
  const from = { folder: process.cwd(), home: homedir(), userId: process.getuid?.() };
  const configPath = config === undefined ? findConfig(from) : undefined;
  if (configPath !== undefined) command.setOptionValue("config", shown(configPath, from.folder));
  const envPath = findEnv(from);
  const taken = envPath === undefined ? [] : takeVariables(envPath, env, from.folder);
  if (envPath !== undefined && taken.length > 0)
    command.setOptionValue("envFile", shown(envPath, from.folder));
  const used = [
    ...(configPath === undefined ? [] : [shown(configPath, from.folder)]),
    ...(envPath === undefined || taken.length === 0
      ? []
      : [`${variablesText(taken)} of ${shown(envPath, from.folder)}`]),
  ];
  if (used.length > 0 && quiet !== true)
    notice(`perigee: using ${used.join(", and ")} (--no-config uses neither)`);
}

/** The nearest configuration. Throws `invalid_config` for two in one folder, and for one that others may have written. */
export function findConfig(from: SearchedFrom): string | undefined {
  return findUpwards(CONFIG_NAMES, from);
}

/** The nearest `.env`. Throws `invalid_config` for one that others may have written. */
export function findEnv(from: SearchedFrom): string | undefined {
  return findUpwards([ENV_NAME], from);
}

function findUpwards(names: readonly string[], from: SearchedFrom): string | undefined {
  let { folder } = from;
  for (;;) {
    const found = names.map((name) => join(folder, name)).filter((path) => statOf(path)?.isFile() === true);
    const [first, second] = found;
    if (second !== undefined)
      throw new PerigeeError(
        "invalid_config",
        `${found.map((path) => shown(path, from.folder)).join(" and ")} both exist: keep one of them, or name one with --config`,
      );
    if (first !== undefined) {
      refuseForeign(first, folder, from);
      return first;
    }
    const parent = dirname(folder);
    if (folder === from.home || parent === folder || statOf(join(folder, ".git")) !== undefined)
      return undefined;
    folder = parent;
  }
}

/** A user who may write the file may have keys sent anywhere. */
function refuseForeign(path: string, folder: string, from: SearchedFrom): void {
  const file = statOf(path);
  if (file === undefined || from.userId === undefined || folder === from.folder) return;
  const owners = [from.userId, 0, statOf(from.folder)?.uid];
  const name = shown(path, from.folder);
  const why =
    (file.mode & WRITABLE_BY_ALL) !== 0
      ? `every user of this machine may write it (chmod o-w ${name})`
      : !owners.includes(file.uid)
        ? "it belongs to another user"
        : undefined;
  if (why === undefined) return;
  throw new PerigeeError(
    "invalid_config",
    `${name} is not used, because ${why}; ${name.endsWith(ENV_NAME) ? "" : `--config ${name} uses it, and `}--no-config runs without it`,
  );
}

/** Sets those variables that are not set, and returns their names. */
function takeVariables(
  path: string,
  env: Record<string, string | undefined>,
  folder: string,
): readonly string[] {
  const variables = readEnv(path, shown(path, folder));
  const taken = Object.keys(variables).filter((name) => variables[name] !== "" && env[name] === undefined);
  const added = Object.fromEntries(taken.map((name) => [name, variables[name]]));
  try {
    checkVariables(added);
  } catch (cause) {
    if (!(cause instanceof PerigeeError)) throw cause;
    throw new PerigeeError(cause.code, `${shown(path, folder)}: ${cause.message}`, { cause });
  }
  Object.assign(env, added);
  return taken;
}

/** Throws `invalid_config`; no message shows a line of the file. */
function readEnv(path: string, name: string): Readonly<Record<string, string | undefined>> {
  try {
    if ((statOf(path)?.size ?? 0) > ENV_BYTES_MAX)
      throw new PerigeeError("invalid_config", `${name} is larger than 1 MiB; --no-config runs without it`);
    return parseEnv(readFileSync(path, "utf8").replace(/^\uFEFF/, ""));
  } catch (cause) {
    if (cause instanceof PerigeeError) throw cause;
    throw new PerigeeError(
      "invalid_config",
      `${name} cannot be read (${errorCodeOf(cause) ?? "unknown reason"}); --no-config runs without it`,
      { cause },
    );
  }
}

/** The most telling names first. */
function variablesText(names: readonly string[]): string {
  const sorted = [
    ...names.filter((name) => TELLING.test(name)),
    ...names.filter((name) => !TELLING.test(name)),
  ];
  const more = sorted.length - NAMED_MAX;
  const first = sorted.slice(0, NAMED_MAX);
  if (more <= 0) return first.join(", ");
  return `${first.join(", ")} and ${more} more ${more === 1 ? "variable" : "variables"}`;
}

/** As it is named from the working folder. */
function shown(path: string, folder: string): string {
  return relative(folder, path);
}

/** Undefined also where this user may not look. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
